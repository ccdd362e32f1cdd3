"""What capturing one camera takes of a gateway."""

import subprocess
import sys
from pathlib import Path

from tests.gstreamer.plugin import StartGstCamera

MOST_MEMORY_MIB = 150
MOST_THREADS = 8
AGENT = """
import sys, threading
import grpc, numpy
from edge_agent import client, runner
from edge_agent.capture.capture import Capture
from edge_agent.config import CameraConfig

enough = threading.Event()
frames = []
def on_frame(frame):
    frames.append((frame.frame_id, frame.width, frame.height))
    if len(frames) >= 100:
        enough.set()
capture = Capture(CameraConfig(name="yard", url=sys.argv[1]), None, on_frame, lambda status: None)
capture.start()
assert enough.wait(60), capture.status
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) // 1024, status["Threads"].strip(), *sorted(set(frames[-1][1:])))
capture.stop(5)
print(*sorted(name for name in sys.modules if name in ("cv2", "onnxruntime", "central_server")))
"""


def test_memory_of_one_camera(gst_camera: StartGstCamera, walkers: Path) -> None:
    """With everything that the agent imports, a camera of 768 x 576 stays below 150 MiB."""
    camera = gst_camera(file=walkers, loop=True)
    ran = subprocess.run(
        [sys.executable, "-c", AGENT, camera.url], capture_output=True, text=True, timeout=100, check=True
    )
    numbers, foreign = ran.stdout.splitlines()
    memory_mib, threads, height, width = map(int, numbers.split())

    assert (width, height) == (768, 576)
    assert memory_mib <= MOST_MEMORY_MIB
    assert threads <= MOST_THREADS
    assert foreign == ""
