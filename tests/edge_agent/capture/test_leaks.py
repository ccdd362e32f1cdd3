"""What connections that end, and attempts that fail, leave behind: nothing."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from edge_agent.rtsp.auth import Credentials
from edge_agent.rtsp.faults import Faults
from tests.demo_cameras import DemoCameras
from tests.edge_agent.capture.conftest import MakeClip

MOST_GROWTH_BYTES = 8 << 20
"""What allocators take and give back; a picture that is kept once for each connection is more, soon."""
CAPTURES = """
import json, sys, threading, time
from pathlib import Path
from edge_agent import backoff
from edge_agent.capture import thread
from edge_agent.capture.attempts import Attempts
from edge_agent.capture.capture import Capture
from edge_agent.config import CameraConfig

# As many attempts as fit into the time: the delays between them are tested elsewhere.
backoff.FIRST_DELAY_S = backoff.YOUNG_LIMIT_S = backoff.OLD_LIMIT_S = 0.02
thread.REFUSED_PASSWORD_DELAY_S = thread.LONGEST_REFUSED_DELAY_S = 0.02
counter, warm_up, count, *urls = sys.argv[1:]
attempts = Attempts(per_second=1000.0)
captures = [
    Capture(
        CameraConfig(name=f"camera{number}", url=url, connect_timeout_s=0.2, read_timeout_s=0.2),
        None, lambda frame: None, lambda status: None, attempts,
    )
    for number, url in enumerate(urls)
]

def reading():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    names = sorted(Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir())
    return {
        "bytes": int(status["VmRSS"].split()[0]) << 10,
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": names,
    }

def until(least):
    while min(getattr(capture.counters, counter) for capture in captures) < least / len(captures):
        for capture in captures:
            capture.supervise()
        time.sleep(0.01)

for capture in captures:
    capture.start()
until(int(warm_up))
before = reading()
until(int(warm_up) + int(count))
after = reading()
hung = sum(capture.hung for capture in captures)
stopped = [capture.stop(5.0) for capture in captures]
print(json.dumps([before, after, hung, all(stopped)]))
"""


def watch_in_a_process(counter: str, warm_up: int, count: int, urls: list[str]) -> None:
    """Capture these, until each has its share of a counter; memory, threads and descriptors are to stay."""
    arguments = [counter, str(warm_up), str(count), *urls]
    ran = subprocess.run(
        [sys.executable, "-c", CAPTURES, *arguments], capture_output=True, text=True, timeout=3000, check=True
    )
    before, after, hung, all_stopped = json.loads(ran.stdout)
    growth_bytes = after["bytes"] - before["bytes"]
    print(f"{counter} +{count}: {growth_bytes / 1e3:+.0f} kB, {after['descriptors']} descriptors")

    assert (hung, all_stopped) == (0, True)
    assert after["threads"] == before["threads"]
    assert sum(name.startswith("capture-") for name in after["threads"]) == len(urls)
    # Each camera may be anywhere between two attempts.
    assert after["descriptors"] <= before["descriptors"] + 2 * len(urls)
    assert growth_bytes < MOST_GROWTH_BYTES


@pytest.mark.parametrize("count", [30, pytest.param(500, marks=pytest.mark.soak)])
def test_connections_that_end_leave_nothing(make_clip: MakeClip, count: int) -> None:
    """A camera that hangs up after a few frames, again and again: memory, threads, descriptors stay flat."""
    clip = make_clip("leak.mp4", "libx264", fps=25, tune="zerolatency", g="5")
    with DemoCameras() as cameras:
        urls = [cameras.serve(clip, faults=Faults(close_after_frames=3)).url for _ in range(3)]
        watch_in_a_process("opens", max(30, count // 3), count, urls)


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.soak)])
def test_failed_attempts_leave_nothing(make_clip: MakeClip, tmp_path: Path, count: int) -> None:
    """Refused, silent, unknown, locked, malformed, missing: memory, threads, descriptors stay flat."""
    clip = make_clip("leak.mp4", "libx264", fps=25, tune="zerolatency", g="5")
    faults = [
        Faults(malformed_sdp="cut off"),
        Faults(malformed_sdp="unknown codec"),
        Faults(silent_from="SETUP"),
    ]
    with ExitStack() as stack:
        cameras = stack.enter_context(DemoCameras())
        urls = [cameras.serve(clip, credentials=Credentials(user="yard", password="secret")).url]
        urls += [cameras.serve(clip, faults=fault).url for fault in faults]
        urls += ["rtsp://127.0.0.1:1/live", "http://127.0.0.1:1/video", "rtsp://camera.invalid/live"]
        watch_in_a_process("failed_opens", max(60, count // 3), count, [*urls, str(tmp_path / "missing.mp4")])
