"""Regions drawn on a picture, as cells of the motion grid. Pure."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cython_ext.motion_grid import MotionGrid
from edge_agent.config import Polygon


def covered_cells(grid: MotionGrid, polygons: Iterable[Polygon]) -> NDArray[np.bool_]:
    """Tell which cells have their middle in any of the polygons: bool (rows, columns).

    Corners are fractions of the plane's width and height; a polygon that crosses itself is filled by the
    even-odd rule.
    """
    x = _middles(grid.columns, grid.side_px, grid.width)
    y = _middles(grid.rows, grid.side_px, grid.height)[:, None]
    covered = np.zeros((grid.rows, grid.columns), np.bool_)
    for polygon in polygons:
        inside = np.zeros_like(covered)
        for (x1, y1), (x2, y2) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
            if y1 != y2:
                crossing = x1 + (y - y1) / (y2 - y1) * (x2 - x1)
                inside ^= ((y1 > y) != (y2 > y)) & (x < crossing)
        covered |= inside
    return covered


def _middles(count: int, side_px: int, length_px: int) -> NDArray[np.float64]:
    """Give the middles of cells as fractions of the length; the last cell may be cut off."""
    begins = np.arange(count) * side_px
    middles: NDArray[np.float64] = (begins + np.minimum(begins + side_px, length_px)) / 2 / length_px
    return middles
