"""The workers: one thread and one detector each, every failure an outcome."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from central_server.detectors.detector import Detector, Query
from central_server.engine import STUCK_S, Engine
from central_server.frame import Answer, Detections, EncodedImage, Frame, Outcome
from central_server.image import ImageLimits
from tests.central_server.answers import objects, told
from tests.pictures import claim_size, jpeg
from tests.polling import until

LIMITS = ImageLimits()
DESCRIPTORS = Path("/proc/self/fd")
NOTHING = Detections(np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int32))


class Scripted:
    """A detector that does what the test tells it to."""

    name = "scripted"
    labels = ("person", "car")
    input_wh: tuple[int, int] | None = (128, 96)

    def __init__(self, *results: Detections | BaseException) -> None:
        self.results = list(results)
        self.seen: list[tuple[NDArray[np.uint8], Query, str]] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def detect(self, image: NDArray[np.uint8], query: Query) -> Detections:
        self.seen.append((image, query, threading.current_thread().name))
        assert self.go_on.wait(10)
        result = self.results.pop(0) if self.results else NOTHING
        if isinstance(result, BaseException):
            raise result
        return result


def found(*rows: tuple[float, float, float, float, float, int]) -> Detections:
    """Make detections of x1, y1, x2, y2, score, class id."""
    table = np.array(rows, np.float32).reshape(-1, 6)
    return Detections(table[:, :4], table[:, 4], table[:, 5].astype(np.int32))


def frame(number: int = 0, data: bytes | None = None) -> Frame:
    return Frame(number, EncodedImage(jpeg() if data is None else data), "door")


def what_is_open() -> tuple[set[threading.Thread], int]:
    """Give all threads, and the number of descriptors."""
    return set(threading.enumerate()), len(list(DESCRIPTORS.iterdir()))


class Running:
    """An engine at work, one frame after the other."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self.engine = Engine(detectors, LIMITS)
        self.engine.start()

    async def answer(self, frame: Frame, query: Query | None = None, queue_ms: float = 0.0) -> Answer:
        """Hand over a frame and wait for its answer."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.engine.submit(frame, query or Query(), queue_ms, answered.set_result)
        return await asyncio.wait_for(answered, 10)


@pytest.fixture
async def scripted() -> Scripted:
    """Give the detector of the `running` engine's only worker."""
    return Scripted()


@pytest.fixture
async def running(scripted: Scripted) -> AsyncIterator[Running]:
    """Give an engine with one worker."""
    running = Running([scripted])
    yield running
    scripted.go_on.set()
    running.engine.stop()
    running.engine.join(10)
    running.engine.close()


async def test_a_frame_is_decoded_and_detected(running: Running, scripted: Scripted) -> None:
    """The detector gets the pixels and the stream's query; boxes become whole pixels of the frame."""
    scripted.results = [found((10.4, 20.6, 30.5, 40.5, 0.75, 1), (0, 0, 1, 1, 0.5, 0))]
    query = Query(0.25)

    answer = await running.answer(frame(7), query, queue_ms=12.5)

    image, seen_query, _ = scripted.seen[0]
    assert image.shape == (96, 128, 3)
    assert seen_query is query
    assert (answer.frame_id, answer.outcome) == (7, Outcome.DETECTED)
    assert objects(answer) == [("car", 0.75, 10, 21, 20, 19), ("person", 0.5, 0, 0, 1, 1)]
    message = told(answer)
    assert (message.detail, message.queue_ms) == ("", 12.5)
    assert message.work_ms > 0


@pytest.mark.parametrize(
    "fault",
    [
        RuntimeError("no more memory"),
        ValueError("secret of the detector"),
        MemoryError(),
        SystemExit("goodbye"),
        KeyboardInterrupt(),
        found((0, 0, 1, 1, 0.9, 5)),
        found((0, 0, 1, 1, 0.9, -1)),
        found((0, 0, 1, 1, 1.5, 0)),
        found((0, 0, 1, 1, -0.5, 0)),
        found((0, 0, 1, 1, float("nan"), 0)),
        found((0, 0, 1, 1, float("inf"), 0)),
        found((2, 0, 1, 1, 0.9, 0)),
        found((0, 2, 1, 1, 0.9, 0)),
        found((float("nan"), 0, 1, 1, 0.9, 0)),
        found((0, 0, float("inf"), 1, 0.9, 0)),
        found((0, 0, 3e9, 1, 0.9, 0)),
        found((0, 0, 2**30, 1, 0.9, 0)),
        Detections(np.zeros((1, 4), np.float32), np.ones(1, np.float32), np.array([2**32])),
        Detections(np.zeros((1, 4), np.float32), np.ones(1, np.float32), np.zeros(1)),  # type: ignore[arg-type]
        None,
    ],
    ids=[
        "raises",
        "raises with text",
        "out of memory",
        "exits",
        "interrupts",
        "unknown class",
        "negative class",
        "score above one",
        "negative score",
        "nan score",
        "infinite score",
        "right of left",
        "above its top",
        "nan",
        "infinity",
        "beyond int32",
        "at the limit",
        "class beyond int32",
        "fractional class",
        "nothing at all",
    ],
)
async def test_a_detector_that_fails_fails_for_one_frame(
    running: Running, scripted: Scripted, fault: Any
) -> None:
    """Whatever a detector raises or answers wrongly is that frame's internal error; the next is detected."""
    scripted.results = [fault, found((0, 0, 1, 1, 0.5, 0))]

    failed = await running.answer(frame(1))
    next_one = await running.answer(frame(2))

    assert (failed.outcome, objects(failed)) == (Outcome.INTERNAL_ERROR, [])
    assert told(failed).detail.startswith("the detector failed: ")
    assert "secret" not in told(failed).detail
    assert next_one.outcome is Outcome.DETECTED


async def test_detectors_may_have_types_of_their_own(running: Running, scripted: Scripted) -> None:
    """Wider numbers and arrays that are views of others are taken as they are."""
    table = np.array([[1, 2, 3, 4, 0.5, 1]] * 2, np.float64)
    scripted.results = [Detections(table[:, :4], table[:, 4], table[:, 5].astype(np.int64))]  # type: ignore[arg-type]

    assert objects(await running.answer(frame())) == [("car", 0.5, 1, 2, 2, 2)] * 2


async def test_of_too_many_objects_the_best_are_answered(running: Running, scripted: Scripted) -> None:
    """However many a detector finds, and in whatever order."""
    scripted.results = [found(*((0, 0, 1, 1, number / 5000, 0) for number in range(5000)))]

    answer = await running.answer(frame(1))

    assert answer.outcome is Outcome.DETECTED
    assert [confidence for _, confidence, *_ in objects(answer)] == [
        pytest.approx(number / 5000) for number in range(4999, 3999, -1)
    ]


async def test_a_detector_that_hangs_is_reported_once(
    running: Running, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """For each frame that it hangs at."""
    for number in range(2):
        scripted.go_on.clear()
        pending = asyncio.create_task(running.answer(frame(number)))
        await until(lambda seen=number: len(scripted.seen) > seen, "the frame is in work")  # type: ignore[misc]
        now_s = time.monotonic()
        for later_s in (1, STUCK_S + 1, STUCK_S + 2):
            running.engine.report_stuck(now_s + later_s)
        scripted.go_on.set()
        await pending
    running.engine.report_stuck(time.monotonic() + 1000)

    assert [record.getMessage() for record in caplog.records] == [
        "worker-0: the detector has been at one frame for 31 s"
    ] * 2


async def test_a_fault_that_repeats_is_logged_once(
    running: Running, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """One traceback a minute is enough to find it and does not fill a disk."""
    scripted.results = [RuntimeError(f"fault {number}") for number in range(20)]
    with caplog.at_level(logging.ERROR):
        for number in range(20):
            await running.answer(frame(number))

    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert "fault 0" in caplog.text


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        (b"", Outcome.BAD_IMAGE),
        (jpeg()[:-100], Outcome.BAD_IMAGE),
        (claim_size(jpeg(), 30_000, 30_000), Outcome.TOO_LARGE),
    ],
    ids=["empty", "cut", "too many pixels"],
)
async def test_a_bad_image_never_reaches_the_detector(
    running: Running, scripted: Scripted, data: bytes, outcome: Outcome
) -> None:
    """Its outcome and detail say what was wrong with it."""
    answer = await running.answer(frame(3, data))

    assert (answer.frame_id, answer.outcome, objects(answer)) == (3, outcome, [])
    assert "expected" in told(answer).detail or "damaged" in told(answer).detail
    assert scripted.seen == []


async def test_a_detector_that_looks_at_no_pixels_gets_none(running: Running, scripted: Scripted) -> None:
    """Its frames are not even decoded."""
    scripted.input_wh = None

    answer = await running.answer(frame(1, b"any bytes will do"))

    assert answer.outcome is Outcome.DETECTED
    assert scripted.seen[0][0].shape == (0, 0, 3)


async def test_each_worker_has_a_thread_and_a_detector_of_its_own() -> None:
    """As many threads as detectors, each with its own, and all end at the stop."""
    detectors = [Scripted() for _ in range(3)]
    before = set(threading.enumerate())
    running = Running(detectors)
    started = set(threading.enumerate()) - before

    assert len(started) == 3
    for detector in detectors:
        detector.go_on.clear()
    pending = [asyncio.create_task(running.answer(frame(number))) for number in range(3)]
    await until(lambda: not running.engine.free_workers, "all workers have a frame")
    for detector in detectors:
        detector.go_on.set()
    await asyncio.gather(*pending)

    assert sorted(name for detector in detectors for _, _, name in detector.seen) == [
        "worker-0",
        "worker-1",
        "worker-2",
    ]
    running.engine.stop()
    running.engine.join(10)
    assert not any(thread.is_alive() for thread in started)


async def test_nothing_waits_in_the_engine(running: Running, scripted: Scripted) -> None:
    """With no worker free a frame cannot be handed over."""
    scripted.go_on.clear()
    pending = asyncio.create_task(running.answer(frame()))
    await until(lambda: not running.engine.free_workers, "the worker has a frame")

    with pytest.raises(IndexError):
        running.engine.submit(frame(), Query(), 0.0, lambda answer: None)
    scripted.go_on.set()
    assert (await pending).outcome is Outcome.DETECTED


def test_work_that_outlasts_the_loop_ends_quietly() -> None:
    """A frame still in work when the event loop has closed is finished and told to nobody."""
    scripted = Scripted()
    scripted.go_on.clear()
    engine = Engine([scripted], LIMITS)
    before = set(threading.enumerate())

    async def begin() -> None:
        engine.start()
        engine.submit(frame(), Query(), 0.0, lambda answer: None)

    asyncio.run(begin())
    (worker,) = set(threading.enumerate()) - before
    scripted.go_on.set()
    engine.stop()
    engine.join(10)

    assert not worker.is_alive()


async def test_a_closed_engine_leaves_nothing_open(scripted: Scripted) -> None:
    """Neither threads nor descriptors, however often one is made."""
    before = what_is_open()
    for _ in range(20):
        running = Running([scripted, Scripted()])
        await running.answer(frame())
        running.engine.stop()
        running.engine.join(10)
        running.engine.close()

    assert what_is_open() == before


async def test_answers_that_come_together_are_all_told() -> None:
    """Though one descriptor tells of all of them, and the loop was busy meanwhile."""
    running = Running([Scripted() for _ in range(8)])
    pending = [asyncio.create_task(running.answer(frame(number))) for number in range(8)]
    await asyncio.sleep(0)
    time.sleep(0.3)  # noqa: ASYNC251 - the loop is kept from looking
    answers = await asyncio.gather(*pending)
    running.engine.stop()
    running.engine.join(10)
    running.engine.close()

    assert [answer.frame_id for answer in answers] == list(range(8))


async def test_an_answer_that_nobody_can_take_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Though both were collected together."""
    running = Running([Scripted(), Scripted()])
    told_of: list[Answer] = []

    def fail(answer: Answer) -> None:
        raise RuntimeError("no place for it")

    running.engine.submit(frame(1), Query(), 0.0, fail)
    running.engine.submit(frame(2), Query(), 0.0, told_of.append)
    time.sleep(0.3)  # noqa: ASYNC251 - the loop is kept from looking
    await until(lambda: bool(told_of), "the other is told")
    await until(lambda: running.engine.free_workers == 2, "both are free")
    running.engine.stop()
    running.engine.join(10)
    running.engine.close()

    assert [answer.frame_id for answer in told_of] == [2]
    assert "the answer to frame 1 of 'door' is lost" in caplog.text


async def test_a_stopped_engine_has_no_free_worker(running: Running) -> None:
    """So nobody hands it a frame that would be lost."""
    running.engine.stop()

    assert running.engine.free_workers == 0
