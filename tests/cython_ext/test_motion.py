"""`MotionBackground`: equal to its reference to the bit, and what it makes of its arguments."""

import contextlib
import re
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cython_ext import reference_motion
from cython_ext.motion import MotionBackground
from cython_ext.motion_grid import LONGEST_SIDE_CELLS, grid_of

Plane = NDArray[np.uint8]

USUAL: dict[str, Any] = {"least_levels": 4.0, "noise_factor": 6.0, "least_cells": 3}


def in_padded_rows(plane: Plane, padding: int) -> Plane:
    """Lay a plane out as a decoder does, with other bytes between its rows."""
    padded = np.full((plane.shape[0], plane.shape[1] + padding), 255, np.uint8)
    padded[:, : plane.shape[1]] = plane
    return padded[:, : plane.shape[1]]


def assert_equal_steps(
    ours: MotionBackground, wanted: reference_motion.MotionBackground, plane: Plane, **how: Any
) -> tuple[int, int, int]:
    """Show both a plane; everything that they know afterwards is equal to the bit."""
    answer = ours.update(plane, **how)
    assert answer == wanted.update(plane, **how)
    for name in ("cells", "mean", "deviation", "foreground"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(wanted, name), err_msg=name)
    assert ours.frames == wanted.frames
    return answer


@st.composite
def scenes(draw: st.DrawFn) -> list[tuple[Plane, float, bool]]:
    """Draw what a camera might see: noise, light that changes, a lamp, and things that come, rest and go."""
    height, width = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    if draw(st.booleans()):
        height, width = height * 5, width * 5
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    still = rng.integers(0, 256, (height, width)).astype(float)
    if draw(st.booleans()):
        still = np.repeat(np.repeat(still[::8, ::8], 8, 0), 8, 1)[:height, :width]
    noise = draw(st.sampled_from([0.0, 1.0, 20.0]))
    frames = []
    for _ in range(draw(st.integers(2, 8))):
        gain, offset = draw(st.sampled_from([(1.0, 0.0), (1.0, 12.0), (0.6, 5.0), (1.7, -9.0), (0.0, 0.0)]))
        seen = still * gain + offset + rng.normal(0, noise, still.shape)
        for _ in range(draw(st.integers(0, 2))):
            top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
            tall, wide = draw(st.integers(1, height)), draw(st.integers(1, width))
            seen[top : top + tall, left : left + wide] += draw(st.sampled_from([-80, -9, 5, 30, 200]))
        plane = np.clip(seen, 0, 255).astype(np.uint8)
        frames += [(plane, draw(st.sampled_from([0.0, 0.1, 1.0, 2.0, 90.0])), draw(st.integers(0, 5)) == 0)]
        frames += [frames[-1]] * draw(st.integers(0, 3))
    return frames


@settings(max_examples=100)
@given(
    frames=scenes(),
    least_levels=st.sampled_from([0.5, 4.0, 16.0]),
    noise_factor=st.sampled_from([1.0, 6.0]),
    least_cells=st.integers(1, 6),
    ignoring=st.sampled_from([0.0, 0.3, 1.0]),
    padding=st.integers(0, 5),
)
def test_it_equals_its_reference(
    frames: list[tuple[Plane, float, bool]],
    least_levels: float,
    noise_factor: float,
    least_cells: int,
    ignoring: float,
    padding: int,
) -> None:
    """Frame by frame, with rows padded as decoders pad them."""
    grid = grid_of(*frames[0][0].shape)
    ignored = (np.random.default_rng(1).random((grid.rows, grid.columns)) < ignoring).astype(np.uint8)
    options: dict[str, Any] = {
        "least_levels": least_levels,
        "noise_factor": noise_factor,
        "least_cells": least_cells,
        "ignored": ignored,
    }
    ours = MotionBackground(grid.height, grid.width, **options)
    wanted = reference_motion.MotionBackground(grid.height, grid.width, **options)

    for plane, elapsed_s, learning in frames:
        laid_out = in_padded_rows(plane, padding)
        assert_equal_steps(ours, wanted, laid_out, elapsed_s=elapsed_s, learning=learning)


@pytest.mark.parametrize(
    ("height", "width"),
    [(1, 1), (1, 4096), (4096, 1), (2, 3), (161, 160), (577, 769), (1080, 1920), (2160, 3840), (4096, 4096)],
)
def test_planes_of_any_size(height: int, width: int) -> None:
    """The grid is small, its cells square and within the plane, and the means are those of the reference."""
    grid = grid_of(height, width)
    plane = np.random.default_rng(7).integers(0, 256, (height, width), dtype=np.uint8)
    ours = MotionBackground(height, width, **USUAL)

    assert ours.update(plane, 0.0) == (0, 0, 0)

    assert max(grid.rows, grid.columns) <= LONGEST_SIDE_CELLS
    assert max(grid.rows, grid.columns) > LONGEST_SIDE_CELLS // 2 or grid.side_px == 1
    assert (grid.rows - 1) * grid.side_px < height <= grid.rows * grid.side_px
    assert (grid.columns - 1) * grid.side_px < width <= grid.columns * grid.side_px
    np.testing.assert_array_equal(ours.cells, reference_motion.cell_means(plane, grid))
    changed = plane.copy()
    changed[: height // 3, : width // 3] ^= 255
    assert ours.update(changed, 0.1)[0] <= grid.rows * grid.columns


def test_the_highest_sums_fit() -> None:
    """All white, in the largest cells that there are: the mean is white."""
    for height, width in ((3, 65_536), (65_536, 3)):
        background = MotionBackground(height, width, **USUAL)
        background.update(np.full((height, width), 255, np.uint8), 0.0)
        assert (background.cells == 255).all()


def test_an_update_changes_neither_plane_nor_size() -> None:
    """The plane is only read, also where it may not be written; the views stay the same arrays."""
    plane = np.zeros((48, 64), np.uint8)
    plane.flags.writeable = False
    background = MotionBackground(48, 64, **USUAL)
    views = [background.cells, background.mean, background.deviation, background.foreground]

    for _ in range(3):
        background.update(plane, 0.1)

    now = [background.cells, background.mean, background.deviation, background.foreground]
    assert all(before is after for before, after in zip(views, now, strict=True))
    with pytest.raises(ValueError, match="read-only"):
        background.mean[0, 0] = 1


@pytest.mark.parametrize(
    ("luma", "error", "problem"),
    [
        (None, TypeError, "luma: expected a uint8 array of shape (48, 64), got NoneType"),
        (
            np.zeros((48, 64)),
            TypeError,
            "luma: expected a uint8 array of shape (48, 64), got float64 (48, 64)",
        ),
        (np.zeros((48, 64), np.uint16), TypeError, "got uint16 (48, 64)"),
        (np.zeros((48, 64), np.int8), TypeError, "got int8 (48, 64)"),
        (np.zeros((64, 48), np.uint8), ValueError, "got uint8 (64, 48)"),
        (np.zeros((48, 64, 1), np.uint8), ValueError, "got uint8 (48, 64, 1)"),
        (np.zeros(48 * 64, np.uint8), ValueError, "got uint8 (3072,)"),
        (np.zeros((64, 48), np.uint8).T, ValueError, "with strides (at least 64, 1), got strides (1, 48)"),
        (np.zeros((48, 128), np.uint8)[:, ::2], ValueError, "got strides (128, 2)"),
        (np.zeros((48, 64), np.uint8)[::-1], ValueError, "got strides (-64, 1)"),
        (np.zeros((48, 64), np.uint8)[:, ::-1], ValueError, "got strides (64, -1)"),
        (np.broadcast_to(np.zeros(64, np.uint8), (48, 64)), ValueError, "got strides (0, 1)"),
    ],
)
def test_planes_that_are_refused(luma: Any, error: type[Exception], problem: str) -> None:
    """What was found and what was expected; nothing has been learned of it."""
    background = MotionBackground(48, 64, **USUAL)

    with pytest.raises(error, match=re.escape(problem)):
        background.update(luma, 0.1)

    assert background.frames == 0


@pytest.mark.parametrize(
    ("change", "error", "problem"),
    [
        ({"height": 0}, ValueError, "height: expected 1 to 65536 px, got 0"),
        ({"width": 65_537}, ValueError, "width: expected 1 to 65536 px, got 65537"),
        ({"width": 6.5}, TypeError, "width: expected an integer, got 6.5"),
        ({"least_levels": 0}, ValueError, "least_levels: expected a number above 0, got 0"),
        ({"least_levels": float("nan")}, ValueError, "least_levels: expected a number above 0, got nan"),
        ({"noise_factor": 1e39}, ValueError, "noise_factor: expected a number above 0, got 1e+39"),
        ({"noise_factor": "6"}, TypeError, "noise_factor: expected a number, got '6'"),
        ({"least_cells": -1}, ValueError, "least_cells: expected at least 0, got -1"),
        ({"ignored": np.zeros((3, 3), np.uint8)}, ValueError, "ignored: expected a C-contiguous uint8 array"),
        ({"ignored": np.zeros((48, 64), np.float32)}, TypeError, "ignored: expected a C-contiguous uint8"),
    ],
)
def test_backgrounds_that_are_refused(change: dict[str, Any], error: type[Exception], problem: str) -> None:
    """Each argument by its name."""
    with pytest.raises(error, match=re.escape(problem)):
        MotionBackground(**{"height": 48, "width": 64, **USUAL, **change})


@pytest.mark.parametrize("elapsed_s", [-0.1, float("nan"), float("inf"), None, "1"])
def test_times_that_are_refused(elapsed_s: Any) -> None:
    """Time passes forwards, in finite numbers."""
    with pytest.raises((TypeError, ValueError), match=r"^elapsed_s: expected a number"):
        MotionBackground(48, 64, **USUAL).update(np.zeros((48, 64), np.uint8), elapsed_s)


def test_a_second_thread_is_refused() -> None:
    """While one is at work, which it is without the GIL, nobody else may touch the background."""
    plane = np.zeros((10_240, 10_240), np.uint8)
    background = MotionBackground(*plane.shape, **USUAL)
    ending = threading.Event()

    def work() -> None:
        while not ending.is_set():
            with contextlib.suppress(RuntimeError):
                background.update(plane, 0.1)

    def restart_for(duration_s: float) -> None:
        deadline_s = time.monotonic() + duration_s
        while time.monotonic() < deadline_s:
            background.restart()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        with pytest.raises(RuntimeError, match="an update is at work in another thread"):
            restart_for(20)
    finally:
        ending.set()
        worker.join()
