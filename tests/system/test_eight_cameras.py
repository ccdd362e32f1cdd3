"""Eight 720p cameras on one gateway: what they take of it, and that the trouble of one is its own."""

import itertools
import signal
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import psutil
import pytest

from edge_agent.rtsp.auth import Credentials
from edge_agent.rtsp.faults import Faults
from tests.conftest import StartServer
from tests.demo_cameras import DemoCameras
from tests.system.conftest import Gateway

CAMERAS = 8
MOST_AGENT_BYTES = 350e6
MOST_OTHER_THREADS = 16
"""Beside one for each camera: the agent's own, and gRPC's."""
OWN_THREADS = {"edge-agent", "results", "configuration", "spool"}
GRPC_THREADS = {"event_engine", "grpc_global_tim", "lifeguard", "resolver_execut", "timer_manager"}
"""gRPC's pollers made in Python bear the process's name, as the main thread does."""
TIMEOUT_S = 2.0
LONGEST_GAP_S = 1.5
"""Less than the timeouts of the camera in trouble, and far more than a frame takes on a busy machine."""

TROUBLES: list[tuple[dict[str, Any] | None, str]] = [
    ({"faults": Faults(silent_from="OPTIONS")}, "did not answer within 2 s"),
    (None, "Connection refused"),
    ({"faults": Faults(parameter_sets="nowhere")}, "waiting for keyframe"),
    ({"faults": Faults(stall_after_frames=5)}, "stalled: no packet for 2 s"),
]
"""What the camera in trouble is like, one after the other, and what is said of it then; None is gone."""


@pytest.fixture(scope="module")
def clip(walkers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give five seconds of 1280 x 720 at 10 fps, with B-frames, as better cameras have them."""
    path = tmp_path_factory.mktemp("720p") / "walkers.mp4"
    with av.open(str(walkers)) as footage, av.open(str(path), "w") as clip:
        stream = clip.add_stream("libx264", rate=10, options={"preset": "veryfast", "g": "10", "bf": "2"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 1280, 720, "yuv420p"
        for number, picture in enumerate(itertools.islice(footage.decode(video=0), 50)):
            scaled = picture.reformat(1280, 720, format="yuv420p")
            scaled.pts, scaled.time_base = number, Fraction(1, 10)
            clip.mux(stream.encode(scaled))
        clip.mux(stream.encode(None))
    return path


@pytest.fixture
def cameras() -> Iterator[DemoCameras]:
    with DemoCameras() as cameras:
        yield cameras


def add(gateway: Gateway, urls: dict[str, str]) -> None:
    """Add cameras in one go."""
    table = gateway.config.parent / "cameras.csv"
    table.write_text("name,url\n" + "".join(f"{name},{url}\n" for name, url in urls.items()))
    gateway.command("import-cameras", str(table))


def thread_names(pid: int) -> list[str]:
    names = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:  # it has ended
            continue
    return names


def captured_s(gateway: Gateway, camera: str) -> list[float]:
    """Give the capture times of a camera's answered frames, in seconds since midnight."""
    times = []
    for record in gateway.detected(camera):
        hours, minutes, seconds = record["capture_time"].partition("T")[2].rstrip("Z").split(":")
        times.append(int(hours) * 3600 + int(minutes) * 60 + float(seconds))
    return sorted(times)


def wait_until_said(gateway: Gateway, camera: str, words: str) -> None:
    gateway.wait_for(
        lambda: any(f"camera {camera}: " in line and words in line for line in gateway.agent.errors), words
    )


def test_memory_and_threads(
    cameras: DemoCameras, start_server: StartServer, gateway: Gateway, clip: Path
) -> None:
    """Eight that stream: below 350 MB, and no thread that nobody knows."""
    camera = cameras.serve(clip)
    server = start_server("--detector", "simulated:1", "--workers", "1")
    gateway.command("set-server", server.address)
    add(gateway, {f"cam{number}": camera.url for number in range(CAMERAS)})
    gateway.start()
    for number in range(CAMERAS):
        gateway.wait_for_more(40 if number == 0 else 1, f"cam{number}")
    names = thread_names(gateway.agent.process.pid)
    resident_bytes = psutil.Process(gateway.agent.process.pid).memory_info().rss
    gateway.stop()

    others = [name for name in names if not name.startswith("capture-cam")]
    print(f"{CAMERAS} cameras: {resident_bytes / 1e6:.0f} MB, threads {sorted(names)}")
    assert resident_bytes <= MOST_AGENT_BYTES
    assert len(names) - len(others) == CAMERAS
    assert set(others) <= OWN_THREADS | GRPC_THREADS
    assert len(others) <= MOST_OTHER_THREADS


def test_the_trouble_of_one_is_its_own(
    cameras: DemoCameras, start_server: StartServer, gateway: Gateway, clip: Path
) -> None:
    """Silence, a stall, a refusal, a name that is none: the others' frames are answered as before."""
    good, bad = cameras.serve(clip), cameras.serve(clip)
    locked = cameras.serve(clip, credentials=Credentials(user="viewer", password="secret"))
    port, running = bad.port, [bad]
    server = start_server("--detector", "simulated:1", "--workers", "1")
    gateway.command("set-server", server.address)
    well = [f"cam{number}" for number in range(CAMERAS - 1)]
    add(gateway, dict.fromkeys(well, good.url))
    timeouts = "--connect-timeout-s", f"{TIMEOUT_S:g}", "--read-timeout-s", f"{TIMEOUT_S:g}"
    gateway.command("add-camera", "trouble", bad.url, *timeouts)
    gateway.start()
    for name in [*well, "trouble"]:
        gateway.wait_for_more(5, name)

    for trouble, words in TROUBLES:
        while running:
            cameras.close(running.pop())
        if trouble is not None:
            running.append(cameras.serve(clip, port=port, **trouble))
        wait_until_said(gateway, "trouble", words)
    gateway.command("add-camera", "nowhere", "rtsp://camera.invalid/live")
    gateway.command("add-camera", "locked", locked.url)
    gateway.agent.signal(signal.SIGHUP)
    wait_until_said(gateway, "nowhere", "cannot resolve")
    wait_until_said(gateway, "locked", "authentication failed")
    while running:
        cameras.close(running.pop())
    cameras.serve(clip, port=port)
    gateway.wait_for_more(5, "trouble")
    said = "\n".join(gateway.agent.errors)
    gateway.stop()

    longest_s = {}
    for name in well:
        times = captured_s(gateway, name)
        longest_s[name] = max(after - before for before, after in itertools.pairwise(times))
    latencies_ms = sorted(record["latency_ms"] for name in well for record in gateway.detected(name))
    print(
        f"longest time without an answered frame {max(longest_s.values()):.2f} s,"
        f" latency p50 {latencies_ms[len(latencies_ms) // 2]:.0f} ms, slowest {latencies_ms[-1]:.0f} ms"
    )
    assert max(longest_s.values()) < LONGEST_GAP_S
    assert not any(f"camera {name}: {state}" in said for name in well for state in ("offline", "stalled"))
