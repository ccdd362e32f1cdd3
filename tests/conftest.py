"""Fixtures for all tests: real programs as processes, real footage, scratch directories."""

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.disks", "tests.gstreamer.plugin"]

# For all tests: how long an example takes, on a busy machine, says nothing about whether it is right.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# What starts the tests may have these ignored (nohup, a shell's background), and programs inherit that.
for _number, _usual in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

ROOT = Path(__file__).parent.parent
START_TIMEOUT_S = 30.0
END_TIMEOUT_S = 15.0


class Program:
    """One of the project's programs as a process; its output is read by threads and kept."""

    def __init__(self, *command: str, env: dict[str, str] | None = None) -> None:
        self.command = command
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._new_lines: queue.Queue[str] = queue.Queue()
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self._readers = [
            threading.Thread(target=self._read_output, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_output(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))
                self._new_lines.put(line.rstrip("\n"))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as output:
            for line in output:
                self.errors.append(line.rstrip("\n"))

    def wait_for_line(self, pattern: str, timeout_s: float = START_TIMEOUT_S) -> re.Match[str]:
        """Wait for a line of standard output that matches."""
        while True:
            try:
                line = self._new_lines.get(timeout=timeout_s)
            except queue.Empty:
                pytest.fail(f"{self.command}: no line {pattern!r}; stdout {self.lines}, stderr {self.errors}")
            if match := re.search(pattern, line):
                return match

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """Wait for the end; gives back the exit code."""
        code = self.process.wait(timeout_s)
        for reader in self._readers:
            reader.join(timeout_s)
        return code

    def stop(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """Ask it to end and wait."""
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> None:
        """End it at once."""
        if self.process.poll() is None:
            self.process.kill()
        self.wait()


def script(name: str) -> str:
    """Give the path of a console script of the environment that runs the tests."""
    return str(Path(sys.executable).parent / name)


class ServerProgram(Program):
    """A central server that listens on a free port of loopback."""

    def __init__(self, *options: str, listen: str = "127.0.0.1:0") -> None:
        super().__init__(script("central-server"), "serve", "--listen", listen, *options)
        self.address = self.wait_for_line(r"^listening (\S+:\d+)$")[1]


StartServer = Callable[..., ServerProgram]
StartProgram = Callable[..., Program]


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Start central servers with options; they are ended after the test."""
    with contextlib.ExitStack() as ending:

        def start(*options: str, listen: str = "127.0.0.1:0") -> ServerProgram:
            server = ServerProgram(*options, listen=listen)
            ending.callback(server.kill)
            return server

        yield start


@pytest.fixture
def start_program() -> Iterator[StartProgram]:
    """Start one of the console scripts with arguments; it is ended after the test."""
    with contextlib.ExitStack() as ending:

        def start(name: str, *arguments: str, env: dict[str, str] | None = None) -> Program:
            program = Program(script(name), *arguments, env=env)
            ending.callback(program.kill)
            return program

        yield start


@pytest.fixture(scope="session")
def walkers() -> Path:
    """Give the footage: 400 frames of 768 x 576 at 10 fps, people walking."""
    return ROOT / "tests" / "media" / "walkers.mp4"
