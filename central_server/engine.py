"""Worker threads, one detector each; the event loop hands over frames and gets answers back."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from central_server import wire
from central_server.detectors.detector import Detector, Query
from central_server.errors import BadImageError, TooLargeError
from central_server.frame import Answer, Frame, Outcome
from central_server.image import ImageLimits, decode
from cython_ext.worker_pool import WorkerPool

log = logging.getLogger(__name__)

NO_PIXELS = np.empty((0, 0, 3), np.uint8)
# A fault that repeats with every frame is logged with its traceback once in this time.
TRACEBACK_PERIOD_S = 60.0
# A detector that takes longer for one frame hangs, or might as well.
STUCK_S = 30.0

OnAnswer = Callable[[Answer], None]


@dataclass(slots=True, eq=False)
class Task:
    """A frame on its way through a worker."""

    frame: Frame
    query: Query
    queue_ms: float
    on_answer: OnAnswer


class Worker:
    """One thread with one detector; works on one frame at a time."""

    def __init__(self, name: str, detector: Detector, limits: ImageLimits) -> None:
        self.name = name
        self._detector = detector
        self._limits = limits
        self._last_traceback_s = -TRACEBACK_PERIOD_S
        self._begun_s: float | None = None
        self._reported_s: float | None = None

    def report_stuck(self, now_s: float) -> None:
        """Log once for each frame that takes longer than STUCK_S."""
        begun_s = self._begun_s
        if begun_s is None or now_s - begun_s < STUCK_S or begun_s == self._reported_s:
            return
        self._reported_s = begun_s
        log.error("%s: the detector has been at one frame for %.0f s", self.name, now_s - begun_s)

    def work(self, task: Task) -> Answer:
        """Decode and detect; every failure becomes an outcome."""
        frame = task.frame
        begun_s = self._begun_s = time.monotonic()
        try:
            pixels = NO_PIXELS if self._detector.input_wh is None else decode(frame.image, self._limits)
            detections = self._detector.detect(pixels, task.query)
            work_ms = (time.monotonic() - begun_s) * 1e3
            return wire.build_detected(
                frame.frame_id, detections, self._detector.labels, task.queue_ms, work_ms
            )
        except TooLargeError as error:
            outcome, detail = Outcome.TOO_LARGE, str(error)
        except BadImageError as error:
            outcome, detail = Outcome.BAD_IMAGE, str(error)
        except BaseException as error:  # noqa: BLE001 - a detector from elsewhere may raise anything, and exit
            outcome, detail = Outcome.INTERNAL_ERROR, f"the detector failed: {type(error).__name__}"
            self._log_failure(frame, error)
        finally:
            self._begun_s = None
        work_ms = (time.monotonic() - begun_s) * 1e3
        return wire.build_answer(frame.frame_id, outcome, detail, task.queue_ms, work_ms)

    def _log_failure(self, frame: Frame, error: BaseException) -> None:
        now_s = time.monotonic()
        if now_s - self._last_traceback_s >= TRACEBACK_PERIOD_S:
            self._last_traceback_s = now_s
            log.error("detector failed on frame %d of %r", frame.frame_id, frame.camera_id, exc_info=error)


class Engine:
    """The workers. A frame is handed over only while one is free, so nothing waits in here.

    Frames and answers go through a native pool: handing over wakes the one thread that is to work,
    and answers wake the event loop through one descriptor, however many there are by the time it looks.
    """

    def __init__(self, detectors: Sequence[Detector], limits: ImageLimits) -> None:
        self._pool = WorkerPool(len(detectors))
        self._workers = [
            Worker(f"worker-{number}", detector, limits) for number, detector in enumerate(detectors)
        ]
        self._threads = [
            threading.Thread(
                target=self._pool.run_worker, args=(number, worker.work), name=worker.name, daemon=True
            )
            for number, worker in enumerate(self._workers)
        ]
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def free_workers(self) -> int:
        """How many workers have nothing to do."""
        return self._pool.free_workers

    def start(self) -> None:
        """Start the workers; answers will come back on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pool.fileno(), self._tell_answers)
        for thread in self._threads:
            thread.start()

    def submit(self, frame: Frame, query: Query, queue_ms: float, on_answer: OnAnswer) -> None:
        """Hand a frame to a free worker; `on_answer` is called in the event loop.

        Raises:
            IndexError: no worker is free.

        """
        self._pool.submit(Task(frame, query, queue_ms, on_answer))

    def report_stuck(self, now_s: float) -> None:
        """Log which workers hang; `now_s` is monotonic."""
        for worker in self._workers:
            worker.report_stuck(now_s)

    def stop(self) -> None:
        """Take no more frames; the workers end after what they have in hand."""
        self._pool.stop()

    def join(self, timeout_s: float) -> None:
        """Wait for the workers' end; a frame may outlast the server, nobody waits for its answer then."""
        deadline_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))

    def close(self) -> None:
        """Tell no more answers, and give back what the pool holds; in the event loop, after `join`."""
        if self._loop is not None:
            self._loop.remove_reader(self._pool.fileno())
        self._pool.close()

    def _tell_answers(self) -> None:
        for task, answer in self._pool.collect():
            assert isinstance(task, Task)  # noqa: S101 - nothing else is submitted
            if not isinstance(answer, Answer):
                # No memory, say, for the answer itself.
                detail = f"the worker failed: {type(answer).__name__}"
                answer = wire.build_answer(task.frame.frame_id, Outcome.INTERNAL_ERROR, detail)
            try:
                task.on_answer(answer)
            except Exception:
                # The others that were collected with it are still to be told.
                log.exception("the answer to frame %d of %r is lost", answer.frame_id, task.frame.camera_id)
