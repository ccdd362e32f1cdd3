"""What the kernels' tests share: random images, a pool's threads, proof that a call leaves others running."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from cython_ext.worker_pool import WorkerPool
from tests.cython_ext.pool_threads import WAIT_S, Start, Work

ATTEMPTS = 10
TICK_S = 0.0002

MakeImage = Callable[[int, int], NDArray[np.uint8]]
Stall = Callable[[Callable[[], object]], float]


@pytest.fixture
def rng() -> np.random.Generator:
    """Give random numbers, the same in each run."""
    return np.random.default_rng(20240917)


@pytest.fixture
def make_image(rng: np.random.Generator) -> MakeImage:
    """Make noise of a height and width: no two neighbours alike, so every wrong tap shows."""

    def make(height: int, width: int) -> NDArray[np.uint8]:
        return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)

    return make


@pytest.fixture
def longest_stall() -> Stall:
    """Measure how long another thread's call keeps this thread from running, as a share of the call.

    A call that holds the GIL stalls it from beginning to end, each time: 1. A busy machine stalls it now and
    then: so the best of several attempts counts.
    """

    def attempt(call: Callable[[], object]) -> float:
        span: list[float] = []

        def work() -> None:
            begin = time.perf_counter()
            call()
            span.extend((begin, time.perf_counter()))

        worker = threading.Thread(target=work)
        ticks = []
        worker.start()
        while worker.is_alive():
            ticks.append(time.perf_counter())
            time.sleep(TICK_S)
        worker.join()
        begin, end = span
        instants = [begin, *(tick for tick in ticks if begin < tick < end), end]
        return max(after - before for before, after in itertools.pairwise(instants)) / (end - begin)

    def measure(call: Callable[[], object]) -> float:
        shares = []
        for _ in range(ATTEMPTS):
            shares.append(attempt(call))
            if shares[-1] < 0.5:
                break
        return min(shares)

    return measure


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a thread for each worker; all pools are stopped and their threads over at the end."""
    started: list[tuple[WorkerPool, threading.Thread]] = []

    def start_threads(pool: WorkerPool, work: Work) -> list[threading.Thread]:
        threads = [
            threading.Thread(
                target=pool.run_worker, args=(number, work), name=f"worker-{number}", daemon=True
            )
            for number in range(pool.workers)
        ]
        for thread in threads:
            thread.start()
            started.append((pool, thread))
        return threads

    yield start_threads
    for pool, thread in started:
        pool.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()
