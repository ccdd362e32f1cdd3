"""Worker threads, one detector each; the event loop hands over frames and gets answers back."""

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from central_server.detectors.detector import Detector, Query
from central_server.errors import BadImageError, TooLargeError
from central_server.frame import Answer, Frame, Object, Outcome, to_objects
from central_server.image import ImageLimits, decode

log = logging.getLogger(__name__)

NO_PIXELS = np.empty((0, 0, 3), np.uint8)
# A fault that repeats with every frame is logged with its traceback once in this time.
TRACEBACK_PERIOD_S = 60.0
# A detector that takes longer for one frame hangs, or might as well.
STUCK_S = 30.0

OnAnswer = Callable[[Answer], None]


class Worker:
    """One thread with one detector; works on one frame at a time."""

    def __init__(self, name: str, detector: Detector, limits: ImageLimits) -> None:
        self._detector = detector
        self._limits = limits
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._last_traceback_s = -TRACEBACK_PERIOD_S
        self._begun_s: float | None = None
        self._reported_s: float | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end after the frame it works on."""
        self._inbox.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(timeout_s)

    def report_stuck(self, now_s: float) -> None:
        """Log once for each frame that takes longer than STUCK_S."""
        begun_s = self._begun_s
        if begun_s is None or now_s - begun_s < STUCK_S or begun_s == self._reported_s:
            return
        self._reported_s = begun_s
        log.error("%s: the detector has been at one frame for %.0f s", self._thread.name, now_s - begun_s)

    def hand_over(self, task: Callable[[], None]) -> None:
        """Run a task in this worker's thread."""
        self._inbox.put(task)

    def _run(self) -> None:
        while (task := self._inbox.get()) is not None:
            task()

    def work(self, frame: Frame, query: Query, queue_ms: float) -> Answer:
        """Decode and detect; every failure becomes an outcome."""
        begun_s = self._begun_s = time.monotonic()
        objects: tuple[Object, ...] = ()
        detail = ""
        try:
            pixels = NO_PIXELS if self._detector.input_wh is None else decode(frame.image, self._limits)
            detections = self._detector.detect(pixels, query)
            objects = to_objects(detections, self._detector.labels)
            outcome = Outcome.DETECTED
        except TooLargeError as error:
            outcome, detail = Outcome.TOO_LARGE, str(error)
        except BadImageError as error:
            outcome, detail = Outcome.BAD_IMAGE, str(error)
        except BaseException as error:  # noqa: BLE001 - a detector from elsewhere may raise anything, and exit
            outcome, detail = Outcome.INTERNAL_ERROR, f"the detector failed: {type(error).__name__}"
            self._log_failure(frame, error)
        self._begun_s = None
        work_ms = (time.monotonic() - begun_s) * 1e3
        return Answer(frame.frame_id, outcome, objects, detail, queue_ms, work_ms)

    def _log_failure(self, frame: Frame, error: BaseException) -> None:
        now_s = time.monotonic()
        if now_s - self._last_traceback_s >= TRACEBACK_PERIOD_S:
            self._last_traceback_s = now_s
            log.error("detector failed on frame %d of %r", frame.frame_id, frame.camera_id, exc_info=error)


class Engine:
    """The workers. A frame is handed over only while one is free, so nothing waits in here."""

    def __init__(self, detectors: Sequence[Detector], limits: ImageLimits) -> None:
        self._workers = [
            Worker(f"worker-{number}", detector, limits) for number, detector in enumerate(detectors)
        ]
        self._free = list(self._workers)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def free_workers(self) -> int:
        """How many workers have nothing to do."""
        return len(self._free)

    def start(self) -> None:
        """Start the workers; answers will come back on the running event loop."""
        self._loop = asyncio.get_running_loop()
        for worker in self._workers:
            worker.start()

    def submit(self, frame: Frame, query: Query, queue_ms: float, on_answer: OnAnswer) -> None:
        """Hand a frame to a free worker; `on_answer` is called in the event loop.

        Raises:
            IndexError: no worker is free.

        """
        worker = self._free.pop()
        loop = self._loop
        assert loop is not None, "start() comes first"  # noqa: S101

        def done(answer: Answer) -> None:
            self._free.append(worker)
            on_answer(answer)

        def work() -> None:
            answer = worker.work(frame, query, queue_ms)
            # A frame may outlast the server: then the loop has closed and nobody waits for the answer.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(done, answer)

        worker.hand_over(work)

    def report_stuck(self, now_s: float) -> None:
        """Log which workers hang; `now_s` is monotonic."""
        for worker in self._workers:
            worker.report_stuck(now_s)

    def stop(self, timeout_s: float) -> None:
        """End the workers after what they have in hand, waiting at most this long."""
        deadline_s = time.monotonic() + timeout_s
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.join(max(0.0, deadline_s - time.monotonic()))
