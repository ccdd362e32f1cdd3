"""Letterbox and its inverse: what was really applied leads boxes back to where they were."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from cython_ext import reference
from cython_ext.letterbox import Letterbox, place_letterbox
from cython_ext.resize import letterbox_to_tensor, resize_to_tensor, unletterbox

LARGEST = 4096
SIDE = st.integers(1, LARGEST)

MakeImage = Callable[[int, int], NDArray[np.uint8]]


@pytest.mark.parametrize(
    ("frame_wh", "model_wh", "centred", "expected"),
    [
        ((1920, 1080), (640, 640), True, ((640, 360), (0, 140), (1 / 3, 1 / 3))),
        ((1920, 1080), (640, 640), False, ((640, 360), (0, 0), (1 / 3, 1 / 3))),
        ((768, 576), (640, 640), True, ((640, 480), (0, 80), (640 / 768, 480 / 576))),
        # An odd rest: the larger half goes below.
        ((1000, 333), (640, 640), True, ((640, 213), (0, 213), (0.64, 213 / 333))),
        ((3, 4), (10, 9), True, ((7, 9), (1, 0), (7 / 3, 9 / 4))),
        ((4096, 1), (640, 640), True, ((640, 1), (0, 319), (640 / 4096, 1.0))),
        ((1, 1), (1, 1), True, ((1, 1), (0, 0), (1.0, 1.0))),
    ],
)
def test_the_frame_is_placed_by_whole_pixels(
    frame_wh: tuple[int, int], model_wh: tuple[int, int], centred: bool, expected: tuple[Any, ...]
) -> None:
    """The record holds what was applied: rounded size, whole pad, and the scale that these two make."""
    placed = place_letterbox(frame_wh, model_wh, centred=centred)

    assert placed == Letterbox(frame_wh, model_wh, *expected)


@given(frame_wh=st.tuples(SIDE, SIDE), model_wh=st.tuples(SIDE, SIDE), centred=st.booleans())
def test_the_picture_fits_and_keeps_its_aspect(
    frame_wh: tuple[int, int], model_wh: tuple[int, int], centred: bool
) -> None:
    """The picture lies inside the model's input, touches it on one axis, and is off by rounding at most."""
    placed = place_letterbox(frame_wh, model_wh, centred=centred)

    for axis in (0, 1):
        assert placed.scaled_wh[axis] >= 1
        assert 0 <= placed.pad_xy[axis] <= model_wh[axis] - placed.scaled_wh[axis]
        assert placed.scale_xy[axis] == placed.scaled_wh[axis] / frame_wh[axis]
        ideal = frame_wh[axis] * min(model_wh[0] / frame_wh[0], model_wh[1] / frame_wh[1])
        assert abs(placed.scaled_wh[axis] - ideal) <= (0.5 if ideal >= 0.5 else 1)
    assert placed.scaled_wh[0] == model_wh[0] or placed.scaled_wh[1] == model_wh[1]


@pytest.mark.parametrize("sizes", [((0, 5), (6, 6)), ((5, 5), (6, -1))])
def test_a_size_below_one_is_refused(sizes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """There is nothing to place without pixels."""
    with pytest.raises(ValueError, match="_wh: expected two integers of at least 1, got"):
        place_letterbox(*sizes)


@given(
    image_hw=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    out_hw=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    centred=st.booleans(),
    bgr=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_it_equals_the_reference(
    image_hw: tuple[int, int], out_hw: tuple[int, int], centred: bool, bgr: bool, seed: int
) -> None:
    """Picture, padding and record are the reference's for every size and option."""
    image = np.random.default_rng(seed).integers(0, 256, (*image_hw, 3), dtype=np.uint8)
    arguments = (image, out_hw, 114, (1 / 255, 2 / 255, 1 / 128), (0, -1, -0.5))

    tensor, placed = letterbox_to_tensor(*arguments, bgr=bgr, centred=centred)

    expected, expected_placed = reference.letterbox_to_tensor(*arguments, bgr=bgr, centred=centred)
    assert placed == expected_placed
    np.testing.assert_allclose(tensor, expected, rtol=0, atol=1e-6)


def test_all_but_the_picture_is_padding(make_image: MakeImage) -> None:
    """The picture is the plain resize to its size; above and below lies the pad value, scaled and offset."""
    image, out = make_image(36, 64), np.full((1, 3, 64, 64), np.nan, np.float32)

    tensor, placed = letterbox_to_tensor(image, (64, 64), 114, 1 / 255, (0, 1, 2), out=out)

    assert tensor is out
    assert (placed.scaled_wh, placed.pad_xy) == ((64, 36), (0, 14))
    np.testing.assert_array_equal(tensor[:, :, 14:50], resize_to_tensor(image, (36, 64), 1 / 255, (0, 1, 2)))
    for channel in range(3):
        around = np.concatenate([tensor[0, channel, :14], tensor[0, channel, 50:]])
        np.testing.assert_allclose(around, 114 / 255 + channel, rtol=1e-6)


def test_arguments_that_do_not_fit_are_named() -> None:
    """Image, size, pad value and `out` are checked as in the plain resize."""
    image = np.zeros((4, 6, 3), np.uint8)
    with pytest.raises(TypeError, match="image: expected a C-contiguous uint8"):
        letterbox_to_tensor(image.astype(np.float32), (5, 5), 114, 1, 0)
    with pytest.raises(ValueError, match="out_hw: expected two integers of at least 1, got"):
        letterbox_to_tensor(image, (5, 0), 114, 1, 0)
    with pytest.raises(ValueError, match="pad_value: expected finite float32 numbers, got inf"):
        letterbox_to_tensor(image, (5, 5), float("inf"), 1, 0)
    with pytest.raises(ValueError, match="out: expected a C-contiguous float32 array"):
        letterbox_to_tensor(image, (5, 5), 114, 1, 0, out=np.zeros((5, 5, 3), np.float32))


def seen_extent(tensor: NDArray[np.float32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where in a tensor the white picture begins and ends, x then y."""
    rows, columns = np.nonzero(tensor[0, 0].any(axis=1))[0], np.nonzero(tensor[0, 0].any(axis=0))[0]
    return np.array([columns[0], rows[0]]), np.array([columns[-1] + 1, rows[-1] + 1])


@pytest.mark.parametrize("axis", [0, 1], ids=["every width", "every height"])
@pytest.mark.parametrize("centred", [True, False])
def test_a_known_rectangle_comes_back_for_every_frame_size(
    axis: int, centred: bool, rng: np.random.Generator
) -> None:
    """A rectangle of the frame, put where the tensor shows the picture to lie, comes back within 0.01 px.

    So the record is what was applied, whatever was rounded, for each length from 1 to 4096.
    """
    white = np.full(LARGEST * LARGEST * 3, 255, np.uint8)
    for length in range(1, LARGEST + 1):
        frame_wh = rng.integers(1, LARGEST, 2, endpoint=True)
        frame_wh[axis] = length
        width, height = (int(side) for side in frame_wh)
        model_w, model_h = (int(side) for side in rng.integers(50, 150, 2))
        image = white[: width * height * 3].reshape(height, width, 3)

        tensor, placed = letterbox_to_tensor(image, (model_h, model_w), 0, 1, 0, centred=centred)

        corners = np.sort(rng.uniform(0, 1, (2, 2)), axis=0) * frame_wh
        begin, end = seen_extent(tensor)
        in_model = (begin + corners / frame_wh * (end - begin)).reshape(1, 4).astype(np.float32)
        assert np.abs(unletterbox(in_model, placed) - corners.reshape(1, 4)).max() < 0.01, placed


def test_a_drawn_rectangle_is_found_where_it_was_drawn(rng: np.random.Generator) -> None:
    """A white rectangle, seen in an enlarged tensor, comes back within 1 px."""
    for width in [*range(1, 40), *(int(w) for w in rng.integers(40, LARGEST, 200)), 4095, 4096]:
        height = int(rng.integers(1, 8, endpoint=True))
        x1, y1 = int(rng.integers(0, width)), int(rng.integers(0, height))
        x2, y2 = int(rng.integers(x1, width)) + 1, int(rng.integers(y1, height)) + 1
        image = np.zeros((height, width, 3), np.uint8)
        image[y1:y2, x1:x2] = 255

        tensor, placed = letterbox_to_tensor(image, (9, LARGEST), 0, 1 / 255, 0)

        begin, end = seen_extent(np.where(tensor >= 0.5, tensor, 0))
        in_model = np.concatenate([begin, end])[None].astype(np.float32)
        assert np.abs(unletterbox(in_model, placed) - [x1, y1, x2, y2]).max() < 1, (image.shape, placed)


ANY_BOXES = hnp.arrays(
    np.float32,
    st.tuples(st.integers(0, 8), st.just(4)),
    elements=st.floats(width=32) | st.floats(-100, 800, width=32),
)


@given(boxes=ANY_BOXES, frame_wh=st.tuples(SIDE, SIDE), centred=st.booleans())
def test_whatever_comes_back_lies_within_the_frame(
    boxes: NDArray[np.float32], frame_wh: tuple[int, int], centred: bool
) -> None:
    """NaN, infinity and reversed edges included: x1 <= x2 and y1 <= y2, inside the frame."""
    placed = place_letterbox(frame_wh, (640, 640), centred=centred)

    found = unletterbox(boxes, placed)

    np.testing.assert_array_max_ulp(found, reference.unletterbox(boxes, placed), maxulp=1)
    assert found.shape == boxes.shape
    assert found.dtype == np.float32
    assert (found[:, :2] >= 0).all()
    assert (found[:, :2] <= found[:, 2:]).all()
    assert (found[:, 2:] <= np.array(frame_wh)).all()


def test_hard_boxes_have_known_results() -> None:
    """A box over the edge is clipped, one that holds NaN becomes zeros, a reversed one loses its extent."""
    placed = place_letterbox((1280, 720), (640, 640))
    boxes = np.array(
        [
            [100, 240, 200, 340],
            [-50, 0, 900, 900],
            [np.nan, 1, 2, 3],
            [-np.inf, 200, np.inf, 240],
            [300, 240, 200, 340],
        ],
        np.float32,
    )

    found = unletterbox(boxes, placed)

    assert found.tolist() == [
        [200, 200, 400, 400],
        [0, 0, 1280, 720],
        [0, 0, 0, 0],
        [0, 120, 1280, 200],
        [600, 200, 600, 400],
    ]


def test_boxes_are_only_read() -> None:
    """Read-only boxes will do, and stay; no boxes give no boxes."""
    placed = place_letterbox((100, 100), (50, 50))
    boxes = np.array([[1, 2, 3, 4]], np.float32)
    boxes.setflags(write=False)

    assert unletterbox(boxes, placed).tolist() == [[2, 4, 6, 8]]
    assert boxes.tolist() == [[1, 2, 3, 4]]
    assert unletterbox(np.empty((0, 4), np.float32), placed).shape == (0, 4)


def test_boxes_that_do_not_fit_are_named() -> None:
    """Another dtype, shape or layout is refused."""
    placed = place_letterbox((100, 100), (50, 50))
    wanted = "boxes_xyxy: expected a C-contiguous float32 array of shape (n, 4), got "
    with pytest.raises(TypeError, match=re.escape(wanted + "float64 (1, 4)")):
        unletterbox(np.zeros((1, 4)), placed)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=re.escape(wanted + "float32 (4,)")):
        unletterbox(np.zeros(4, np.float32), placed)
    with pytest.raises(ValueError, match=re.escape(wanted + "strides (4, 16) for shape (4, 4)")):
        unletterbox(np.zeros((4, 4), np.float32).T, placed)
