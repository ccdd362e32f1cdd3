"""The motion gate: which frames of a camera are worth sending, told from their luma planes.

The capture pipeline asks for each picture after thinning and before it is converted, scaled or encoded::

    gate = MotionGate(camera.motion_sensitivity, camera.motion_masks + camera.privacy_masks)
    decision = gate.decide(luma, captured_s, watched=watched)   # luma: uint8 (height, width), rows strided
    if decision.finished: ...                                   # a MotionInterval, to be recorded
    if decision.send: ...                                       # convert, scale, encode, deliver

`luma` may be a view of a decoded picture's first plane; it is only read. Another size begins a new background
by itself; where the pixel format changes and the size does not, call `restart`. At the end of a stream
`finish` gives the interval that is still open. Planes of more than 8 bits are the caller's to convert.
There is no clock inside. One gate is for one camera and one thread; it outlives reconnections.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from cython_ext.motion import MotionBackground
from cython_ext.motion_grid import MotionGrid
from edge_agent.capture.motion_masks import covered_cells
from edge_agent.config import Polygon

REFRESH_S = 4.0
"""Of a still scene one frame is sent so often."""
HOLD_S = 2.0
"""After the last motion every frame is sent for so long."""
INTERVAL_LIMIT_S = 300.0
"""Motion that does not end is reported in pieces of this length."""
LEARNING_S = 0.8
LEARNING_FRAMES = 5
"""A new background is learned for at least this time and so many frames."""
SCENE_SHARE = 0.5
"""When more than this share of the cells differs at once, it is the light or the camera that has changed."""
UNEVEN_SHARE = 0.1
"""When more than SCENE_SHARE has changed its level, and more than this is not explained by one light for all,
it is the light as well: lamps light unevenly, and bright parts are cut off."""
LONGEST_GAP_S = 60.0
"""After a longer pause the background is begun anew."""

USUAL_LEAST_LEVELS = 4.0
USUAL_NOISE_FACTOR = 6.0
USUAL_LEAST_CELLS = 3


class Why(StrEnum):
    """Why a frame is sent, or that it is not."""

    LEARNING = "learning"
    """The background is begun: nothing is known of motion yet."""
    MOTION = "motion"
    """Something moves, or is there that was not."""
    HOLD = "hold"
    """Something moved a moment ago."""
    SCENE = "scene"
    """The whole picture has changed at once: one frame is sent, then the background is begun anew."""
    WATCHED = "watched"
    """Somebody is looking."""
    REFRESH = "refresh"
    """Nothing moves, and no frame was sent for REFRESH_S."""
    STILL = "still"
    """Nothing moves: not sent."""


@dataclass(frozen=True, slots=True)
class MotionInterval:
    """A time in which something moved, or a piece of it."""

    begun_s: float
    """By the clock of `decide`: the first frame with motion."""
    duration_s: float
    """To the last frame with motion; 0 for a single one."""
    peak_share: float
    """The largest share of the cells that moved at once, 0 to 1; ignored regions do not count."""
    goes_on: bool
    """A piece that was cut at INTERVAL_LIMIT_S: the next one follows."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of a frame."""

    send: bool
    why: Why
    share: float
    """Of the cells that are not ignored, how many are foreground, 0 to 1."""
    finished: MotionInterval | None
    """Motion that has ended with this frame, or a piece of it."""


class MotionGate:
    """Decides for each frame of one camera. The time is what its caller says it is, and only rises.

    `sensitivity` from 1 to 100 sets how much a cell has to differ, in levels and in multiples of its noise,
    and below 50 also how many cells: from 15.6 levels, 8.4 times and 12 cells at 1, by 4 levels, 6 times and
    3 cells at 50, to 1 level, 4.2 times and 3 cells at 100. Two of the cells have to differ by twice as much.
    """

    def __init__(self, sensitivity: int = 50, masks: Sequence[Polygon] = ()) -> None:
        if not 1 <= sensitivity <= 100:
            raise ValueError(f"sensitivity: expected 1 to 100, got {sensitivity}")
        self._bluntness = 2.0 ** ((50 - sensitivity) / 25)
        self._masks = tuple(masks)
        self._background: MotionBackground | None = None
        self._counting = 0
        self._is_new = True
        self._learning_until_s = 0.0
        self._seen_s: float | None = None
        self._sent_s: float | None = None
        self._interval = _OpenInterval()

    @property
    def grid(self) -> MotionGrid | None:
        """The cells that planes are reduced to; None before the first."""
        return self._background.grid if self._background else None

    @property
    def foreground(self) -> NDArray[np.uint8] | None:
        """1 for each cell (rows, columns) that is foreground in the last plane; a view that changes."""
        return self._background.foreground if self._background else None

    def set_masks(self, masks: Sequence[Polygon]) -> None:
        """Ignore other regions from now on; the background stays as it is."""
        self._masks = tuple(masks)
        if self._background:
            self._ignore(self._background)

    def restart(self) -> None:
        """Forget the background: what comes next looks different for another reason than motion."""
        self._background = None

    def finish(self) -> MotionInterval | None:
        """Give the interval that is open, which ends with the last motion seen."""
        return self._interval.end()

    def decide(self, luma: NDArray[np.uint8], now_s: float, *, watched: bool) -> Decision:
        """Decide on the next frame.

        Args:
            luma: uint8 (height, width), full or limited range, rows strided; only read.
            now_s: when it was taken, by a monotonic clock.
            watched: whether every frame is wanted.

        Raises:
            TypeError, ValueError: no such plane.

        """
        elapsed_s = 0.0 if self._seen_s is None else max(0.0, now_s - self._seen_s)
        background = self._background_of(luma, now_s, elapsed_s)
        learning = now_s < self._learning_until_s or background.frames < LEARNING_FRAMES
        moved, differing, changed = background.update(luma, elapsed_s, learning=learning)
        self._seen_s = now_s
        share = moved / self._counting if self._counting else 0.0
        is_many = max(differing, changed) > SCENE_SHARE * self._counting
        has_changed = not learning and is_many and differing > UNEVEN_SHARE * self._counting
        if has_changed:
            self._begin(background, now_s, is_new=False)
            moved, share = 0, 0.0
        finished = self._interval.note(now_s, share)
        if learning and self._is_new:
            why = Why.LEARNING
        elif moved:
            why = Why.MOTION
        elif self._interval.is_open:
            why = Why.HOLD
        elif has_changed:
            why = Why.SCENE
        elif watched:
            why = Why.WATCHED
        elif self._sent_s is None or now_s - self._sent_s >= REFRESH_S:
            why = Why.REFRESH
        else:
            return Decision(False, Why.STILL, share, finished)
        self._sent_s = now_s
        return Decision(True, why, share, finished)

    def _background_of(self, luma: NDArray[np.uint8], now_s: float, elapsed_s: float) -> MotionBackground:
        background, shape = self._background, luma.shape
        if background is None or shape != (background.grid.height, background.grid.width):
            background = MotionBackground(
                *shape,
                least_levels=USUAL_LEAST_LEVELS * self._bluntness,
                noise_factor=USUAL_NOISE_FACTOR * self._bluntness**0.25,
                least_cells=min(round(USUAL_LEAST_CELLS * max(1.0, self._bluntness)), luma.size),
            )
            self._background = background
            self._ignore(background)
            self._begin(background, now_s, is_new=True)
        elif elapsed_s > LONGEST_GAP_S:
            self._begin(background, now_s, is_new=True)
        return background

    def _begin(self, background: MotionBackground, now_s: float, *, is_new: bool) -> None:
        background.restart()
        self._is_new = is_new
        self._learning_until_s = now_s + LEARNING_S

    def _ignore(self, background: MotionBackground) -> None:
        ignored = covered_cells(background.grid, self._masks)
        background.ignore(ignored)
        self._counting = int(ignored.size - np.count_nonzero(ignored))


class _OpenInterval:
    """The motion that is going on, and when it ends."""

    def __init__(self) -> None:
        self._begun_s: float | None = None
        self._last_s = 0.0
        self._peak_share = 0.0

    @property
    def is_open(self) -> bool:
        return self._begun_s is not None

    def note(self, now_s: float, share: float) -> MotionInterval | None:
        """Take a frame's share, 0 for none; gives what has ended: an interval, or a piece of a long one."""
        finished = None
        if not share and now_s - self._last_s >= HOLD_S:
            return self.end()
        if self._begun_s is not None and now_s - self._begun_s >= INTERVAL_LIMIT_S:
            finished = self.end(goes_on=True)
            self._begun_s, self._last_s = now_s, now_s
        if share:
            if self._begun_s is None:
                self._begun_s = now_s
            self._last_s = now_s
            self._peak_share = max(self._peak_share, share)
        return finished

    def end(self, *, goes_on: bool = False) -> MotionInterval | None:
        if self._begun_s is None:
            return None
        ended = MotionInterval(self._begun_s, self._last_s - self._begun_s, self._peak_share, goes_on)
        self._begun_s, self._peak_share = None, 0.0
        return ended
