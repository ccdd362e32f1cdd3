"""What the server wishes of a gateway's camera, from the operator's command to the camera's frames."""

import json
import signal
import subprocess
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

from tests import plugins
from tests.conftest import StartProgram, StartServer, script
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


# Tells by its one box how bright the upper left quarter (x) and the upper right one (y) are, 0 to 255.
BRIGHTNESS = """
import numpy as np
from central_server.frame import Detections


class Brightness:
    name, labels, input_wh = "brightness", ("quarters",), (320, 240)

    def detect(self, image, query):
        x, y = image[:100, :140].mean(), image[:100, 180:].mean()
        box = np.array([[x, y, x + 9, y + 9]], np.float32)
        return Detections(box, np.ones(1, np.float32), np.zeros(1, np.int32))


def create(argument, options):
    return Brightness()
"""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a clip of ten seconds: a patterned wall, and in its lower left quarter something that moves."""
    path = tmp_path_factory.mktemp("scene") / "scene.mp4"
    wall = np.random.default_rng(7).integers(90, 170, (240, 320, 3), np.uint8)
    with av.open(path, "w") as container:
        stream = container.add_stream(
            "libx264", rate=10, options={"preset": "ultrafast", "g": "10", "crf": "18"}
        )
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for number in range(100):
            picture = wall.copy()
            left = 10 + number % 20 * 5
            picture[150:200, left : left + 40] = 255 if number % 2 else 0
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())
    return path


MOVING, EVERYTHING = "0,.5 .5,.5 .5,1 0,1", "0,0 1,0 1,1 0,1"


def test_someone_is_watching_and_regions_to_ignore(
    gateway: Gateway, start_program: StartProgram, control: Path, scene: Path, tmp_path: Path
) -> None:
    """The gate opens and closes with the viewer; the server's regions are ignored beside the gateway's own.

    What is private stays black, whatever the server wishes.
    """
    options = ("--listen=127.0.0.1:0", "--detector=brightness", f"--control={control}")
    env = plugins.install(tmp_path, BRIGHTNESS, brightness="elsewhere:create")
    server = start_program("central-server", "serve", *options, env=env)
    gateway.command("set-server", server.wait_for_line(r"^listening (\S+)$")[1])
    gateway.command(
        "add-camera", "door", str(scene), "--loop", "--fps=10", "--motion=on", "--max-age-ms=5000",
        "--privacy-mask=0,0 .5,0 .5,.5 0,.5", f"--motion-mask={MOVING}",
    )  # fmt: skip
    gateway.start()

    def pauses() -> None:
        latest = (0, 0.0)

        def silent() -> bool:
            nonlocal latest
            if (count := len(gateway.results("door"))) != latest[0]:
                latest = count, time.monotonic()
            return count > 0 and time.monotonic() - latest[1] > 1.2

        gateway.wait_for(silent, "the gate is closed")

    def flows() -> None:
        gateway.wait_for(
            lambda: latest_intervals_s(gateway, 5) == pytest.approx([0.1] * 5, abs=0.05), "the gate is open"
        )

    pauses()
    operate(control, "wish", "door", "--watched")
    flows()
    operate(control, "wish", "door", "--not-watched")
    pauses()
    # The gateway's own region goes on being ignored.
    operate(control, "wish", "door", "--no-masks")
    pauses()
    gateway.command("set-camera", "door", "--unset=motion-mask")
    gateway.agent.signal(signal.SIGHUP)
    flows()
    operate(control, "wish", "door", f"--mask={MOVING}")
    pauses()
    operate(control, "wish", "door", "--no-masks")
    flows()
    operate(control, "wish", "door", f"--mask={EVERYTHING}", "--watched")
    flows()
    boxes = [record["objects"][0]["bbox"] for record in gateway.detected("door")]
    assert len(boxes) > 15
    assert {box["x"] for box in boxes} == {0}
    assert all(100 <= box["y"] <= 160 for box in boxes)
