"""A hundred cameras for minutes, twice as many as can be served, and thousands that come and go."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from central_server.capacity.load import LoadResult, LoadSpec, run_load
from tests.conftest import StartServer
from tests.memory import Memory
from tests.polling import wait_until

MEGABYTE = 1_000_000
# What a server of simulated work may have with a hundred streams.
MOST_BYTES = 180 * MEGABYTE
STREAMS, FPS = 100, 2.0
SAMPLE_S = 0.5


class Watched:
    """A load that runs while a server's memory is looked at."""

    def __init__(self, pid: int, spec: LoadSpec) -> None:
        self.results: list[LoadResult] = []
        memory = Memory(pid)
        running = threading.Thread(target=lambda: self.results.append(run_load(spec)))
        samples = []
        running.start()
        while running.is_alive():
            samples.append(memory.resident_bytes())
            time.sleep(SAMPLE_S)
        # The first third is for what grows once: buffers, arenas, windows.
        self.bytes = np.array(samples[len(samples) // 3 :], np.float64)
        self.peak_bytes = memory.peak_bytes()

    @property
    def growth_bytes(self) -> float:
        """By how much the floor has risen from the first half to the second: buffers come and go above it."""
        middle = len(self.bytes) // 2
        return float(self.bytes[middle:].min() - self.bytes[:middle].min())


@pytest.mark.parametrize(
    ("duration_s", "most_growth"),
    [(10.0, 8 * MEGABYTE), pytest.param(300.0, 2 * MEGABYTE, marks=pytest.mark.soak)],
    ids=["short", "five minutes"],
)
def test_a_hundred_streams(start_server: StartServer, duration_s: float, most_growth: int) -> None:
    """Every frame is answered, and the memory stays small and flat."""
    server = start_server("--detector=simulated:1")
    watched = Watched(
        server.process.pid,
        # One in flight each: on a machine that is busy with others no frame supersedes another.
        LoadSpec(
            server.address, STREAMS, fps=FPS, duration_s=duration_s, max_age_ms=60_000, window=1, grace_s=30
        ),
    )
    (result,) = watched.results
    print(
        f"{STREAMS} streams, {result.detected} frames: at most {watched.peak_bytes / MEGABYTE:.0f} MB, "
        f"its floor {watched.growth_bytes / MEGABYTE:+.1f} MB in the second half"
    )

    assert (result.unanswered, result.errors) == (0, {})
    assert result.detected == STREAMS * FPS * duration_s
    assert watched.peak_bytes < MOST_BYTES
    assert watched.growth_bytes < most_growth


def test_twice_what_can_be_served(start_server: StartServer) -> None:
    """Every frame has its answer, every stream its share; what is not served is superseded or stale."""
    server = start_server("--detector=simulated:10", "--workers=1")
    result = run_load(
        LoadSpec(server.address, 20, fps=10.0, duration_s=6.0, payload_bytes=10_000, grace_s=30)
    )
    shares = result.detected_of_cameras()
    print(f"{dict(result.counts())}, of a stream {shares.min()} to {shares.max()}")

    assert (result.unanswered, result.errors) == (0, {})
    assert set(result.counts()) <= {"detected", "superseded", "stale"}
    assert result.counts()["superseded"] > 0
    assert shares.max() <= 1.2 * shares.min() + 1


@pytest.mark.parametrize(
    "streams",
    [300, pytest.param(2000, marks=pytest.mark.soak)],
    ids=["short", "two thousand"],
)
def test_streams_that_come_and_go_leave_nothing(start_server: StartServer, streams: int) -> None:
    """Neither memory nor descriptors nor threads, in a second round of them."""
    server = start_server("--detector=simulated:0")
    memory = Memory(server.process.pid)
    process = Path("/proc") / str(server.process.pid)

    def descriptors() -> int:
        return len(list((process / "fd").iterdir()))

    def come_and_go() -> None:
        for _ in range(streams // 100):
            result = run_load(LoadSpec(server.address, 100, fps=20.0, duration_s=0.1, payload_bytes=5_000))
            assert (result.unanswered, result.errors) == (0, {})
        time.sleep(1)

    # The first round is for what the server opens and keeps once.
    come_and_go()
    come_and_go()
    before, before_bytes = descriptors(), memory.resident_bytes()
    come_and_go()
    wait_until(lambda: descriptors() <= before, f"no more than the {before} descriptors of the round before")
    after_bytes, threads = memory.resident_bytes(), len(list((process / "task").iterdir()))
    grown = (after_bytes - before_bytes) / streams
    print(f"{streams} streams: {grown:+.0f} bytes each, {descriptors()} descriptors, {threads} threads")

    assert threads < 40
    # The memory comes in pages and arenas: what the short form cannot tell, the long one does.
    assert grown < (20_000 if streams < 2000 else 500)
