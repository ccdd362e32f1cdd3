"""Scheduler and engine joined: every frame of a stream that stays is answered once, and counted."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator

import numpy as np
import pytest
from numpy.typing import NDArray

from central_server.detectors.detector import Query
from central_server.dispatcher import Dispatcher
from central_server.engine import Engine
from central_server.frame import Answer, Detections, EncodedImage, Frame, Outcome
from central_server.image import ImageLimits
from central_server.scheduler import Stream
from tests.central_server.answers import told

LIMITS = ImageLimits(max_bytes=1000)
NOTHING = Detections(np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int32))


class Gate:
    """A detector that looks at no pixels and finds nothing, as often as the gate lets it."""

    name = "gate"
    labels = ("person",)
    input_wh = None

    def __init__(self) -> None:
        self._permits = threading.Semaphore(0)

    def open(self, times: int = 1) -> None:
        self._permits.release(times)

    def detect(self, image: NDArray[np.uint8], query: Query) -> Detections:
        assert self._permits.acquire(timeout=10)
        return NOTHING


class Line:
    """A dispatcher with one gated worker and a clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.gate = Gate()
        self.engine = Engine([self.gate], LIMITS)
        self.engine.start()
        self.dispatcher = Dispatcher(self.engine, LIMITS, 1000, lambda: self.now_s)
        self.answers: list[tuple[str, Answer]] = []

    def stream(self, name: str) -> Stream:
        return self.dispatcher.open_stream(name, Query(), lambda answer: self.answers.append((name, answer)))

    async def work(self, answers: int) -> None:
        """Let the worker finish frames until there are this many answers."""
        async with asyncio.timeout(10):
            while len(self.answers) < answers:
                if not self.engine.free_workers:
                    self.gate.open()
                await asyncio.sleep(0.001)

    async def idle(self) -> None:
        """Let the worker finish what it has."""
        async with asyncio.timeout(10):
            while not self.engine.free_workers:
                self.gate.open()
                await asyncio.sleep(0.001)

    @property
    def outcomes(self) -> dict[tuple[str, int], Outcome]:
        """What became of each answered frame."""
        assert len({(name, a.frame_id) for name, a in self.answers}) == len(self.answers)
        return {(name, answer.frame_id): answer.outcome for name, answer in self.answers}


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    """Give a dispatcher at work."""
    line = Line()
    yield line
    line.gate.open(100)
    line.engine.stop()
    line.engine.join(10)
    line.engine.close()


def frame(number: int, age_ms: int = 0, max_age_ms: int | None = None, size: int = 10) -> Frame:
    return Frame(number, EncodedImage(bytes(size)), age_ms=age_ms, max_age_ms=max_age_ms)


async def test_one_in_work_one_waiting_the_rest_superseded(line: Line) -> None:
    """While a frame is in work the newest of those that follow is the one that comes next."""
    door = line.stream("door")
    for number in range(5):
        line.dispatcher.submit(door, frame(number))
    await line.work(5)

    assert line.outcomes == {
        ("door", 0): Outcome.DETECTED,
        ("door", 1): Outcome.SUPERSEDED,
        ("door", 2): Outcome.SUPERSEDED,
        ("door", 3): Outcome.SUPERSEDED,
        ("door", 4): Outcome.DETECTED,
    }


@pytest.mark.parametrize(
    ("age_ms", "max_age_ms", "outcome"),
    [
        (999, None, Outcome.DETECTED),
        (1000, None, Outcome.STALE),
        (2000, 2001, Outcome.DETECTED),
        (99, 100, Outcome.DETECTED),
        (100, 100, Outcome.STALE),
        (0, 0, Outcome.STALE),
        (2**32 - 1, 2**32 - 1, Outcome.STALE),
        (0, 2**32 - 1, Outcome.DETECTED),
    ],
)
async def test_the_age_at_sending_counts(
    line: Line, age_ms: int, max_age_ms: int | None, outcome: Outcome
) -> None:
    """A frame as old as its maximum age, 1,000 ms where it has none, is not worked on."""
    line.dispatcher.submit(line.stream("door"), frame(1, age_ms, max_age_ms))
    await line.work(1)

    assert line.outcomes == {("door", 1): outcome}


async def test_work_begins_in_time_for_the_answer(line: Line) -> None:
    """What has waited until its answer would come too late is stale; to each stream its own work."""
    slow, quick = line.stream("slow"), line.stream("quick")
    slow.work_time.note(0.4)
    line.dispatcher.submit(line.stream("busy"), frame(1))
    line.dispatcher.submit(slow, frame(1, max_age_ms=1000))
    line.dispatcher.submit(quick, frame(1, max_age_ms=1000))
    line.now_s += 0.59
    line.dispatcher.expire()
    assert line.outcomes == {}
    line.now_s += 0.02
    line.dispatcher.expire()

    assert line.outcomes == {("slow", 1): Outcome.STALE}
    await line.work(3)
    assert line.outcomes[("quick", 1)] is Outcome.DETECTED


async def test_a_free_worker_tries_however_slow_the_work(line: Line) -> None:
    """Or nobody would ever learn that it has become faster."""
    door = line.stream("door")
    door.work_time.note(60)
    line.dispatcher.submit(door, frame(1, max_age_ms=50))
    await line.work(1)

    assert line.outcomes == {("door", 1): Outcome.DETECTED}


async def test_a_stream_that_was_slow_once_is_tried_again(line: Line) -> None:
    """Also where no worker is ever free: each frame that is not tried makes the estimate less sure."""
    door, busy = line.stream("door"), line.stream("busy")
    door.work_time.note(60)
    tries = 0
    for number in range(200):
        line.dispatcher.submit(busy, frame(number))
        line.dispatcher.submit(door, frame(number))
        if ("door", number) not in line.outcomes:
            break
        tries += 1

    assert 0 < tries < 60


async def test_the_time_spent_waiting_counts(line: Line) -> None:
    """A frame grows old in the queue too, and the answer says for how long it waited."""
    line.dispatcher.submit(line.stream("busy"), frame(1))
    line.dispatcher.submit(line.stream("patient"), frame(1, age_ms=400, max_age_ms=5000))
    line.dispatcher.submit(line.stream("hasty"), frame(1, age_ms=400))
    line.now_s += 0.6
    await line.work(3)

    assert line.outcomes == {
        ("busy", 1): Outcome.DETECTED,
        ("hasty", 1): Outcome.STALE,
        ("patient", 1): Outcome.DETECTED,
    }
    assert told(dict(line.answers)["hasty"]).queue_ms == pytest.approx(600)
    assert told(dict(line.answers)["patient"]).queue_ms == pytest.approx(600)
    assert told(dict(line.answers)["busy"]).queue_ms == 0


async def test_a_frame_is_stale_in_time_although_the_worker_hangs(line: Line) -> None:
    """Only the one in work stays without an answer; whoever comes later waits as before."""
    line.dispatcher.submit(line.stream("busy"), frame(1))
    door, gate = line.stream("door"), line.stream("gate")
    line.dispatcher.submit(door, frame(1))
    line.dispatcher.submit(gate, frame(1, max_age_ms=5000))
    line.now_s += 0.9
    line.dispatcher.expire()
    assert line.outcomes == {}
    line.now_s += 0.1
    line.dispatcher.expire()
    line.dispatcher.expire()

    assert line.outcomes == {("door", 1): Outcome.STALE}
    line.dispatcher.submit(door, frame(2))
    await line.work(4)
    assert line.outcomes == {
        ("busy", 1): Outcome.DETECTED,
        ("door", 1): Outcome.STALE,
        ("door", 2): Outcome.DETECTED,
        ("gate", 1): Outcome.DETECTED,
    }


async def test_too_many_bytes_are_answered_at_once(line: Line) -> None:
    """Even by a detector that looks at no pixels, and without taking a waiting frame's place."""
    door = line.stream("door")
    line.dispatcher.submit(door, frame(1))
    line.dispatcher.submit(door, frame(2))
    line.dispatcher.submit(door, frame(3, size=1001))

    assert line.outcomes == {("door", 3): Outcome.TOO_LARGE}
    assert told(line.answers[0][1]).detail == "found 1001 bytes of image, expected at most 1000"
    await line.work(3)
    assert line.outcomes[("door", 2)] is Outcome.DETECTED


async def test_a_client_that_has_gone_is_told_nothing(line: Line) -> None:
    """Its waiting frame is not worked on, its frame in work is finished for nobody, both are counted."""
    gone = line.stream("gone")
    line.dispatcher.submit(gone, frame(1))
    line.dispatcher.submit(gone, frame(2))
    line.dispatcher.close_stream(gone)
    await line.idle()

    assert line.answers == []
    assert line.dispatcher.counters.of_camera("gone") == {Outcome.DETECTED: 1, Outcome.ABANDONED: 1}
    assert gone.counts == {Outcome.DETECTED: 1, Outcome.ABANDONED: 1}


async def test_a_client_that_leaves_makes_room_for_others(line: Line) -> None:
    """Streams that stay are served as if it had never been there."""
    gone, here = line.stream("gone"), line.stream("here")
    line.dispatcher.submit(gone, frame(1))
    line.dispatcher.submit(gone, frame(2))
    line.dispatcher.submit(here, frame(1))
    line.dispatcher.close_stream(gone)
    await line.work(1)

    assert line.outcomes == {("here", 1): Outcome.DETECTED}


async def test_every_frame_is_counted_by_camera_and_outcome(line: Line) -> None:
    """The counts add up to what was submitted."""
    door, gate = line.stream("door"), line.stream("gate")
    for number in range(10):
        line.dispatcher.submit(door, frame(number))
        line.dispatcher.submit(gate, frame(number, age_ms=2000 * (number % 2)))
    await line.work(20)

    counters = line.dispatcher.counters
    assert counters.of_camera("door") == {Outcome.DETECTED: 2, Outcome.SUPERSEDED: 8}
    assert counters.of_camera("gate") == {Outcome.DETECTED: 1, Outcome.SUPERSEDED: 4, Outcome.STALE: 5}
    assert counters.total() == counters.of_camera("door") + counters.of_camera("gate")
    assert Counter(line.outcomes.values()) == counters.total()
