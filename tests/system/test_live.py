"""Changes in the running agent: by commands and by an editor, without touching other cameras' streams."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartServer, script
from tests.demo_cameras import DemoCameras
from tests.system.conftest import Gateway

NOT_WELL, NO_AGENT = 3, 4


class Asked:
    """What `edge-agent status --json` told, with its exit code."""

    def __init__(self, gateway: Gateway) -> None:
        done = command(gateway, "status", "--json")
        self.code, self.errors = done.returncode, done.stderr
        self.told: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}

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


@pytest.fixture
def running(gateway: Gateway, start_server: StartServer, url: str) -> Gateway:
    """Run two cameras that stream."""
    server = start_server("--detector", "simulated:1")
    gateway.command("set-server", server.address)
    gateway.command("add-camera", "door", url)
    gateway.command("add-camera", "yard", url)
    gateway.start()
    gateway.wait_for_more(3, "door")
    gateway.wait_for_more(3, "yard")
    return gateway


def test_commands_take_effect_in_the_running_agent(running: Gateway, url: str) -> None:
    """When a command returns, it is so; what concerns the frames alone does not even reconnect its camera."""
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
    assert [status.camera(name)["capture"]["opens"] for name in ("door", "yard")] == [1, 1]
    assert all(status.camera(name)["state"] == "streaming" for name in ("door", "yard"))
    assert not status.told["problems"]
    running.stop()
    for name in ("door", "yard"):
        numbers = [record["frame_id"] for record in running.results(name)]
        assert numbers == sorted(set(numbers)), "one stream from its start to the end"
    said = running.agent.errors
    assert any(f"user {os.getuid()} (process " in line and "remove camera gate" in line for line in said)


def test_what_concerns_the_source_reconnects_that_camera_alone(running: Gateway, url: str) -> None:
    """Another URL, then none that works."""
    running.command("set-camera", "yard", "--url", url, "--read-timeout-s", "3")
    running.wait_for(lambda: Asked(running).camera("yard")["state"] == "streaming", "the yard again")
    running.command("set-camera", "yard", "--url", "rtsp://127.0.0.1:1/live")
    running.wait_for(lambda: Asked(running).camera("yard")["state"] == "offline", "the yard is away")
    status = Asked(running)

    assert status.code == NOT_WELL
    assert status.told["problems"] == [
        f"camera yard: offline: {status.camera('yard')['reason']}",
    ]
    assert status.camera("door")["capture"]["opens"] == 1
    assert "TCP connect: 127.0.0.1 port 1" in status.camera("yard")["reason"]


def test_another_server_takes_over_live(running: Gateway, start_server: StartServer) -> None:
    """Answers come from it, and no camera has been connected anew."""
    other = start_server("--detector", "simulated:2")
    running.command("set-server", other.address)
    running.wait_for(lambda: Asked(running).told["server"]["connected"], "the other server")
    running.wait_for_more(5, "door")
    running.wait_for_more(5, "yard")
    status = Asked(running)

    assert status.told["server"]["address"] == other.address
    assert status.told["server"]["detector"] == "simulated:2"
    assert [status.camera(name)["capture"]["opens"] for name in ("door", "yard")] == [1, 1]


def test_an_editor_is_as_good_as_a_command(running: Gateway, url: str) -> None:
    """What is saved is taken in; what is wrong is shown until it is mended, and nothing stops for it."""
    good = running.config.read_text()
    running.config.write_text(good + "[cameras.gate\n")
    running.wait_for(lambda: Asked(running).told["configuration"]["error"], "the mistake is told")
    status = Asked(running)
    assert status.code == NOT_WELL
    assert "agent.toml:" in status.told["configuration"]["error"]
    assert command(running, "disable", "door").returncode == 1
    running.wait_for_more(3, "door")

    running.config.write_text(good + f'[cameras.gate]\nurl = "{url}"\nenabled = false\n')
    running.wait_for(lambda: Asked(running).code == 0, "the mended file")
    status = Asked(running)
    assert status.camera("gate")["state"] == "disabled"
    assert [status.camera(name)["capture"]["opens"] for name in ("door", "yard")] == [1, 1]


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
    assert Asked(running).code == NO_AGENT
    assert "no agent runs: nobody listens at " in Asked(running).errors
    running.start()
    running.wait_for_more(2, "door")
    running.wait_for(lambda: Asked(running).code == 0, "all is well")


def test_readings_of_devices_and_a_status_for_people(running: Gateway) -> None:
    """A reading is taken for the server; the table names every camera; --watch goes on until it is ended."""
    before = _records(running)
    running.command("report-reading", "thermometer-1", "21.5", "--unit", "C", "--battery-percent", "80")
    refused = command(running, "report-reading", "thermometer-1", "nan")
    running.wait_for(
        lambda: sum(Asked(running).told["spool"][key] for key in ("waiting", "uploaded")) > before,
        "a reading",
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
    assert followed[1]["agent"]["for_s"] > followed[0]["agent"]["for_s"]
    assert code == 130


def _records(gateway: Gateway) -> int:
    told = Asked(gateway).told["spool"]
    return int(told["waiting"]) + int(told["uploaded"])


# The interpreter may lie where others may not go: what is needed is imported before.
AS_NOBODY = """
import grp, os, pwd, sys, tomlkit
import edge_agent.commands.changing, edge_agent.control.client, edge_agent.cli
os.setgroups([]), os.setgid(65534), os.setuid(65534)
sys.exit(edge_agent.cli.main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_whoever_may_neither_write_nor_ask_is_told_so(running: Gateway, tmp_path: Path) -> None:
    """Which file, which socket, and who may."""
    for folder in (tmp_path, *tmp_path.parents):
        if "pytest" in folder.name or folder == tmp_path:
            folder.chmod(0o755)
    arguments = ["--config", str(running.config), "disable", "door"]
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, *arguments], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 1, done.stderr
    assert f"{running.config}: cannot be changed: Permission denied; nor by the agent at " in done.stderr
    assert "control.sock: it is for root alone" in done.stderr
    assert Asked(running).camera("door")["state"] == "streaming"
