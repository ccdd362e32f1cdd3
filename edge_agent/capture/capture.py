"""One camera's capture: what its thread finds, told to others; and a watch over the thread, from outside."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from edge_agent.backoff import Backoff
from edge_agent.capture.attempts import Attempts
from edge_agent.capture.counters import CaptureCounters
from edge_agent.capture.motion import MotionInterval
from edge_agent.capture.stage import Stage
from edge_agent.capture.thread import CaptureThread, Listener
from edge_agent.config import CameraConfig
from edge_agent.frame import Frame
from edge_agent.state import CameraState, CameraStatus
from edge_agent.wanted import Wanted

PATIENCE_S = 5.0
"""Beyond a stage's own bound, before its call is said to hang."""
LATE_LOOK_S = 2.0
"""When the looks themselves were that far apart, the whole process stood still, and no call is to blame."""
MOST_HUNG = 3
"""Threads of a camera that hang in a call that never comes back."""
UNTOLD = frozenset({"reading", "making a frame", "closing"})
"""Stages that are no news while pictures come."""


class Capture:
    """Captures one camera in a thread, until it is stopped.

    `on_frame` and `on_status` are called in that thread or from `supervise`, never after `stop` has returned,
    and are to be quick. A status is told when state or reason change. The first attempt shows its stages as
    `connecting`; after a failure the state says why (`offline`, `authentication failed`, `stalled`) and keeps
    its beginning through all further attempts until one succeeds. A file that is not to be looped ends in
    `ended`.

    No library and no system call can hold the camera hostage: whoever calls `supervise` often enough has a
    thread given up that is in a stage for longer than that may take. It delivers nothing any more, and
    another takes its place; at most MOST_HUNG are left behind.
    """

    def __init__(
        self,
        camera: CameraConfig,
        password: str | None,
        on_frame: Callable[[Frame], None],
        on_status: Callable[[CameraStatus], None],
        attempts: Attempts | None = None,
        patience_s: float = PATIENCE_S,
        on_motion: Callable[[MotionInterval], None] = lambda _: None,
    ) -> None:
        self.counters = CaptureCounters()
        """Written by the capture's thread."""
        self.status = CameraStatus.now(CameraState.CONNECTING)
        self._camera = camera
        self._password = password
        self._on_frame = on_frame
        self._on_status = on_status
        self._on_motion = on_motion
        self._attempts = attempts or Attempts()
        self._patience_s = patience_s
        self._backoff = Backoff()
        self._delivery = threading.RLock()
        self._is_stopped = False
        self._frame_id = 0
        self._latest_s = 0.0
        self._wanted = Wanted.of(camera)
        self._hung: list[CaptureThread] = []
        self._again_s = 0.0
        self._looked_s = time.monotonic()
        self._stood_still_s = 0.0
        self._thread = self._new_thread()

    def start(self) -> None:
        """Begin; once only."""
        self._begin(time.monotonic())

    def stop(self, timeout_s: float) -> bool:
        """End, and tell whether the thread did within `timeout_s`.

        One that is in a library call is left alone: it ends when the call's own timeout does, and delivers
        nothing any more. One that was given up is not waited for.
        """
        with self._delivery:
            self._is_stopped = True
        self._thread.stop()
        self._attempts.forget(self._thread)
        if self._thread in self._hung:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive

    def want(self, wanted: Wanted) -> None:
        """Make the frames from now on so; may be called from any thread, at any time."""
        with self._delivery:
            self._wanted = wanted
            self._thread.maker.wanted = wanted

    def configure(self, camera: CameraConfig) -> None:
        """Take another configuration of the camera, which differs in nothing that concerns its source."""
        with self._delivery:
            self._camera = camera
            self._thread.maker.configured = camera

    @property
    def hung(self) -> int:
        """How many threads were given up and still hang."""
        return sum(thread.is_alive for thread in self._hung)

    def supervise(self) -> None:
        """Look whether the thread makes progress; to be called twice a second or so, by one thread."""
        thread, now_s = self._thread, time.monotonic()
        is_alive, stage = thread.is_alive, thread.stage  # in this order: what has ended says so before
        if self._is_stopped or thread.has_ended:
            return
        if now_s - self._looked_s > LATE_LOOK_S:
            self._stood_still_s = now_s
        self._looked_s = now_s
        if is_alive and self._is_current(thread):
            lasted_s = 0.0 if stage is None else now_s - max(stage.since_s, self._stood_still_s)
            if stage is not None and lasted_s > stage.bound_s + self._patience_s:
                self._give_up(thread, stage, now_s)
        elif now_s >= self._again_s and self.hung < MOST_HUNG:
            self._begin(now_s)

    def _is_current(self, thread: CaptureThread) -> bool:
        return thread is self._thread and thread not in self._hung

    def _give_up(self, thread: CaptureThread, stage: Stage, now_s: float) -> None:
        with self._delivery:  # from here on the thread delivers nothing
            self._hung = [one for one in self._hung if one.is_alive] + [thread]
            self._attempts.forget(thread)
            thread.give_up()
        reason = f"{stage.name} hangs for {max(1.0, now_s - stage.since_s):.0f} s"
        if len(self._hung) >= MOST_HUNG:
            reason += f": tried again when one of {MOST_HUNG} calls that hang comes back"
        self._tell(CameraState.STALLED, reason)
        self._again_s = now_s + self._backoff.next_delay_s()

    def _begin(self, now_s: float) -> None:
        """Go on with another thread."""
        with self._delivery:
            if self._is_stopped:
                return
            self._thread = self._new_thread()
            try:
                self._thread.start()
            except RuntimeError:  # the system has none to give; supervise tries again
                self._again_s = now_s + self._backoff.next_delay_s()
                self._tell(CameraState.OFFLINE, "the system has no room for another thread")

    def _new_thread(self) -> CaptureThread:
        listener = Listener(
            on_frame=self._deliver, on_state=self._found, on_stage=self._reached, on_motion=self._moved
        )
        thread = CaptureThread(
            self._camera, self._password, listener, self.counters, self._backoff, self._attempts
        )
        thread.maker.wanted = self._wanted
        return thread

    # The thread calls these four; one that has been given up is not listened to.

    def _deliver(self, thread: CaptureThread, frame: Frame) -> None:
        with self._delivery:
            if self._is_stopped or not self._is_current(thread):
                return
            self._frame_id += 1
            self._latest_s = max(self._latest_s, frame.captured_s)
            self.counters.frames_delivered += 1
            self._on_frame(replace(frame, frame_id=self._frame_id, captured_s=self._latest_s))

    def _found(self, thread: CaptureThread, state: CameraState, reason: str) -> None:
        with self._delivery:
            if self._is_current(thread):
                self._tell(state, reason)

    def _reached(self, thread: CaptureThread, stage: Stage) -> None:
        if self.status.state is CameraState.CONNECTING and stage.name not in UNTOLD:
            self._found(thread, CameraState.CONNECTING, stage.name)

    def _moved(self, thread: CaptureThread, interval: MotionInterval) -> None:
        """Hand on motion that has ended, by the stop perhaps: that is the one thing told after it."""
        with self._delivery:
            if self._is_current(thread):
                self._on_motion(interval)

    def _tell(self, state: CameraState, reason: str = "") -> None:
        if (state, reason) == (self.status.state, self.status.reason):
            return
        with self._delivery:
            if not self._is_stopped:
                self.status = self.status.then(state, reason)
                self._on_status(self.status)
