"""One camera at work: its capture thread, its stream to the server, and how it stands."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from edge_agent import wire
from edge_agent.capture.attempts import Attempts
from edge_agent.capture.capture import Capture
from edge_agent.capture.motion import MotionInterval
from edge_agent.client import CameraStream
from edge_agent.clock import Clock
from edge_agent.config import CameraConfig
from edge_agent.connection import Connection
from edge_agent.figures import CameraFigures
from edge_agent.frame import Frame
from edge_agent.record import Motion, Record, StateChange
from edge_agent.result import Result
from edge_agent.state import CameraState, CameraStatus
from edge_agent.state_machine import CameraStateMachine
from edge_agent.uplink.turns import Uplink
from edge_agent.wanted import Wanted
from edge_agent.wish import CameraWish, FrameRate, Masks, Viewing

log = logging.getLogger(__name__)

STOP_POLL_S = 0.02
SUPERVISE_INTERVAL_S = 0.5

# What may change while the camera's connection stays: what is made of its pictures, and what is asked for.
LIVE_KEYS = frozenset(
    {
        "fps",
        "max_width",
        "jpeg_quality",
        "labels",
        "min_score",
        "max_age_ms",
        "max_kbit",
        "motion",
        "motion_sensitivity",
        "motion_masks",
        "privacy_masks",
    }
)
# A reason of these is on its way to the next one, or a figure: no record of its own.
PASSING = frozenset({CameraState.CONNECTING, CameraState.SLOW})
# What whoever looks for warnings in the log wants to know of.
TROUBLE = frozenset(
    {
        CameraState.OFFLINE,
        CameraState.STALLED,
        CameraState.AUTHENTICATION_FAILED,
        CameraState.REFUSED,
        CameraState.SLOW,
    }
)


class CameraRunner:
    """One camera of the configuration; one that is disabled has neither thread nor stream."""

    _next_look: asyncio.TimerHandle | None = None
    looks: int = 0
    """How often its capture has been looked after: it rises for as long as the camera is supervised."""

    def __init__(
        self,
        camera: CameraConfig,
        password: str | None,
        connection: Connection,
        on_result: Callable[[Result], None],
        on_record: Callable[[Record], None],
        on_facts: Callable[[wire.Facts], None],
        uplink: Uplink,
        attempts: Attempts,
        before: "CameraRunner | None" = None,
    ) -> None:
        """Take a camera; `before` is the runner in whose place this one comes."""
        self.camera = camera
        self.password = password
        self.facts: wire.Facts | None = None
        self._loop = asyncio.get_running_loop()
        self._on_result = on_result
        self._on_record = on_record
        self._on_facts = on_facts
        self._clock = Clock()
        self._wanted = Wanted.of(camera)
        self._capture: Capture | None = None
        self._stream: CameraStream | None = None
        self._task: asyncio.Task[None] | None = None
        self.figures: CameraFigures = CameraFigures() if before is None else before.figures
        self._dropped_before = Counter[str]() if before is None else before.dropped
        state = CameraState.CONNECTING if camera.enabled else CameraState.DISABLED
        self.machine = CameraStateMachine(self._changed, state)
        if before is None:
            self._record(self.machine.status, None)
        else:
            begun, self.machine.status = self.machine.status, before.machine.status
            self.machine.captured(begun)
        if camera.enabled:
            self._capture = Capture(
                camera, password, self._on_frame, self._on_status, attempts, on_motion=self._on_motion
            )
            self._stream = CameraStream(
                camera,
                connection,
                self._answered,
                self.machine.refused,
                self._told_facts,
                uplink=uplink,
                on_step=self._make_so,
                on_slow=self.machine.slow,
            )

    def start(self) -> None:
        """Begin."""
        if self._capture is not None and self._stream is not None:
            self._capture.start()
            self._supervise()
            self._task = asyncio.create_task(self._stream.run(), name=f"stream-{self.camera.name}")

    @property
    def status(self) -> CameraStatus:
        """How the camera stands."""
        return self.machine.status

    @property
    def dropped(self) -> Counter[str]:
        """How many frames were not sent or not answered, by reason."""
        return self._dropped_before + (self._stream.drops if self._stream else Counter())

    @property
    def counters(self) -> dict[str, int]:
        """What its capture counts since it began."""
        if self._capture is None:
            return {}
        return {
            item.name: getattr(self._capture.counters, item.name) for item in fields(self._capture.counters)
        }

    def data_use(self) -> dict[str, Any]:
        """Give what its frames take of the uplink."""
        if self._stream is None:
            return {"kbit_s": 0.0, "mb_day": 0.0, "sent_mb": 0.0}
        stream = self._stream
        return {
            "kbit_s": round(stream.kbit_per_s(), 1),
            "mb_day": round(stream.mb_per_day(), 1),
            "sent_mb": round(stream.sent_bytes / 1e6, 3),
        }

    def want(self, **changes: Any) -> None:
        """Change what is wanted of the frames from now on: fields of Wanted."""
        self._wanted = replace(self._wanted, **changes)
        if self._stream is not None:
            self._stream.want(self._wanted.fps, is_watched=self._wanted.watched)
        self._make_so()

    def wished(self, wish: CameraWish) -> None:
        """Do as the server wishes; privacy masks are the gateway's own, and no wish touches them."""
        match wish:
            case FrameRate():
                self.want(fps=wish.fps or self.camera.fps)
            case Viewing():
                self.want(watched=wish.watched)
            case Masks():
                self.want(server_masks=wish.polygons)

    def configure(self, camera: CameraConfig, password: str | None) -> bool:
        """Go over to another configuration of the camera; False when that takes another runner."""
        if camera == self.camera and password == self.password:
            return True
        changed = {
            key.name for key in fields(camera) if getattr(camera, key.name) != getattr(self.camera, key.name)
        }
        if password != self.password or changed - LIVE_KEYS:
            return False
        self.camera = camera
        if self._capture is not None:
            self._capture.configure(camera)
        configured = Wanted.of(camera)
        self.want(fps=configured.fps, quality=configured.quality, max_width=configured.max_width)
        if self._stream is not None:
            self._stream.configure(camera)
        return True

    def hurry(self) -> None:
        """Try the server again at once."""
        if self._stream is not None:
            self._stream.hurry()

    def removed(self) -> None:
        """Say that the camera is no longer one of this gateway's."""
        self.machine.captured(CameraStatus.now(CameraState.DISABLED, "removed from the configuration"))

    def stop_soon(self) -> None:
        """Tell both to end; nothing is delivered any more."""
        if self._capture is not None:
            self._capture.stop(0.0)
        if self._next_look is not None:
            self._next_look.cancel()
        if self._stream is not None:
            self._stream.stop_soon()
        if self._task is not None:
            self._task.cancel()

    async def ended(self, deadline_s: float) -> None:
        """Wait for both to end; a library call that hangs beyond the deadline is left to its own timeout."""
        if self._capture is None or self._stream is None:
            return
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        while not self._capture.stop(0.0) and time.monotonic() < deadline_s:  # noqa: ASYNC110 - it is a thread
            await asyncio.sleep(STOP_POLL_S)
        log.info(
            "camera %s: stopped; not sent or not answered: %s",
            self.camera.name,
            _in_words(self._stream.drops),
        )

    def _supervise(self) -> None:
        """Have a thread given up that hangs in a call; from the event loop, which no camera can hold up."""
        if self._capture is not None:
            self._capture.supervise()
        self.looks += 1
        self._next_look = self._loop.call_later(SUPERVISE_INTERVAL_S, self._supervise)

    # The capture thread calls these three; everything else happens in the event loop.

    def _on_frame(self, frame: Frame) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed: the agent is ending
            self._loop.call_soon_threadsafe(self._offer, frame)

    def _on_status(self, status: CameraStatus) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._captured, status)

    def _on_motion(self, interval: MotionInterval) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._moved, interval)

    def _moved(self, interval: MotionInterval) -> None:
        now_ns, trust = self._clock.look()
        begun_ns = now_ns - round((time.monotonic() - interval.begun_s) * 1e9)
        motion = Motion(round(interval.duration_s * 1e3), interval.peak_share)
        self._on_record(Record(self.camera.name, max(begun_ns, 0), trust, motion))

    def _offer(self, frame: Frame) -> None:
        if self._stream is not None:
            self._stream.offer(frame)

    def _captured(self, status: CameraStatus) -> None:
        # What was on its way when another runner took this one's place is no longer news.
        if self._task is not None and not self._task.cancelling() and not self._task.done():
            self.machine.captured(status)

    def _answered(self, result: Result) -> None:
        self.figures.add(result)
        self._on_result(result)

    def _make_so(self) -> None:
        """Tell the capture what is wanted, as far as budget and uplink carry it."""
        wanted = self._wanted
        if self._stream is not None:
            step = self._stream.step
            wanted = replace(
                wanted,
                quality=min(wanted.quality, step.quality),
                shrink=step.shrink,
                fps=wanted.fps * step.rate,
            )
        if self._capture is not None:
            self._capture.want(wanted)

    def _told_facts(self, facts: wire.Facts) -> None:
        self.facts = facts
        self.want(limit_bytes=facts.max_image_bytes, input_wh=facts.input_wh)
        self._on_facts(facts)

    def _changed(self, before: CameraStatus, now: CameraStatus) -> None:
        level = logging.WARNING if now.state in TROUBLE else logging.INFO
        log.log(level, "camera %s: %s", self.camera.name, now)
        if now.state is not before.state or now.state not in PASSING:
            self._record(now, before)

    def _record(self, now: CameraStatus, before: CameraStatus | None) -> None:
        if before is None:
            change = StateChange(now.state, now.reason)
        else:
            change = StateChange(
                now.state, now.reason, before.state, round((now.since_s - before.since_s) * 1e3)
            )
        self._on_record(Record(self.camera.name, *self._clock.look(), change))


def _in_words(drops: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(drops.items()) if count) or "none"
