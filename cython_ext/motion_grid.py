"""The cells that a luma plane is reduced to, and what kernel and reference of the motion background share."""

import math
from dataclasses import dataclass

LONGEST_SIDE_CELLS = 160
"""The longer side of a plane has at most so many cells, and more than half of it where it has the pixels."""
ROWS_READ = 8
"""Of a cell's rows about so many are read, evenly spaced: more would cost time and tell little."""
LONGEST_SIDE_PX = 65_536

FIRST_DEVIATION = 1.0
"""Levels: the mean absolute difference that a cell is believed to have before it was seen."""
FIRST_DEVIATION_WEIGHT = 8
"""Frames that this belief counts for."""
LEARNING_SHARE = 0.25
"""While learning, at least so much of a mean is replaced by each frame: what passes leaves little behind."""
MEAN_S = 5.0
"""Time constant of a background cell's mean."""
DEVIATION_S = 300.0
"""Time constant of its deviation, once it has been seen for as long."""
RESTLESS_S = 1500.0
"""Time constant of the deviation of a foreground cell that does not come to rest."""
PLAIN_FACTOR = 2.0
PLAIN_CELLS = 2
"""A patch holds so many cells that differ by so many times what is needed: coding leaves faint ones only."""
AT_REST_S = 1.0
"""A foreground cell that kept its value for so long is at rest."""
STILL_SHARE = 0.25
"""How much of a still cell's value each frame replaces."""
GHOST_S = 3.0
"""A patch at rest for so long is tested for being uncovered background or light."""
MOST_OF = 8
"""All but one of so many cells of a patch are at rest before it is tested."""
ABSORB_S = 240.0
"""A cell at rest for so long is background: a parked car is forgotten after four minutes."""

STEPS = 16
"""Medians and sums are taken in steps of 1/16 level, as whole numbers, so that no order of adding matters."""
LEAST_SLOPE, MOST_SLOPE = -0.9, 4.0
LEAST_SPAN = 16
"""Levels between the dark and the bright half, below which light is taken for the same in both."""
LEAST_GROUP = 8
"""The bright part has at least one in so many cells, or there is one group only."""
GHOST_CONTRAST = 1.25
"""Uncovered background: its contour is so many times as strong in the background as in the picture."""
LEAST_LIT_CELLS = 16
LEAST_LIT_CORRELATION = 0.9
LEAST_LIT_VARIANCE = 4.0
"""Square levels: a patch with less texture cannot be recognised under another light."""


@dataclass(frozen=True, slots=True)
class MotionGrid:
    """Square cells over a plane of `height` x `width` pixels; the last of a row or column may be cut off."""

    height: int
    width: int
    side_px: int
    rows: int
    columns: int
    row_step: int
    """Of a cell's rows, the first and every so many-th after it are read."""


def grid_of(height: int, width: int) -> MotionGrid:
    """Give the grid of a plane: the side of a cell is the least power of two that has few enough of them."""
    side_px = 1
    while side_px * LONGEST_SIDE_CELLS < max(height, width):
        side_px *= 2
    return MotionGrid(
        height, width, side_px, -(-height // side_px), -(-width // side_px), max(1, side_px // ROWS_READ)
    )


def learned_share(elapsed_s: float, constant_s: float) -> float:
    """Give how much of a value is replaced after a time, with exponential forgetting."""
    return 1 - math.exp(-elapsed_s / constant_s)
