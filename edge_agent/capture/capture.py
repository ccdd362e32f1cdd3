"""One camera's capture thread: opens, reads, reconnects for ever, and says at every moment how it stands."""

import logging
import threading
import traceback
from collections.abc import Callable

from edge_agent.backoff import Backoff
from edge_agent.capture.counters import CaptureCounters
from edge_agent.capture.errors import CaptureError
from edge_agent.capture.frames import FrameMaker
from edge_agent.capture.opening import open_source
from edge_agent.capture.pace import FilePace
from edge_agent.capture.source import Source
from edge_agent.capture.timing import PresentationClock
from edge_agent.config import CameraConfig
from edge_agent.config.source_url import source_kind
from edge_agent.frame import Frame
from edge_agent.state import CameraState, CameraStatus
from edge_agent.wanted import Wanted

log = logging.getLogger(__name__)

REFUSED_PASSWORD_DELAY_S = 30.0
"""Cameras lock a user out who tries a wrong password too often."""


class Capture:
    """Captures one camera in a thread of its own, until it is stopped.

    `on_frame` and `on_status` are called in that thread, never after `stop` has returned, and are to be
    quick. A status is told when state or reason change. The first attempt shows its stages as `connecting`;
    after a failure the state says why (`offline`, `authentication failed`, `stalled`) and keeps its beginning
    through all further attempts until one succeeds. A file that is not to be looped ends in `ended`.
    """

    def __init__(
        self,
        camera: CameraConfig,
        password: str | None,
        on_frame: Callable[[Frame], None],
        on_status: Callable[[CameraStatus], None],
    ) -> None:
        self.counters = CaptureCounters()
        self.status = CameraStatus.now(CameraState.CONNECTING)
        self._camera = camera
        self._password = password
        self._on_frame = on_frame
        self._on_status = on_status
        self._backoff = Backoff()
        self._stopping = threading.Event()
        self._delivery = threading.RLock()
        is_file = source_kind(camera.url) == "file"
        timeline = FilePace(self._stopping.wait) if is_file else PresentationClock()
        self._maker = FrameMaker(camera, timeline, self.counters)
        self._thread = threading.Thread(target=self._run, name=f"capture-{camera.name}", daemon=True)

    def start(self) -> None:
        """Begin; once only."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """End, and tell whether the thread did within `timeout_s`.

        One that hangs in a library call is left alone: it ends when the call's own timeout does, and delivers
        nothing any more.
        """
        with self._delivery:
            self._stopping.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def want(self, wanted: Wanted) -> None:
        """Make the frames from now on so; may be called from any thread, at any time."""
        self._maker.wanted = wanted

    def _run(self) -> None:
        while not self._stopping.is_set():
            least_delay_s = 0.0
            try:
                self._watch()
            except CaptureError as error:
                self._tell(error.state, str(error))
                if error.state is CameraState.AUTHENTICATION_FAILED:
                    least_delay_s = REFUSED_PASSWORD_DELAY_S
            except Exception as error:  # noqa: BLE001  a fault in one camera is not to end its thread for good
                # Without the exception's text, which a library may have made from the URL.
                where = "".join(traceback.format_tb(error.__traceback__))
                log.error("camera %s: %s in its capture\n%s", self._camera.name, type(error).__name__, where)  # noqa: TRY400
                self._tell(CameraState.OFFLINE, f"internal error in capture: {type(error).__name__}")
            else:
                if not self._camera.loop:
                    self._tell(CameraState.ENDED)
                    return
                continue
            self._stopping.wait(max(least_delay_s, self._backoff.next_delay_s()))

    def _watch(self) -> None:
        """Capture from one connection until it fails, or one round of a file until it ends."""
        try:
            source = open_source(self._camera, self._password, self._stage)
        except CaptureError:
            self.counters.failed_opens += 1
            raise
        self.counters.opens += 1
        self._maker.begin()
        with source:
            self._deliver_from(source)

    def _deliver_from(self, source: Source) -> None:
        seen_before = self.counters.frames_seen
        for coded in source.pictures():
            seen = self.counters.frames_seen
            for frame in self._maker.frames(source, coded):
                self._deliver(frame)
            if self._stopping.is_set():
                return
            if self.counters.frames_seen > seen:
                self._backoff.healthy()
                self._tell(CameraState.STREAMING)
            elif waiting := self._maker.waits_for_keyframe:
                self._tell(CameraState.WAITING_FOR_KEYFRAME, waiting)
        if self.counters.frames_seen == seen_before:
            raise CaptureError("no picture in it that can be decoded")

    def _stage(self, stage: str) -> None:
        if self.status.state is CameraState.CONNECTING:
            self._tell(CameraState.CONNECTING, stage)

    def _deliver(self, frame: Frame) -> None:
        with self._delivery:
            if not self._stopping.is_set():
                self.counters.frames_delivered += 1
                self._on_frame(frame)

    def _tell(self, state: CameraState, reason: str = "") -> None:
        if (state, reason) == (self.status.state, self.status.reason):
            return
        with self._delivery:
            if not self._stopping.is_set():
                self.status = self.status.then(state, reason)
                self._on_status(self.status)
