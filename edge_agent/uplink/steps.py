"""How quality, size and rate of a camera's frames give way to what can be carried, in that order. Pure."""

import math
from dataclasses import dataclass

LEAST_QUALITY = 40
QUALITY_STEP = 10
SHRINKS = (0.84, 0.7, 0.59, 0.5, 0.42, 0.35)
"""Few and far apart: the size of the pictures is not to flutter."""
RATE_FACTOR = 0.8
LEAST_FPS = 0.25
"""One frame in four seconds is always sent."""

# A step is left downwards when it takes more than this of the share, upwards for one that takes at most that.
MOST_USE = 0.95
EASY_USE = 0.85
# How long a step must not have fitted before it is left, and another have fitted easily before it is taken.
DOWN_HOLD_S = 0.5
UP_HOLD_S = 2.0
# A way up that was wrong so soon is tried again more and more seldom.
WRONG_WITHIN_S = 15.0
LONGEST_UP_HOLD_S = 60.0
# So much more to carry than when the way up was wrong is another matter.
OTHER_MATTER = 2.0
# The weight of the latest frame in the usual size.
LATEST = 0.3
RATE_SPAN_S = 2.0


@dataclass(frozen=True, slots=True)
class Step:
    """What the frames are to be at most."""

    quality: int
    shrink: float
    """Of the useful width and height."""
    rate: float
    """Of the wanted rate."""

    @property
    def relative_bytes(self) -> float:
        """About how large a frame is, against one of quality 80 in full size."""
        # libjpeg's scale of the quantisation tables; the exponents fit street scenes well enough.
        scale = 5000 / self.quality if self.quality < 50 else 200 - 2 * self.quality
        return float((max(scale, 4) / 40) ** -0.55 * self.shrink**1.7)


def ladder(quality: int, fps: float) -> tuple[Step, ...]:
    """Give all steps from what is wanted down to the least: quality first, then size, then rate."""
    steps = [Step(quality, 1.0, 1.0)]
    while steps[-1].quality > LEAST_QUALITY:
        steps.append(Step(max(LEAST_QUALITY, steps[-1].quality - QUALITY_STEP), 1.0, 1.0))
    floor = steps[-1].quality
    steps += [Step(floor, shrink, 1.0) for shrink in SHRINKS]
    while steps[-1].rate * fps > LEAST_FPS:
        steps.append(Step(floor, SHRINKS[-1], max(steps[-1].rate * RATE_FACTOR, LEAST_FPS / fps)))
    return tuple(steps)


class StepController:
    """Chooses the step of one camera from the bytes of its recent frames and its share of the uplink.

    Downwards it goes at once to the step that fits, upwards only when a step has fitted easily for a while.
    """

    def __init__(self, quality: int, fps: float) -> None:
        self._ladder = ladder(quality, fps)
        self.quality = quality
        """The wanted one."""
        self._fps = fps
        self._at = 0
        self._changed_s = -math.inf
        self._full_bytes: float | None = None
        self._offered_fps = fps
        self._offered_s: float | None = None
        self._too_much_since_s: float | None = None
        self._easy_since_s: float | None = None
        self._up_hold_s = UP_HOLD_S
        self._went_up_s = -math.inf
        self._wrong_share = math.inf

    @property
    def step(self) -> Step:
        """The present step."""
        return self._ladder[self._at]

    def want(self, quality: int, fps: float) -> None:
        """Take another wanted quality and rate; the step stays about where it is."""
        if (quality, fps) != (self.quality, self._fps):
            self._ladder = ladder(quality, fps)
            self._at = min(self._at, len(self._ladder) - 1)
            self.quality, self._fps = quality, fps

    def offered(self, frame_bytes: int, captured_s: float, now_s: float) -> None:
        """Note a frame that the camera has for sending."""
        if captured_s >= self._changed_s:  # else it was made by the step before
            full_bytes = frame_bytes / self.step.relative_bytes
            usual = self._full_bytes
            self._full_bytes = full_bytes if usual is None else usual + LATEST * (full_bytes - usual)
        if self._offered_s is not None:
            interval_s = max(now_s - self._offered_s, 1e-3)
            weight = 1 - math.exp(-interval_s / RATE_SPAN_S)
            self._offered_fps += weight * (1 / interval_s - self._offered_fps)
        self._offered_s = now_s

    @property
    def demand_bytes_s(self) -> float:
        """Bytes a second that the frames would take if nothing gave way."""
        return self._need_bytes_s(0)

    def choose(self, share_bytes_s: float, most_bytes: float, now_s: float) -> bool:
        """Choose the step; tells whether it is another one.

        Args:
            share_bytes_s: the bytes a second that the camera may take; may be infinite.
            most_bytes: the bytes of a frame that still gets through in time; may be infinite.
            now_s: the present, by the monotonic clock.

        """
        if self._full_bytes is None:
            return False
        fitting = self._first(share_bytes_s * MOST_USE, most_bytes)
        easy = self._first(share_bytes_s * EASY_USE, most_bytes * EASY_USE / MOST_USE)
        self._too_much_since_s = _since(self._too_much_since_s, fitting > self._at, now_s)
        self._easy_since_s = _since(self._easy_since_s, easy < self._at, now_s)
        if self._too_much_since_s is not None and now_s - self._too_much_since_s >= DOWN_HOLD_S:
            if now_s - self._went_up_s < WRONG_WITHIN_S:
                self._up_hold_s = min(2 * self._up_hold_s, LONGEST_UP_HOLD_S)
                self._wrong_share = share_bytes_s
            return self._go(fitting, now_s)
        if self._easy_since_s is None:
            return False
        hold_s = UP_HOLD_S if share_bytes_s > OTHER_MATTER * self._wrong_share else self._up_hold_s
        if now_s - self._easy_since_s < hold_s:
            return False
        if now_s - self._went_up_s >= 2 * LONGEST_UP_HOLD_S or hold_s < self._up_hold_s:
            self._up_hold_s = UP_HOLD_S
        self._went_up_s = now_s
        return self._go(easy, now_s)

    def _go(self, at: int, now_s: float) -> bool:
        self._at = at
        self._changed_s = now_s
        self._too_much_since_s = self._easy_since_s = None
        return True

    def _first(self, share_bytes_s: float, most_bytes: float) -> int:
        """Find the highest step that fits; the least one always does."""
        for at, step in enumerate(self._ladder):
            is_small = self._frame_bytes(step) <= most_bytes or step.shrink == SHRINKS[-1]
            if is_small and self._need_bytes_s(at) <= share_bytes_s:
                return at
        return len(self._ladder) - 1

    def _frame_bytes(self, step: Step) -> float:
        return (self._full_bytes or 0.0) * step.relative_bytes

    def _need_bytes_s(self, at: int) -> float:
        # A camera that sends less than is wanted, as behind a motion gate, takes less.
        fps = min(self._fps, self._offered_fps / self.step.rate)
        step = self._ladder[at]
        return self._frame_bytes(step) * max(fps * step.rate, min(fps, LEAST_FPS))


def _since(since_s: float | None, holds: bool, now_s: float) -> float | None:
    """Give since when something holds; None while it does not."""
    if not holds:
        return None
    return now_s if since_s is None else since_s
