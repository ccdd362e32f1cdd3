"""The one uplink of all cameras: whose frame goes next, and how much of it each of them may take."""

import asyncio
import math
import time
from collections.abc import Callable

from edge_agent.config import CameraConfig
from edge_agent.frame import Frame
from edge_agent.result import Answer
from edge_agent.uplink.budget import Allowance, Meter, cost_bytes, fair_shares
from edge_agent.uplink.lateness import Carried, Lateness
from edge_agent.uplink.steps import StepController
from edge_agent.uplink.throughput import Throughput
from edge_agent.window import Window

# A frame is sent when it is expected to arrive at an age of at most this share of its maximum.
AGE_AT_ARRIVAL = 0.5
# A frame alone may take this share of its maximum age to get through.
FRAME_TIME = 0.25
# Of the uplink's throughput: the rest is for records, for wishes, and for what the estimate is off.
USABLE = 0.85
ADAPT_PERIOD_S = 0.25
# How often to look again when a frame is held back for want of answers.
HELD_PERIOD_S = 0.05
# With frames on their way and no answer to any, one of another camera is tried so often.
PROBE_PERIOD_S = 1.0
# The most that a request holds beside its image and the camera's name.
REQUEST_BYTES = 64
# Who has offered no frame for so long takes no share.
IDLE_S = 10.0
WATCHED_WEIGHT = 3.0


class Lane:
    """One camera's part of the uplink. Lives in the event loop.

    `on_send` is called with each frame whose turn it is; it is in flight in `window` by then. `on_step` is
    called when the frames are to be made otherwise, `on_slow` when the reason changes for which they are not
    in time; `on_stale` for each frame that grew too old while it waited.
    """

    def __init__(
        self,
        uplink: "Uplink",
        camera: CameraConfig,
        on_send: Callable[[Frame], None],
        on_step: Callable[[], None],
        on_slow: Callable[[str], None],
        on_stale: Callable[[], None],
    ) -> None:
        self.window = Window()
        self.meter = Meter(time.monotonic())
        self.is_open = False
        """Whether there is a call to send frames on."""
        self.is_watched = False
        self.max_age_s = camera.max_age_ms / 1e3
        self.fps = camera.fps
        self.steps = StepController(camera.jpeg_quality, camera.fps)
        self.allowance = Allowance(camera.max_kbit)
        self.turn = 0.0
        self.offered_s = -math.inf
        self._uplink = uplink
        self._has_answers = False
        # Its last call was taken, and never answered: others are not to wait for what it sends.
        self._is_doubtful = False
        self._on_send = on_send
        self._on_step = on_step
        self._on_slow = on_slow
        self._on_stale = on_stale
        self._beside_bytes = REQUEST_BYTES + len(camera.name)
        self._lateness = Lateness(self.max_age_s)

    def configure(self, camera: CameraConfig) -> None:
        """Go over to another configuration of the camera."""
        self.max_age_s = self._lateness.max_age_s = camera.max_age_ms / 1e3
        self.allowance.set(camera.max_kbit, time.monotonic())
        self.steps.want(camera.jpeg_quality, self.fps)

    @property
    def weight(self) -> float:
        """How much the camera counts where shares are given out."""
        return WATCHED_WEIGHT if self.is_watched else 1.0

    @property
    def waiting_bytes(self) -> int:
        """What the waiting frame costs; 0 without one."""
        frame = self.window.waiting
        return 0 if frame is None else cost_bytes(len(frame.image_data) + self._beside_bytes)

    def waiting_age_s(self, now_s: float) -> float:
        """Give the age of the waiting frame; 0 without one."""
        frame = self.window.waiting
        return 0.0 if frame is None else now_s - frame.captured_s

    def want(self, fps: float, *, is_watched: bool) -> None:
        """Take another wanted rate, and whether someone is looking."""
        self.fps, self.is_watched = fps, is_watched
        self.steps.want(self.steps.quality, fps)

    def open(self) -> None:
        """Note that there is a call to send frames on."""
        self.is_open = True
        self._lateness.connected()

    def offer(self, frame: Frame, now_s: float) -> str:
        """Take the camera's latest frame; gives the reason why the one that waited is dropped, if one did."""
        is_over_budget = self._uplink.is_over_budget(self, now_s)
        older = self.window.offer(frame)
        self.offered_s = now_s
        self.steps.offered(cost_bytes(len(frame.image_data) + self._beside_bytes), frame.captured_s, now_s)
        self._lateness.offered(now_s)
        self._uplink.offered(now_s)
        if older is None:
            return ""
        return "over budget" if is_over_budget else "superseded"

    def answered(self, answer: Answer, latency_ms: float) -> None:
        """Note an answer, and how long after its capture the frame has it."""
        self._has_answers, self._is_doubtful = True, False
        now_s = time.monotonic()
        server_s = (answer.queue_ms + answer.work_ms) / 1e3
        self._uplink.throughput.answered((self, answer.frame_id), server_s, now_s)
        self._lateness.answered(latency_ms / 1e3, server_s, is_stale=answer.outcome == "stale")
        self._uplink.pump()

    def lose(self) -> int:
        """Give up what is in flight, when its call has ended; gives back how many frames that were."""
        self.is_open = False
        for frame_id in self.window.in_flight_ids:
            self._uplink.throughput.lost((self, frame_id))
        lost = self.window.lose()
        self._is_doubtful = lost > 0 and not self._has_answers
        self._has_answers = False
        self._uplink.pump()
        return lost

    def send(self, now_s: float) -> None:
        """Send the waiting frame: it is its turn."""
        frame = self.window.take(now_s)
        assert frame is not None, "only a camera whose window has room and a frame has a turn"  # noqa: S101
        spent_bytes = cost_bytes(len(frame.image_data) + self._beside_bytes)
        self.allowance.spend(spent_bytes, now_s)
        self._uplink.allowance.spend(spent_bytes, now_s)
        self._uplink.throughput.sent(
            (self, frame.frame_id), spent_bytes, now_s, is_doubtful=self._is_doubtful
        )
        self._on_send(frame)

    def forget_stale(self, now_s: float) -> None:
        """Let a waiting frame go that is already too old."""
        frame = self.window.waiting
        if frame is not None and now_s - frame.captured_s >= self.max_age_s:
            self.window.discard()
            self._on_stale()

    def adapt(self, share_bytes_s: float, now_s: float) -> None:
        """Let the frames give way to what may be taken, or come back."""
        throughput = self._uplink.throughput
        limit_bytes_s = throughput.limit_bytes_s(now_s)
        share_bytes_s = min(share_bytes_s, self.allowance.bytes_s)
        if self.steps.choose(share_bytes_s, limit_bytes_s * self.max_age_s * FRAME_TIME, now_s):
            self._on_step()
        carried = Carried(
            self.is_open,
            throughput.bytes_s(now_s),
            self.steps.step,
            self.fps,
            limit_bytes_s * USABLE < min(self._uplink.allowance.bytes_s, self.allowance.bytes_s),
        )
        if self.is_open and not self.window.in_flight and self._uplink.is_over_budget(self, now_s):
            self._lateness.held_back()
        if self._lateness.judge(carried, now_s):
            self._on_slow(self._lateness.reason)


class Uplink:
    """Gives the cameras their turns, so that few bytes are on their way and each is fresh when it arrives.

    Turns are fair by bytes; a camera that someone is watching counts three times. Frames wait in their
    windows, the latest of each camera, never in a pipe.
    """

    def __init__(self) -> None:
        self.throughput = Throughput()
        self.allowance = Allowance()
        self._lanes: list[Lane] = []
        self._channel: object = None
        self._turn = 0.0
        self._sent_s = -math.inf
        self._adapted_s = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def set_budget(self, max_kbit: float | None) -> None:
        """Allow all cameras together so many kilobits a second; None allows everything."""
        self.allowance.set(max_kbit, time.monotonic())

    def join(self, lane: Lane) -> None:
        """Let a camera take part."""
        self._lanes.append(lane)

    def leave(self, lane: Lane) -> None:
        """Let a camera take part no more."""
        lane.lose()
        self._lanes.remove(lane)

    def begin(self, lane: Lane, channel: object, round_trip_s: float) -> None:
        """Open a camera's lane over a channel, on which a short message took this long there and back."""
        if channel is not self._channel:  # perhaps by another way: nothing is known of it
            self._channel = channel
            self.throughput = Throughput()
        self.throughput.short_message(round_trip_s)
        lane.open()
        self.pump()

    def is_over_budget(self, lane: Lane, now_s: float) -> bool:
        """Tell whether it is a budget that holds a camera's frame back."""
        return max(lane.allowance.wait_s(now_s), self.allowance.wait_s(now_s)) > 0

    def offered(self, now_s: float) -> None:
        """Note that some camera has a frame."""
        if now_s - self._adapted_s >= ADAPT_PERIOD_S:
            self._adapted_s = now_s
            self._adapt(now_s)
        self.pump()

    def pump(self) -> None:
        """Send what may go now; look again when more may."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_s = time.monotonic()
        while (lane := self._next(now_s)) is not None:
            self._turn = max(self._turn, lane.turn)
            lane.turn = self._turn + lane.waiting_bytes / lane.weight
            self._sent_s = now_s
            lane.send(now_s)
        self._look_again(now_s)

    def _adapt(self, now_s: float) -> None:
        lanes = [lane for lane in self._lanes if now_s - lane.offered_s < IDLE_S]
        shares = fair_shares(
            min(self.allowance.bytes_s, USABLE * self.throughput.limit_bytes_s(now_s)),
            [min(lane.steps.demand_bytes_s, lane.allowance.bytes_s) for lane in lanes],
            [lane.weight for lane in lanes],
        )
        for lane, share_bytes_s in zip(lanes, shares, strict=True):
            lane.adapt(share_bytes_s, now_s)

    def _next(self, now_s: float) -> Lane | None:
        """Find whose turn it is, if a frame may go at all."""
        if self.allowance.wait_s(now_s) > 0:
            return None
        for lane in self._lanes:
            lane.forget_stale(now_s)
        ready = [lane for lane in self._lanes if _is_ready(lane) and lane.allowance.wait_s(now_s) == 0]
        if not ready:
            return None
        for lane in ready:  # nothing is saved up while a camera has nothing to send
            lane.turn = max(lane.turn, self._turn)
        ready.sort(key=lambda lane: lane.turn)
        if self.throughput.bytes_in_flight <= 0:
            return ready[0]
        if now_s - self._sent_s >= PROBE_PERIOD_S:
            # It may be one camera's call alone that is silent, and not the uplink.
            idle = next((lane for lane in ready if lane.window.in_flight == 0), None)
            if idle is not None:
                return idle
        # One that is too old for its way, even an empty one, does not hold up the others.
        hopeful = [lane for lane in ready if self._is_in_time(lane, -self.throughput.bytes_in_flight, now_s)]
        return hopeful[0] if hopeful and self._is_in_time(hopeful[0], 0, now_s) else None

    def _is_in_time(self, lane: Lane, more_bytes: int, now_s: float) -> bool:
        way_s = self.throughput.way_s(lane.waiting_bytes + more_bytes, now_s)
        return way_s is not None and lane.waiting_age_s(now_s) + way_s <= AGE_AT_ARRIVAL * lane.max_age_s

    def _look_again(self, now_s: float) -> None:
        waits = [
            max(lane.allowance.wait_s(now_s), self.allowance.wait_s(now_s)) or HELD_PERIOD_S
            for lane in self._lanes
            if _is_ready(lane)
        ]
        if waits:
            self._timer = asyncio.get_running_loop().call_later(min(waits), self.pump)


def _is_ready(lane: Lane) -> bool:
    return lane.is_open and lane.window.waiting is not None and lane.window.has_room
