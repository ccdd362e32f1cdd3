"""`resize_to_tensor`: the filter that the models' inputs are defined by."""

import re
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cython_ext import reference
from cython_ext.resize import resize_to_tensor

SCALE, OFFSET = 2 / 255, -1.0
TOLERANCE = 1e-5

Image = NDArray[np.uint8]
MakeImage = Callable[[int, int], Image]

SIZES = [
    ((1, 1), (1, 1)),
    ((1, 1), (7, 5)),
    ((1, 9), (4, 4)),
    ((9, 1), (4, 13)),
    ((2, 2), (1, 1)),
    ((2, 2), (9, 9)),
    ((3, 5), (3, 5)),
    ((40, 60), (20, 30)),
    ((33, 47), (99, 141)),
    ((301, 299), (300, 300)),
    ((101, 1009), (17, 300)),
    ((576, 768), (300, 300)),
    ((480, 640), (300, 300)),
    ((1080, 1920), (300, 300)),
    ((1080, 1920), (360, 640)),
    ((2, 4096), (5, 640)),
    ((4095, 3), (641, 2)),
]


def opencv_tensor(image: Image, out_hw: tuple[int, int]) -> NDArray[np.float32]:
    resized = cv2.resize(
        image.astype(np.float32), (out_hw[1], out_hw[0]), interpolation=cv2.INTER_LINEAR
    ).reshape(*out_hw, 3)
    tensor: NDArray[np.float32] = resized.transpose(2, 0, 1)[None] * np.float32(SCALE) + np.float32(OFFSET)
    return tensor


def opencv_tolerance(image: Image) -> float:
    """1e-5, and what OpenCV's rounding of positions to float32 adds where it does without IPP."""
    rounds_positions = not cv2.ipp.useIPP() or 1 in image.shape[:2]
    weights_off = float(np.spacing(np.float32(max(image.shape)))) if rounds_positions else 0.0
    return TOLERANCE + 2 * weights_off * 255 * SCALE


@pytest.mark.parametrize(("image_hw", "out_hw"), SIZES)
def test_it_equals_the_reference_and_opencv(
    image_hw: tuple[int, int], out_hw: tuple[int, int], make_image: MakeImage
) -> None:
    """Noise of any size, up or down, gives the reference's and cv2.resize's tensor to 1e-5."""
    image = make_image(*image_hw)

    tensor = resize_to_tensor(image, out_hw, SCALE, OFFSET)

    assert tensor.shape == (1, 3, *out_hw)
    assert tensor.dtype == np.float32
    expected = reference.resize_to_tensor(image, out_hw, SCALE, OFFSET)
    np.testing.assert_allclose(tensor, expected, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(tensor, opencv_tensor(image, out_hw), rtol=0, atol=opencv_tolerance(image))


@given(
    image_hw=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    out_hw=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    scale=st.tuples(*[st.floats(0.01, 2)] * 3),
    offset=st.tuples(*[st.floats(-200, 200)] * 3),
    bgr=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_it_equals_the_reference_for_all_options(
    image_hw: tuple[int, int],
    out_hw: tuple[int, int],
    scale: tuple[float, ...],
    offset: tuple[float, ...],
    bgr: bool,
    seed: int,
) -> None:
    """Scale and offset go by the tensor's channels, whichever their order."""
    image = np.random.default_rng(seed).integers(0, 256, (*image_hw, 3), dtype=np.uint8)

    tensor = resize_to_tensor(image, out_hw, scale, offset, bgr=bgr)

    expected = reference.resize_to_tensor(image, out_hw, scale, offset, bgr=bgr)
    np.testing.assert_allclose(tensor, expected, rtol=0, atol=4e-7 * (255 * max(scale) + 200))


def test_centres_lie_at_halves() -> None:
    """Two pixels stretched to four: the outer ones stay, the inner ones lie a quarter of the way."""
    image = np.array([[[0, 0, 200], [100, 0, 200]]], np.uint8)

    tensor = resize_to_tensor(image, (1, 4), 1, 0)

    assert tensor[0, :, 0].tolist() == [[0, 25, 75, 100], [0, 0, 0, 0], [200, 200, 200, 200]]


def test_nothing_is_smoothed_away_on_the_way_down() -> None:
    """A third of the size takes every third pixel as it is: no antialiasing."""
    image = np.zeros((3, 9, 3), np.uint8)
    image[1, 4] = 255

    tensor = resize_to_tensor(image, (1, 3), 1, 0)

    assert tensor[0, 0, 0].tolist() == [0, 255, 0]


def test_the_same_size_is_a_change_of_layout(make_image: MakeImage) -> None:
    """Without a change of size the pixels come through exactly."""
    image = make_image(31, 17)

    tensor = resize_to_tensor(image, (31, 17), 1, 0)

    np.testing.assert_array_equal(tensor[0].transpose(1, 2, 0), image)


def test_bgr_swaps_the_channels(make_image: MakeImage) -> None:
    """With bgr the tensor begins with blue."""
    image = make_image(8, 8)

    swapped = resize_to_tensor(image, (5, 5), 1, 0, bgr=True)

    np.testing.assert_array_equal(swapped, resize_to_tensor(image, (5, 5), 1, 0)[:, ::-1])


def test_out_is_filled_and_returned(make_image: MakeImage) -> None:
    """A tensor passed as `out` takes the result, all of it, and comes back."""
    image, out = make_image(20, 30), np.full((1, 3, 7, 9), np.nan, np.float32)

    assert resize_to_tensor(image, (7, 9), 1, 0, out=out) is out
    np.testing.assert_array_equal(out, resize_to_tensor(image, (7, 9), 1, 0))


def test_the_image_is_only_read(make_image: MakeImage) -> None:
    """A read-only image will do."""
    image = make_image(20, 30)
    before = image.copy()
    image.setflags(write=False)

    resize_to_tensor(image, (7, 9), 1, 0)

    np.testing.assert_array_equal(image, before)


GOOD: dict[str, Any] = {
    "image": np.zeros((4, 6, 3), np.uint8),
    "out_hw": (5, 5),
    "scale": 1.0,
    "offset": 0.0,
    "out": None,
}
A = "expected a C-contiguous"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"image": [[0]]}, TypeError, f"image: {A} uint8 array of shape (height, width, 3), got list"),
        ({"image": np.zeros((4, 6, 3))}, TypeError, "got float64 (4, 6, 3)"),
        ({"image": np.zeros((4, 6), np.uint8)}, ValueError, "shape (height, width, 3), got uint8 (4, 6)"),
        ({"image": np.zeros((4, 6, 4), np.uint8)}, ValueError, "got uint8 (4, 6, 4)"),
        ({"image": np.zeros((4, 0, 3), np.uint8)}, ValueError, "image: expected at least 1x1 pixels"),
        ({"image": np.zeros((4, 12, 3), np.uint8)[:, ::2]}, ValueError, f"image: {A} uint8"),
        ({"image": np.zeros((4, 6, 3), np.uint8)[..., ::-1]}, ValueError, "got strides (18, 3, -1)"),
        ({"out_hw": (5,)}, TypeError, "out_hw: expected two integers, got (5,)"),
        ({"out_hw": (5, 2.5)}, TypeError, "out_hw: expected two integers, got (5, 2.5)"),
        ({"out_hw": (0, 5)}, ValueError, "out_hw: expected two integers of at least 1, got (0, 5)"),
        ({"scale": (1, 2)}, TypeError, "scale: expected a number or three, got (1, 2)"),
        ({"scale": "1"}, TypeError, "scale: expected a number or three, got '1'"),
        ({"offset": float("nan")}, ValueError, "offset: expected finite float32 numbers, got nan"),
        ({"offset": 1e39}, ValueError, "offset: expected finite float32 numbers, got 1e+39"),
        ({"out": np.zeros((3, 5, 5), np.float32)}, ValueError, "shape (1, 3, 5, 5), got float32 (3, 5, 5)"),
        ({"out": np.zeros((1, 3, 5, 5))}, TypeError, "out: expected a C-contiguous float32"),
        ({"out": np.zeros((1, 3, 5, 5), np.float32, order="F")}, ValueError, "got strides"),
        ({"out": np.broadcast_to(np.float32(0), (1, 3, 5, 5))}, ValueError, "got strides (0, 0, 0, 0)"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The message says which argument, what was expected and what was found."""
    with pytest.raises(error, match=re.escape(message)):
        resize_to_tensor(**GOOD | change)


def test_a_read_only_out_is_refused() -> None:
    """A kernel never writes to an array that says it must not be written."""
    out = np.zeros((1, 3, 5, 5), np.float32)
    out.setflags(write=False)

    with pytest.raises(ValueError, match="out: expected a writable array, got a read-only one"):
        resize_to_tensor(**GOOD | {"out": out})
