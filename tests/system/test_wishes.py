"""What the server wishes of a gateway's camera, from the operator's command to the camera's frames."""

import json
import signal
import subprocess
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import StartServer, script
from tests.system.conftest import Gateway


def operate(socket: Path, command: str, *arguments: str) -> str:
    """Run a command of the server's operator."""
    done = subprocess.run(
        [script("central-server"), command, "--socket", str(socket), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def latest_intervals_s(gateway: Gateway, count: int) -> list[float]:
    """Give the seconds between the captures of the latest frames, by their presentation times."""
    times = [datetime.fromisoformat(record["capture_time"]) for record in gateway.results("door")]
    return [(later - earlier).total_seconds() for earlier, later in pairwise(times[-count - 1 :])]


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


def test_another_rate(gateway: Gateway, start_server: StartServer, control: Path, walkers: Path) -> None:
    """Lower, above what the gateway has set, back to its own; also where settings have changed since."""
    server = start_server("--detector=simulated:1", f"--control={control}")
    gateway.command("set-server", server.address)
    gateway.command("add-camera", "door", str(walkers), "--loop", "--fps=5", "--max-age-ms=5000")
    gateway.command("add-camera", "yard", str(walkers), "--loop", "--disabled")
    gateway.start()

    def settles_at(interval_s: float) -> None:
        def settled() -> bool:
            latest = latest_intervals_s(gateway, 4)
            return len(latest) == 4 and latest == pytest.approx([interval_s] * 4, abs=0.05)

        gateway.wait_for(settled, f"a frame every {interval_s} s; {latest_intervals_s(gateway, 4)}")

    settles_at(0.2)
    (agent,) = [json.loads(line) for line in operate(control, "gateways", "--json").splitlines()]
    assert agent["gateway"]
    assert agent["cameras"] == ["door", "yard"]
    operate(control, "wish", "door", "--fps=2")
    settles_at(0.5)
    operate(control, "wish", "door", "--fps=10")
    settles_at(0.1)
    gateway.command("set-camera", "door", "--jpeg-quality=60")
    gateway.agent.signal(signal.SIGHUP)
    gateway.wait_for(lambda: any("read again" in line for line in gateway.agent.errors), "the new settings")
    gateway.wait_for_more(5)
    settles_at(0.1)
    operate(control, "wish", "door", "--fps=0")
    settles_at(0.2)
    assert gateway.stop() == 0
