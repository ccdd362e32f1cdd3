"""Frames from the streams to the workers and answers back: the scheduler and the engine joined."""

import time
from collections.abc import Callable

from central_server import wire
from central_server.counters import FrameCounters
from central_server.detectors.detector import Query
from central_server.engine import Engine
from central_server.errors import TooLargeError
from central_server.frame import Answer, Frame, Outcome
from central_server.image import ImageLimits
from central_server.scheduler import Scheduler, Stream, Waiting

# From the end of work to the client: the event loop's turn, and the way back.
ANSWER_S = 0.003


class Dispatcher:
    """Lives in the event loop. Every frame submitted to a stream that stays gets exactly one answer."""

    def __init__(
        self,
        engine: Engine,
        limits: ImageLimits,
        default_max_age_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._scheduler = Scheduler()
        self._default_max_age_ms = default_max_age_ms
        self._clock = clock
        self.counters = FrameCounters()

    def open_stream(self, camera_id: str, query: Query, on_answer: Callable[[Answer], None]) -> Stream:
        """Begin a stream; `on_answer` is called once for each of its frames while the client is there."""

        def on_drop(dropped: Waiting, reason: Outcome) -> None:
            if reason is Outcome.STALE:
                dropped.stream.work_time.doubt()
            queue_ms = (self._clock() - dropped.arrived_s) * 1e3
            self._answer(dropped.stream, wire.build_answer(dropped.frame.frame_id, reason, queue_ms=queue_ms))

        return Stream(camera_id, query, on_answer, on_drop)

    def submit(self, stream: Stream, frame: Frame) -> None:
        """Take a frame in; it is answered at once, later, or when a newer one supersedes it."""
        try:
            self._limits.check_bytes(frame.image)
        except TooLargeError as error:
            self._answer(stream, wire.build_answer(frame.frame_id, Outcome.TOO_LARGE, str(error)))
            return
        now_s = self._clock()
        max_age_ms = self._default_max_age_ms if frame.max_age_ms is None else frame.max_age_ms
        deadline_s = now_s + (max_age_ms - frame.age_ms) / 1e3
        if self._scheduler.is_empty and self._engine.free_workers and now_s < deadline_s:
            # Nobody's turn comes before it: it need not wait for its own. Nor is it asked whether its
            # answer will be in time: a worker that has nothing else to do may as well try.
            self._start_work(stream, frame, 0.0)
            return
        self._scheduler.offer(stream, frame, now_s, deadline_s - stream.work_time.usual_s - ANSWER_S)
        self._fill_workers()

    def close_stream(self, stream: Stream) -> None:
        """Forget a stream whose client has gone; its frames are still counted, not answered."""
        self._scheduler.leave(stream)

    def expire(self) -> None:
        """Answer what has waited too long, and tell of workers that hang; called now and then."""
        now_s = self._clock()
        self._scheduler.expire(now_s)
        self._engine.report_stuck(now_s)

    def _answer(self, stream: Stream, answer: Answer) -> None:
        stream.counts[answer.outcome] += 1
        self.counters.count(stream.camera_id, answer.outcome)
        if not stream.left:
            stream.on_answer(answer)

    def _fill_workers(self) -> None:
        while self._engine.free_workers:
            now_s = self._clock()
            waiting = self._scheduler.take(now_s)
            if waiting is None:
                return
            self._start_work(waiting.stream, waiting.frame, (now_s - waiting.arrived_s) * 1e3)

    def _start_work(self, stream: Stream, frame: Frame, queue_ms: float) -> None:
        def on_answer(answer: Answer) -> None:
            if answer.outcome is Outcome.DETECTED:
                stream.work_time.note(answer.work_s)
            self._answer(stream, answer)
            self._fill_workers()

        self._engine.submit(frame, stream.query, queue_ms, on_answer)
