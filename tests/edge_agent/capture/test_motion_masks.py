"""Regions as cells: each cell by its middle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cython_ext.motion_grid import grid_of
from edge_agent.capture.motion_masks import covered_cells
from edge_agent.config import Polygon

ALL: Polygon = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
LEFT: Polygon = ((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0))
fractions = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.625, 0.8, 1.0])
polygons = st.lists(st.tuples(fractions, fractions), min_size=3, max_size=7).map(tuple)


def is_inside(polygon: Polygon, x: float, y: float) -> bool:
    """Count the edges to the right of a point: odd is inside."""
    crossings = 0
    for number, (x1, y1) in enumerate(polygon):
        x2, y2 = polygon[number - 1]
        if min(y1, y2) <= y < max(y1, y2) and x < x1 + (y - y1) / (y2 - y1) * (x2 - x1):
            crossings += 1
    return crossings % 2 == 1


@given(drawn=st.lists(polygons, max_size=3), height=st.integers(1, 600), width=st.integers(1, 600))
def test_cells_are_told_by_their_middles(drawn: list[Polygon], height: int, width: int) -> None:
    """As counted edge by edge, for polygons that cross themselves and for cells that are cut off, too."""
    grid = grid_of(height, width)
    covered = covered_cells(grid, drawn)
    rng = np.random.default_rng(1)

    assert covered.shape == (grid.rows, grid.columns)
    for row, column in zip(
        rng.integers(grid.rows, size=20), rng.integers(grid.columns, size=20), strict=True
    ):
        bottom = min((row + 1) * grid.side_px, height)
        right = min((column + 1) * grid.side_px, width)
        x, y = (column * grid.side_px + right) / 2 / width, (row * grid.side_px + bottom) / 2 / height
        near_an_edge = {
            any(is_inside(polygon, x + dx, y + dy) for polygon in drawn)
            for dx in (-1e-9, 1e-9)
            for dy in (-1e-9, 1e-9)
        }
        assert covered[row, column] in near_an_edge


@pytest.mark.parametrize(("height", "width"), [(1, 1), (576, 768), (1080, 1920), (37, 641)])
def test_whole_and_half(height: int, width: int) -> None:
    """Everything, the left half, and nothing."""
    grid = grid_of(height, width)

    assert covered_cells(grid, [ALL]).all()
    assert covered_cells(grid, [LEFT, LEFT]).mean() == pytest.approx(0.5, abs=0.51 / grid.columns)
    assert not covered_cells(grid, []).any()
    assert not covered_cells(grid, [((0.1, 0.5), (0.5, 0.5), (0.9, 0.5))]).any(), "a line has no inside"
