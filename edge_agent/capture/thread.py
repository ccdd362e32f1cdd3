"""One thread of a camera's capture: opens, reads, reconnects, until it is told to stop or is given up."""

import logging
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from edge_agent.backoff import Backoff
from edge_agent.capture.attempts import Attempts
from edge_agent.capture.counters import CaptureCounters
from edge_agent.capture.errors import CaptureError
from edge_agent.capture.frames import FrameMaker
from edge_agent.capture.motion import MotionInterval
from edge_agent.capture.opening import open_source
from edge_agent.capture.pace import FilePace
from edge_agent.capture.source import Source
from edge_agent.capture.stage import Bounds, Stage
from edge_agent.capture.timing import PresentationClock
from edge_agent.config import CameraConfig
from edge_agent.config.source_url import source_kind
from edge_agent.frame import Frame
from edge_agent.state import CameraState
from edge_agent.thread_names import show_name

log = logging.getLogger(__name__)

REFUSED_PASSWORD_DELAY_S = 30.0
"""Cameras lock a user out who tries a wrong password too often."""
LONGEST_REFUSED_DELAY_S = 480.0
UNSEEN_S = 2.0
"""Decoders may take packets for ever, give no picture, and say nothing: then this is said of the camera."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Who is told what a thread finds; all are called in that thread, and are to be quick."""

    on_frame: Callable[["CaptureThread", Frame], None]
    on_state: Callable[["CaptureThread", CameraState, str], None]
    on_stage: Callable[["CaptureThread", Stage], None]
    on_motion: Callable[["CaptureThread", MotionInterval], None]


class CaptureThread:
    """Attempts at one camera, one after another, each through all its frames.

    `stage` says at any moment what it is at and for how long that may take; None while it waits for its next
    attempt, and for a file's next picture to be due. What it shares with a thread after it (backoff,
    counters) it does not touch any more once it is told to stop.
    """

    def __init__(
        self,
        camera: CameraConfig,
        password: str | None,
        listener: Listener,
        counters: CaptureCounters,
        backoff: Backoff,
        attempts: Attempts,
    ) -> None:
        self.stage: Stage | None = None
        self.has_ended = False
        """A file was played to its end: nothing is to follow."""
        self._camera = camera
        self._password = password
        self._listener = listener
        self._counters = counters
        self._backoff = backoff
        self._attempts = attempts
        self._bounds = Bounds.of(camera)
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._was_well = False
        self._refusals = 0
        is_file = source_kind(camera.url) == "file"
        timeline = FilePace(self._wait_until_due) if is_file else PresentationClock()
        self.maker = FrameMaker(
            camera, timeline, counters, lambda interval: listener.on_motion(self, interval)
        )
        self._thread = threading.Thread(target=self._run, name=f"capture-{camera.name}", daemon=True)

    def start(self) -> None:
        """Begin; raises RuntimeError when the system gives no thread."""
        self._thread.start()

    def stop(self) -> None:
        """Tell it to end, soon; nothing follows but what it is at."""
        self._stopping.set()
        self._woken.set()

    def give_up(self) -> None:
        """Tell it to end should its call ever come back, and name it for those who count threads."""
        self.stop()
        self._thread.name = f"hung-{self._camera.name}"
        show_name(self._thread)

    def join(self, timeout_s: float) -> None:
        """Wait for the end; not from within the thread itself."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    @property
    def is_alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._thread.is_alive()

    def _run(self) -> None:
        show_name()
        try:
            while self._attempts.turn(self._stopping, was_well=self._was_well):
                delay_s = self._attempt()
                self.stage = None
                if delay_s is None:
                    return
                self._woken.wait(delay_s)
                self._woken.clear()
        finally:
            self._attempts.forget(self)
            self.maker.end()

    def _attempt(self) -> float | None:
        """Capture from one connection; gives the delay before the next, None when nothing is to follow."""
        self._was_well = False
        try:
            while not self._stopping.is_set():
                self._watch()
                if not self._camera.loop:
                    self.has_ended = not self._stopping.is_set()
                    self._tell(CameraState.ENDED)
                    return None
        except CaptureError as error:
            return self._failed(error)
        except Exception as error:  # noqa: BLE001  a fault in one camera is not to end its thread for good
            # Without the exception's text, which a library may have made from the URL.
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("camera %s: %s in its capture\n%s", self._camera.name, type(error).__name__, where)  # noqa: TRY400
            return self._failed(CaptureError(f"internal error in capture: {type(error).__name__}"))
        return None

    def _failed(self, error: CaptureError) -> float | None:
        if self._stopping.is_set():
            return None
        self._tell(error.state, str(error))
        delay_s = self._backoff.next_delay_s()
        if error.is_away:
            return min(delay_s, self._attempts.away(self, self._woken.set))
        self._attempts.reached(self)
        if error.state is not CameraState.AUTHENTICATION_FAILED:
            self._refusals = 0
            return delay_s
        self._refusals += 1
        refused_s = REFUSED_PASSWORD_DELAY_S * 2.0 ** (self._refusals - 1)
        return max(delay_s, min(refused_s, LONGEST_REFUSED_DELAY_S))

    def _watch(self) -> None:
        """Capture from one connection until it fails, or one round of a file until it ends."""
        try:
            source = open_source(self._camera, self._password, self._at)
        except CaptureError:
            if not self._stopping.is_set():
                self._counters.failed_opens += 1
            raise
        if not self._stopping.is_set():
            self._counters.opens += 1
            self._attempts.reached(self)
        self.maker.begin()
        with source:
            try:
                self._deliver_from(source)
            finally:
                self._at(Stage("closing", self._bounds.close_s))

    def _deliver_from(self, source: Source) -> None:
        seen_before, began_s = self._counters.frames_seen, time.monotonic()
        pictures = source.pictures()
        while not self._stopping.is_set():
            self._at(Stage("reading", self._bounds.read_s))
            coded = next(pictures, None)
            if coded is None or self._stopping.is_set():
                break
            self._at(Stage("making a frame", self._bounds.frame_s))
            seen = self._counters.frames_seen
            for frame in self.maker.frames(source, coded):
                self._listener.on_frame(self, frame)
            if self._stopping.is_set():
                return
            if self._counters.frames_seen > seen:
                self._was_well = True
                self._refusals = 0
                self._backoff.healthy()
                self._tell(CameraState.STREAMING)
            elif waiting := self.maker.waits_for_keyframe:
                self._tell(CameraState.WAITING_FOR_KEYFRAME, waiting)
            elif seen == seen_before and time.monotonic() - began_s > UNSEEN_S:
                self._tell(CameraState.WAITING_FOR_KEYFRAME, "nothing that came could be decoded")
        if self._counters.frames_seen == seen_before and not self._stopping.is_set():
            raise CaptureError("no picture in it that can be decoded")

    def _at(self, stage: Stage) -> None:
        self.stage = stage
        self._listener.on_stage(self, stage)

    def _wait_until_due(self, seconds: float) -> None:
        stage, self.stage = self.stage, None
        self._stopping.wait(seconds)
        if stage is not None:
            self.stage = Stage(stage.name, stage.bound_s)

    def _tell(self, state: CameraState, reason: str = "") -> None:
        self._listener.on_state(self, state, reason)
