"""What the motion kernel computes, in plain NumPy: the specification, and the oracle of its tests.

All values are luma levels in float32, one operation after the other as written; sums and medians are taken
over whole numbers. The kernel's results equal these to the bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cython_ext import motion_grid as rules
from cython_ext.motion_grid import MotionGrid, grid_of, learned_share

Levels = NDArray[np.float32]
Cells = NDArray[np.bool_]


def cell_means(luma: NDArray[np.uint8], grid: MotionGrid) -> Levels:
    """Reduce a plane to the mean of each cell, over the rows that are read, float32 (rows, columns)."""
    read = np.arange(grid.height) % grid.side_px % grid.row_step == 0
    tops = np.searchsorted(np.flatnonzero(read), np.arange(grid.rows) * grid.side_px)
    lefts = np.arange(grid.columns) * grid.side_px
    sums = np.add.reduceat(np.add.reduceat(luma[read].astype(np.int64), tops, axis=0), lefts, axis=1)
    heights = np.diff(tops, append=np.count_nonzero(read))
    widths = np.diff(lefts, append=grid.width)
    counts = (heights[:, None] * widths).astype(np.float32)
    return np.asarray(sums.astype(np.float32) / counts, np.float32)


def steps(values: Levels) -> NDArray[np.int64]:
    """Round levels to whole sixteenths, halves upwards."""
    whole: NDArray[np.int64] = np.floor(values * np.float32(rules.STEPS) + np.float32(0.5)).astype(np.int64)
    return whole


def lower_median(values: NDArray[np.int64]) -> int:
    """Give the lower median of whole numbers."""
    return int(np.sort(values)[(len(values) - 1) // 2])


@dataclass(frozen=True, slots=True)
class Light:
    """How the light has changed: a level v is seen as ``v + (shift + slope * (v - at))``, within 0 to 255."""

    shift: np.float32
    slope: np.float32
    at: np.float32

    def on(self, levels: Levels) -> Levels:
        """Give the levels under this light."""
        lit = levels + (self.shift + self.slope * (levels - self.at))
        return np.minimum(np.maximum(lit, np.float32(0)), np.float32(255))


def fit_light(cells: Levels, mean: Levels) -> Light:
    """Fit the light of most cells (n,): a resistant line through the medians of two halves (Tukey 1977).

    The cells are parted at the median level of the background. Each part gives its median level and the
    median of its differences; the line through both is the light. Where one part is small, or both are
    nearly as bright, the median of all differences is the light.
    """
    nothing = np.float32(0)
    if not len(cells):
        return Light(nothing, nothing, nothing)
    levels = np.floor(mean).astype(np.int64)
    changes = steps(cells - mean)
    bright = levels > lower_median(levels)
    if np.count_nonzero(bright) * rules.LEAST_GROUP >= len(cells):
        dark_at, bright_at = lower_median(levels[~bright]), lower_median(levels[bright])
        if bright_at - dark_at >= rules.LEAST_SPAN:
            change = lower_median(changes[~bright])
            rise = np.float32(lower_median(changes[bright]) - change) / np.float32(rules.STEPS)
            slope = rise / np.float32(bright_at - dark_at)
            slope = min(max(slope, np.float32(rules.LEAST_SLOPE)), np.float32(rules.MOST_SLOPE))
            return Light(np.float32(change) / np.float32(rules.STEPS), slope, np.float32(dark_at))
    return Light(np.float32(lower_median(changes)) / np.float32(rules.STEPS), nothing, nothing)


def patches(differs: Cells) -> Iterator[Cells]:
    """Give each group of cells that touch, corners included."""
    left = differs.copy()
    rows, columns = left.shape
    for start in zip(*map(list, np.nonzero(differs)), strict=True):
        if not left[start]:
            continue
        patch, waiting = np.zeros_like(left), [start]
        left[start] = False
        while waiting:
            row, column = waiting.pop()
            patch[row, column] = True
            for near in np.ndindex(3, 3):
                at = (row + near[0] - 1, column + near[1] - 1)
                if 0 <= at[0] < rows and 0 <= at[1] < columns and left[at]:
                    left[at] = False
                    waiting.append(at)
        yield patch


def is_uncovered(patch: Cells, outside: Cells, cells: Levels, lit: Levels) -> bool:
    """Tell whether something has left: its contour is in the background and not in the picture.

    The contour's strength is the sum of the differences between cells of the patch and cells outside, two
    apart in a row or column (Cucchiara et al. 2003 call what is uncovered a ghost).
    """
    now, before = steps(cells), steps(lit)
    strength = [0, 0]
    for axis in (0, 1):
        ahead = [slice(None), slice(None)]
        behind = [slice(None), slice(None)]
        ahead[axis], behind[axis] = slice(2, None), slice(None, -2)
        first, second = tuple(behind), tuple(ahead)
        edge = (patch[first] & outside[second]) | (outside[first] & patch[second])
        for index, values in enumerate((now, before)):
            strength[index] += int(np.abs(values[first] - values[second])[edge].sum())
    return strength[1] > rules.GHOST_CONTRAST * strength[0]


def is_lit(cells: Levels, lit: Levels) -> bool:
    """Tell whether the cells of a patch (n,) show the background under another light: the same texture."""
    count = len(cells)
    if count < rules.LEAST_LIT_CELLS:
        return False
    now, before = steps(cells), steps(lit)
    both = count * int((now * before).sum()) - int(now.sum()) * int(before.sum())
    now_2 = count * int((now * now).sum()) - int(now.sum()) ** 2
    before_2 = count * int((before * before).sum()) - int(before.sum()) ** 2
    least = rules.LEAST_LIT_VARIANCE * rules.STEPS * rules.STEPS * count * count
    if both <= 0 or now_2 < least or before_2 < least:
        return False
    needed = rules.LEAST_LIT_CORRELATION * rules.LEAST_LIT_CORRELATION
    return float(both) * float(both) >= needed * float(now_2) * float(before_2)


class MotionBackground:
    """An adaptive background of cells; arguments and results are those of `motion.MotionBackground`."""

    def __init__(
        self,
        height: int,
        width: int,
        *,
        least_levels: float,
        noise_factor: float,
        least_cells: int,
        ignored: NDArray[np.uint8] | None = None,
    ) -> None:
        self.grid = grid_of(height, width)
        shape = (self.grid.rows, self.grid.columns)
        self.least_levels, self.noise_factor = np.float32(least_levels), np.float32(noise_factor)
        self.least_cells = least_cells
        self.ignored = np.zeros(shape, bool) if ignored is None else ignored.astype(bool)
        self.cells, self.mean, self.deviation = (np.zeros(shape, np.float32) for _ in range(3))
        self.still, self.still_s = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.foreground, self._was_foreground = np.zeros(shape, bool), np.zeros(shape, bool)
        self.frames = 0

    def restart(self) -> None:
        """Forget the background: the next frame is the first."""
        self.frames = 0

    def update(
        self, luma: NDArray[np.uint8], elapsed_s: float, *, learning: bool = False
    ) -> tuple[int, int, int]:
        """Compare a plane with the background and learn from it."""
        self.cells = cell_means(luma, self.grid)
        self.frames += 1
        self.foreground[:] = False
        if self.frames == 1:
            self.mean = self.cells.copy()
            self.deviation[:] = rules.FIRST_DEVIATION
            self.still_s[:] = -1
            self._was_foreground[:] = False
            return 0, 0, 0
        used = self._used()
        light = fit_light(self.cells[used], self.mean[used])
        lit = light.on(self.mean)
        # What lies between the background and its look under the light has followed the light in part.
        low, high = np.minimum(self.mean, lit), np.maximum(self.mean, lit)
        base = np.minimum(np.maximum(self.cells, low), high)
        difference = self.cells - base
        limit = self._limit(np.abs(difference), used)
        differs = (np.abs(difference) > limit) & ~self.ignored
        changed = (np.abs(self.cells - self.mean) > limit) & ~self.ignored
        forgotten = np.zeros_like(differs)
        if learning:
            self.still_s[:] = -1
        else:
            self._rest(differs, light, limit, elapsed_s)
            plain = np.abs(difference) > np.float32(rules.PLAIN_FACTOR) * limit
            forgotten = self._find_patches(differs, plain, lit)
        self._was_foreground = self.foreground.copy()
        self._learn(base, lit, difference, differs & learning, forgotten, elapsed_s, learning=learning)
        moved, differing = np.count_nonzero(self.foreground), np.count_nonzero(differs)
        return int(moved), int(differing), int(np.count_nonzero(changed))

    def _used(self) -> Cells:
        """Choose the cells that tell of the light: all that count, without a small foreground."""
        used = ~self.ignored & ~self._was_foreground
        few = 2 * np.count_nonzero(used) < np.count_nonzero(~self.ignored)
        return ~self.ignored if few else used

    def _limit(self, sizes: Levels, used: Cells) -> Levels:
        """Say how much a cell may differ: by the noise of the picture or its own, whichever is larger."""
        noise = np.float32(0)
        if used.any():
            noise = np.float32(lower_median(steps(sizes[used]))) / np.float32(rules.STEPS)
        return np.maximum(self.least_levels, self.noise_factor * np.maximum(self.deviation, noise))

    def _rest(self, differs: Cells, light: Light, limit: Levels, elapsed_s: float) -> None:
        """Note for how long each cell that differs has kept its value; -1 for those that do not differ."""
        still = light.on(self.still)
        keeps = differs & (self.still_s >= 0) & (np.abs(self.cells - still) <= limit)
        share = np.float32(rules.STILL_SHARE)
        self.still = np.where(keeps, still + share * (self.cells - still), self.cells)
        self.still_s = np.where(keeps, self.still_s + np.float32(elapsed_s), np.float32(0))
        self.still_s[~differs] = -1

    def _find_patches(self, differs: Cells, plain: Cells, lit: Levels) -> Cells:
        """Make patches of enough cells the foreground; give the cells that are background by now."""
        outside = ~differs & ~self.ignored
        forgotten = np.zeros_like(differs)
        for patch in patches(differs):
            count = int(np.count_nonzero(patch))
            if count < self.least_cells or np.count_nonzero(patch & plain) < min(rules.PLAIN_CELLS, count):
                continue
            at_rest = np.count_nonzero(patch & (self.still_s >= np.float32(rules.GHOST_S)))
            if rules.MOST_OF * at_rest >= (rules.MOST_OF - 1) * count and (
                is_uncovered(patch, outside, self.cells, lit) or is_lit(self.cells[patch], lit[patch])
            ):
                forgotten |= patch
            else:
                forgotten |= patch & (self.still_s >= np.float32(rules.ABSORB_S))
                self.foreground |= patch & (self.still_s < np.float32(rules.ABSORB_S))
        return forgotten

    def _learn(
        self,
        base: Levels,
        lit: Levels,
        difference: Levels,
        unsure: Cells,
        forgotten: Cells,
        elapsed_s: float,
        *,
        learning: bool,
    ) -> None:
        """Move means and deviations; the foreground's mean follows the light alone."""
        share = learned_share(elapsed_s, rules.MEAN_S)
        if learning:
            share = max(share, 1 / self.frames, rules.LEARNING_SHARE)
        fresh_share = 1 / (self.frames + rules.FIRST_DEVIATION_WEIGHT)
        deviation_share = max(learned_share(elapsed_s, rules.DEVIATION_S), fresh_share)
        mean = base + np.float32(share) * difference
        growth = np.abs(difference) - self.deviation
        deviation = self.deviation + np.float32(deviation_share) * growth
        restless = self.deviation + np.float32(learned_share(elapsed_s, rules.RESTLESS_S)) * growth
        restless = np.where(self.still_s < np.float32(rules.AT_REST_S), restless, self.deviation)
        deviation = np.where(self.foreground, restless, np.where(unsure, self.deviation, deviation))
        self.mean = np.where(forgotten, self.still, np.where(self.foreground, lit, mean))
        self.deviation = np.where(forgotten, np.float32(rules.FIRST_DEVIATION), deviation)
        self.still_s[forgotten] = -1
