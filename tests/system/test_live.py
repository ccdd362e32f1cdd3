"""Changes in the running agent: by commands and by an editor, without touching other cameras' streams."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_agent.control.client import ask
from edge_agent.control.protocol import NoAgentError
from tests.conftest import ServerProgram, StartServer, script
from tests.demo_cameras import DemoCameras
from tests.system.conftest import Gateway

NOT_WELL, NO_AGENT = 3, 4


class Asked:
    """What the agent tells over its socket: what `edge-agent status --json` prints."""

    def __init__(self, gateway: Gateway) -> None:
        self.told = ask(gateway.config, {"command": "status"})

    def camera(self, name: str) -> dict[str, Any]:
        """Give a camera's part."""
        return next(camera for camera in self.told["cameras"] if camera["name"] == name)


def command(gateway: Gateway, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    whole = [script("edge-agent"), "--config", str(gateway.config), *arguments]
    return subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.fixture(scope="module")
def url(walkers: Path) -> Iterator[str]:
    """Serve the footage to as many viewers as there are."""
    with DemoCameras() as cameras:
        yield cameras.serve(walkers, loop=True).url


@pytest.fixture(scope="module")
def one_gateway(tmp_path_factory: pytest.TempPathFactory, url: str) -> Iterator[Gateway]:
    """Give a gateway of two cameras, and its server; one for all tests here, which put it in order again."""
    gateway = Gateway(tmp_path_factory.mktemp("gateway"))
    server = ServerProgram("--detector", "simulated:1")
    with contextlib.ExitStack() as ending:
        ending.callback(server.kill)
        ending.callback(gateway.kill)
        gateway.command("set-server", server.address)
        for name in ("door", "yard"):
            gateway.command("add-camera", name, url)
        gateway.config.with_name("first").write_text(gateway.config.read_text())
        yield gateway


@pytest.fixture
def running(one_gateway: Gateway) -> Gateway:
    """Have the agent run with the configuration that it had at first, and both cameras stream."""
    one_gateway.config.with_name("again").write_text(one_gateway.config.with_name("first").read_text())
    one_gateway.config.with_name("again").replace(one_gateway.config)
    if not one_gateway.has_started or one_gateway.agent.process.poll() is not None:
        one_gateway.start()
    one_gateway.wait_for(lambda: _is_as_at_first(one_gateway), "both cameras stream")
    return one_gateway


def _is_as_at_first(gateway: Gateway) -> bool:
    try:
        status = Asked(gateway)
    except NoAgentError:
        return False
    names = [camera["name"] for camera in status.told["cameras"]]
    rates = {camera["wanted_fps"] for camera in status.told["cameras"]}
    return not status.told["problems"] and names == ["door", "yard"] and rates == {10.0}


def _opens(gateway: Gateway) -> list[int]:
    """Tell how often each of the two cameras was connected to."""
    return [Asked(gateway).camera(name)["capture"]["opens"] for name in ("door", "yard")]


def test_commands_take_effect_in_the_running_agent(running: Gateway, url: str) -> None:
    """When a command returns, it is so; what concerns the frames alone does not even reconnect its camera."""
    opens = _opens(running)
    running.command("add-camera", "gate", url, "--label", "person")
    assert [camera["name"] for camera in Asked(running).told["cameras"]] == ["door", "yard", "gate"]
    running.wait_for_more(2, "gate")
    running.command("disable", "gate")
    assert Asked(running).camera("gate")["state"] == "disabled"
    after = len(running.results("gate"))

    mask = "0,0 1,0 1,1 0,1"
    running.command("set-camera", "yard", "--fps", "2", "--max-width", "320", "--jpeg-quality", "50")
    running.command("set-camera", "yard", "--privacy-mask", mask, "--motion", "on", "--max-kbit", "800")
    assert Asked(running).camera("yard")["wanted_fps"] == 2.0
    running.wait_for(lambda: running.results("yard")[-1]["width"] == 320, "narrower frames")
    running.wait_for(
        lambda: Asked(running).camera("yard")["motion"]["still_share"], "the gate, of a picture all black"
    )
    running.command("enable", "gate")
    running.wait_for(lambda: len(running.results("gate")) > after, "frames of the gate again")
    running.command("remove-camera", "gate")
    status = Asked(running)

    assert [camera["name"] for camera in status.told["cameras"]] == ["door", "yard"]
    assert _opens(running) == opens
    assert all(status.camera(name)["state"] == "streaming" for name in ("door", "yard"))
    assert not status.told["problems"]
    said = running.agent.errors
    assert any(f"user {os.getuid()} (process " in line and "remove camera gate" in line for line in said)


def test_what_concerns_the_source_reconnects_that_camera_alone(running: Gateway, url: str) -> None:
    """Another URL, then none that works."""
    opens = _opens(running)
    running.command("set-camera", "yard", "--url", url, "--read-timeout-s", "3")
    running.wait_for(lambda: Asked(running).camera("yard")["state"] == "streaming", "the yard again")
    running.command("set-camera", "yard", "--url", "rtsp://127.0.0.1:1/live")
    running.wait_for(lambda: Asked(running).camera("yard")["state"] == "offline", "the yard is away")
    status = Asked(running)

    assert command(running, "status").returncode == NOT_WELL
    assert status.told["problems"] == [
        f"camera yard: offline: {status.camera('yard')['reason']}",
    ]
    assert _opens(running)[0] == opens[0]
    assert "TCP connect: 127.0.0.1 port 1" in status.camera("yard")["reason"]


def test_another_server_takes_over_live(running: Gateway, start_server: StartServer) -> None:
    """Answers come from it, and no camera has been connected anew."""
    other = start_server("--detector", "simulated:2")
    opens = _opens(running)
    running.command("set-server", other.address)
    running.wait_for(lambda: Asked(running).told["server"]["connected"], "the other server")
    running.wait_for_more(5, "door")
    running.wait_for_more(5, "yard")
    status = Asked(running)

    assert status.told["server"]["address"] == other.address
    assert status.told["server"]["detector"] == "simulated:2"
    assert _opens(running) == opens


def test_an_editor_is_as_good_as_a_command(running: Gateway, url: str) -> None:
    """What is saved is taken in; what is wrong is shown until it is mended, and nothing stops for it."""
    good = running.config.read_text()
    opens = _opens(running)
    running.config.write_text(good + "[cameras.gate\n")
    running.wait_for(lambda: Asked(running).told["configuration"]["error"], "the mistake is told")
    status = Asked(running)
    assert command(running, "status", "--json").returncode == NOT_WELL
    assert "agent.toml:" in status.told["configuration"]["error"]
    assert command(running, "disable", "door").returncode == 1
    running.wait_for_more(3, "door")

    running.config.write_text(good + f'[cameras.gate]\nurl = "{url}"\nenabled = false\n')
    running.wait_for(lambda: not Asked(running).told["problems"], "the mended file")
    status = Asked(running)
    assert status.camera("gate")["state"] == "disabled"
    assert _opens(running) == opens


def test_one_agent_for_a_configuration(running: Gateway) -> None:
    """A second one is refused; after one that was killed another starts."""
    second = command(running, "run")
    assert second.returncode == 1
    assert (
        f"an agent runs with this configuration already (process {running.agent.process.pid})"
        in second.stderr
    )
    running.agent.signal(signal.SIGKILL)
    running.agent.wait()
    done = command(running, "status")
    assert done.returncode == NO_AGENT
    assert "no agent runs: nobody listens at " in done.stderr
    running.start()
    running.wait_for_more(2, "door")
    running.wait_for(lambda: command(running, "status").returncode == 0, "all is well")


def test_files_that_hang_hold_up_no_camera_and_no_end(running: Gateway) -> None:
    """A configuration that is never read to its end, here a pipe that nobody writes: SIGTERM ends it all."""
    running.config.unlink()
    os.mkfifo(running.config)
    time.sleep(1.5)
    running.agent.signal(signal.SIGHUP)
    running.wait_for_more(3, "door")
    begun_s = time.monotonic()

    assert running.stop() == 0
    assert time.monotonic() - begun_s < 8.0


def test_what_a_power_cut_left_of_the_file_stops_no_camera(running: Gateway) -> None:
    """The agent starts with what was in use before, says so, and goes over to the file once it is mended."""
    good = running.config.read_text()
    kept = running.config.with_name("agent.state") / "last-good.toml"
    running.wait_for(lambda: kept.exists() and kept.read_text() == good, "a copy is kept")
    running.kill()
    running.config.write_text("")
    running.start()
    running.wait_for_more(2, "door")

    told = Asked(running).told
    assert "no central server is set" in told["configuration"]["error"]
    assert any("no central server is set" in problem for problem in told["problems"])
    assert any("in use before" in line for line in running.agent.errors)

    running.config.write_text(good)
    running.wait_for(lambda: not Asked(running).told["configuration"]["error"], "the file is in effect again")


def test_without_a_place_of_its_own_it_captures_all_the_same(
    gateway: Gateway, start_server: StartServer, url: str
) -> None:
    """A state directory that cannot be made, as on a disk that is full or read-only: it says so."""
    gateway.command("set-server", start_server("--detector", "simulated:1").address)
    gateway.command("add-camera", "door", url)
    gateway.config.with_name("agent.state").write_text("in its way")
    gateway.start()
    gateway.wait_for_more(3, "door")

    assert any("no control socket and no lock" in line for line in gateway.agent.errors)
    assert command(gateway, "status", "--json").returncode == NO_AGENT


def test_readings_of_devices_and_a_status_for_people(running: Gateway) -> None:
    """A reading is taken for the server; the table names every camera; --watch goes on until it is ended."""
    before = _records(running)
    running.command("report-reading", "thermometer-1", "21.5", "--unit", "C", "--battery-percent", "80")
    running.command("report-reading", "freezer-2", "-18.5")
    refused = command(running, "report-reading", "thermometer-1", "nan")
    running.wait_for(
        lambda: sum(Asked(running).told["spool"][key] for key in ("waiting", "uploaded")) >= before + 2,
        "both readings",
    )
    shown = running.command("status")
    watching = subprocess.Popen(
        [script("edge-agent"), "--config", str(running.config), "status", "--watch", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    with watching.stdout:
        followed = [json.loads(watching.stdout.readline()) for _ in range(2)]
        watching.send_signal(signal.SIGINT)
    code = watching.wait(10)

    assert refused.returncode == 2
    assert "value: expected a finite number" in refused.stderr
    assert "door" in shown
    assert "streaming" in shown
    assert "connected" in shown
    assert " MB a day" in shown
    assert followed[0]["uplink"]["kbit_s"] > 0 < followed[0]["uplink"]["mb_day"]
    assert followed[1]["agent"]["for_s"] > followed[0]["agent"]["for_s"]
    assert code == 130


def _records(gateway: Gateway) -> int:
    told = Asked(gateway).told["spool"]
    return int(told["waiting"]) + int(told["uploaded"])


def test_who_watches_sees_the_agent_end_and_come_back(running: Gateway) -> None:
    """On a terminal, until Ctrl-C."""
    ours, its = pty.openpty()
    whole = [script("edge-agent"), "--config", str(running.config), "status", "--watch"]
    watching = subprocess.Popen(whole, stdin=its, stdout=its, stderr=its, start_new_session=True)
    os.close(its)

    def wait_for(text: str) -> None:
        shown = ""
        while text not in shown:
            shown += os.read(ours, 4096).decode(errors="replace")

    wait_for("streaming")
    running.stop()
    wait_for("no agent runs")
    running.start()
    wait_for("streaming")
    watching.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):
        while os.read(ours, 4096):
            pass
    os.close(ours)

    assert watching.wait(10) == 130


# The interpreter may lie where others may not go: what is needed is imported before.
AS_NOBODY = """
import grp, os, pwd, sys, tomlkit
import edge_agent.commands.changing, edge_agent.control.client, edge_agent.cli
os.setgroups([]), os.setgid(65534), os.setuid(65534)
sys.exit(edge_agent.cli.main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_whoever_may_neither_write_nor_ask_is_told_so(running: Gateway) -> None:
    """Which file, which socket, and who may."""
    for folder in running.config.parents:
        if "pytest" in str(folder):
            folder.chmod(0o755)
    arguments = ["--config", str(running.config), "disable", "door"]
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, *arguments], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 1, done.stderr
    assert f"{running.config}: cannot be changed: Permission denied; nor by the agent at " in done.stderr
    assert "control.sock: it is for root alone" in done.stderr
    assert Asked(running).camera("door")["state"] == "streaming"
