"""`simulated:MS`: processor time of its own, and one fixed answer."""

import os
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from central_server import wire
from central_server.detectors.detector import DetectorOptions, Query
from central_server.detectors.simulated import create
from central_server.errors import OptionError
from tests.central_server.answers import objects

NO_PIXELS = np.empty((0, 0, 3), np.uint8)


def in_six_threads(work: Callable[[], None]) -> None:
    """Do the same at once in each of them, and wait for all."""
    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_answer_is_always_the_same() -> None:
    """A person of score 0.9 at (100, 100), 50 wide and 200 high."""
    simulated = create("0", DetectorOptions())

    answer = wire.build_detected(1, simulated.detect(NO_PIXELS, Query()), simulated.labels, 0.0, 0.0)

    assert objects(answer) == [("person", float(np.float32(0.9)), 100, 100, 50, 200)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(0.9), 1),
        (Query(0.91), 0),
        (Query(0.0), 1),
        (Query(0.5, np.array([1], np.uint8)), 1),
        (Query(0.5, np.array([0], np.uint8)), 0),
    ],
)
def test_a_stream_gets_what_it_asks_for(query: Query, found: int) -> None:
    """The least score and the labels wanted hold here as everywhere."""
    assert len(create("0", DetectorOptions()).detect(NO_PIXELS, query).scores) == found


@pytest.mark.parametrize("work_ms", [5, 40])
def test_the_work_is_the_threads_own_processor_time(work_ms: int) -> None:
    """Each of several threads uses the whole of it, however few cores they share."""
    used_s: list[float] = []

    def work() -> None:
        begun_s = time.thread_time()
        create(str(work_ms), DetectorOptions()).detect(NO_PIXELS, Query())
        used_s.append(time.thread_time() - begun_s)

    in_six_threads(work)

    assert len(used_s) == 6
    assert min(used_s) >= work_ms / 1e3


def test_the_name_is_what_was_asked_for() -> None:
    """As `--detector` takes it."""
    assert create("5", DetectorOptions()).name == "simulated:5"
    assert create("2.5", DetectorOptions()).name == "simulated:2.5"
    assert create("2.5,wall", DetectorOptions()).name == "simulated:2.5,wall"


def test_by_the_wall_threads_share_the_time() -> None:
    """As in published tables: six threads are busy together, and use less than six times the time."""
    used_s: list[float] = []
    together = threading.Barrier(6)

    def work() -> None:
        together.wait()
        begun_s, begun_wall_s = time.thread_time(), time.monotonic()
        create("300,wall", DetectorOptions()).detect(NO_PIXELS, Query())
        assert time.monotonic() - begun_wall_s >= 0.3
        used_s.append(time.thread_time() - begun_s)

    in_six_threads(work)

    assert len(used_s) == 6
    if len(os.sched_getaffinity(0)) < 6:
        assert sum(used_s) < 6 * 0.3


@pytest.mark.parametrize("argument", ["", "x", "-1", "nan", "inf", "60001", "5ms", "5,", "5,cpu", "5,wall,"])
def test_other_work_is_refused(argument: str) -> None:
    """What was found and what is expected."""
    with pytest.raises(
        OptionError, match=rf"found '{argument}', expected milliseconds of work from 0 to 60000"
    ):
        create(argument, DetectorOptions())
