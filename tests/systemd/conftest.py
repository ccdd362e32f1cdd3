"""One booted machine for the tests of the service, with a camera and a central server beside it."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import Program, script
from tests.systemd.machine import CannotBootError, Machine

UNIT = "edge-agent.service"
AGENT = script("edge-agent")
WATCHDOG_S = 3.0
CONFIGURATION = "/etc/camera-ai/agent.toml"


class Gateway:
    """The machine with the service, and what the service talks to."""

    def __init__(self, machine: Machine, server: str, camera: str) -> None:
        self.machine = machine
        self.server = server
        self.camera = camera

    def agent(self, *arguments: str, check: bool = True) -> str:
        """Run a command of the agent as root; gives back all that it printed."""
        done = self.machine.run(AGENT, *arguments, check=check)
        return done.stdout + done.stderr

    def systemctl(self, *arguments: str) -> None:
        """Run systemctl."""
        self.machine.run("systemctl", *arguments)

    def show(self, name: str) -> str:
        """Give a property of the service."""
        return self.machine.show(UNIT, name)

    def drop_in(self, name: str, *lines: str) -> None:
        """Change the service, as an administrator would."""
        self.machine.write(f"/etc/systemd/system/{UNIT}.d/{name}.conf", "\n".join(("[Service]", *lines, "")))
        self.systemctl("daemon-reload")

    def undo(self, name: str) -> None:
        """Take a change of the service back."""
        self.machine.run("rm", f"/etc/systemd/system/{UNIT}.d/{name}.conf")
        self.systemctl("daemon-reload")

    def wait_for(self, condition: Callable[[], object], what: str, timeout_s: float = 40.0) -> None:
        """Wait until something holds; fail with the end of the service's journal when it does not in time."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline_s:
                lines = [str(entry.get("MESSAGE")) for entry in self.machine.journal(UNIT, "--lines=30")]
                pytest.fail(
                    f"not within {timeout_s:g} s: {what}; status {self.show('StatusText')!r}; {lines}"
                )
            time.sleep(0.1)

    def wait_for_status(self, text: str) -> None:
        """Wait for the service to tell this about itself, whatever its records do."""
        self.wait_for(lambda: self.show("StatusText").startswith(f"{text};"), f"status {text!r}")

    def main_process(self) -> int:
        """Give the service's process, as the machine numbers it; 0 when it does not run."""
        return int(self.show("MainPID"))

    def restarts(self) -> int:
        """Give how often systemd has started it again by itself."""
        return int(self.show("NRestarts"))


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Boot a machine; the tests are skipped, with the reason, where none can be booted."""
    try:
        booted = Machine(tmp_path_factory.mktemp("machine"))
    except CannotBootError as reason:
        pytest.skip(str(reason))
    with contextlib.closing(booted):
        yield booted


@pytest.fixture(scope="session")
def bare_gateway(machine: Machine, walkers: Path) -> Iterator[Gateway]:
    """Start a camera and a central server in the machine; no agent is installed yet."""
    with contextlib.ExitStack() as ending:
        camera = Program(*machine.inside(AGENT, "demo-camera", str(walkers)))
        ending.callback(kill, camera)
        server = Program(
            *machine.inside(
                script("central-server"), "serve", "--listen", "127.0.0.1:0", "--detector", "simulated:1"
            )
        )
        ending.callback(kill, server)
        url = camera.wait_for_line(r"(rtsp://\S+)")[1]
        yield Gateway(machine, server.wait_for_line(r"^listening (\S+:\d+)$")[1], url)


def kill(program: Program) -> None:
    """End a program of the machine: what was started outside of it only waits for it."""
    for process in psutil.Process(program.process.pid).children():
        process.kill()
    program.kill()


@pytest.fixture(scope="session")
def installed(bare_gateway: Gateway) -> Gateway:
    """Install the service and start it, with one camera; restarts come sooner than as shipped."""
    bare_gateway.drop_in("sooner", "RestartSec=100ms", f"WatchdogSec={WATCHDOG_S:g}s")
    bare_gateway.agent("set-server", bare_gateway.server)
    bare_gateway.agent("add-camera", "door", bare_gateway.camera)
    bare_gateway.agent("install-service")
    return bare_gateway


@pytest.fixture
def gateway(installed: Gateway) -> Gateway:
    """Give the service, running well."""
    installed.systemctl("start", UNIT)
    installed.wait_for_status("1 of 1 camera streaming; server connected")
    return installed
