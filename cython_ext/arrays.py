"""What the kernels' wrappers ask of their arguments; messages name what was found and what was expected."""

import operator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

FLOAT32_MAX = float(np.finfo(np.float32).max)


def expect_array(name: str, value: Any, dtype: DTypeLike, shape: tuple[int | str, ...]) -> None:
    """Require a C-contiguous, aligned array of this dtype and shape.

    Args:
        name: the argument's name, for the message.
        value: what was passed.
        dtype: what its dtype must be, in the machine's byte order.
        shape: for each axis its length, or a word for an axis of any length.

    Raises:
        TypeError: `value` is no array, or of another dtype.
        ValueError: another shape, or not C-contiguous and aligned.

    """
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{_wanted(name, dtype, shape)}, got {type(value).__name__}")
    if value.dtype != dtype:
        raise TypeError(f"{_wanted(name, dtype, shape)}, got {value.dtype} {value.shape}")
    if value.ndim != len(shape) or any(
        isinstance(length, int) and length != found for length, found in zip(shape, value.shape, strict=True)
    ):
        raise ValueError(f"{_wanted(name, dtype, shape)}, got {value.dtype} {value.shape}")
    if not (value.flags.c_contiguous and value.flags.aligned):
        raise ValueError(
            f"{_wanted(name, dtype, shape)}, got strides {value.strides} for shape {value.shape}"
            + ("" if value.flags.aligned else ", not aligned")
        )


def _wanted(name: str, dtype: DTypeLike, shape: tuple[int | str, ...]) -> str:
    lengths = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    return f"{name}: expected a C-contiguous {np.dtype(dtype)} array of shape ({lengths})"


def expect_out(name: str, value: Any, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
    """Require an array to write to: as `expect_array`, and writable (ValueError)."""
    expect_array(name, value, dtype, shape)
    if not value.flags.writeable:
        raise ValueError(f"{name}: expected a writable array, got a read-only one")


def expect_image(name: str, value: Any) -> None:
    """Require an image: uint8 (height, width, 3), C-contiguous, with at least one pixel (else ValueError)."""
    expect_array(name, value, np.uint8, ("height", "width", 3))
    if value.size == 0:
        raise ValueError(f"{name}: expected at least 1x1 pixels, got shape {value.shape}")


def expect_mask(name: str, value: Any, classes: int) -> None:
    """Require a class mask: bool or uint8 (classes,), C-contiguous; errors as `expect_array`."""
    is_bool = isinstance(value, np.ndarray) and value.dtype == np.bool_
    expect_array(name, value, np.bool_ if is_bool else np.uint8, (classes,))


def expect_size(name: str, value: Any) -> tuple[int, int]:
    """Return a pair of lengths as ints.

    Raises:
        TypeError: not two integers.
        ValueError: one of them is below 1.

    """
    try:
        first, second = map(operator.index, value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected two integers, got {value!r}") from None
    if first < 1 or second < 1:
        raise ValueError(f"{name}: expected two integers of at least 1, got {(first, second)}")
    return first, second


def expect_count(name: str, value: Any) -> int:
    """Return a count as an int; TypeError for no integer, ValueError below 0."""
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {value!r}") from None
    if count < 0:
        raise ValueError(f"{name}: expected at least 0, got {count}")
    return count


def expect_fraction(name: str, value: float) -> float:
    """Return a number from 0 to 1 as a float; ValueError for any other, NaN included."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: expected a number from 0 to 1, got {value!r}")
    return float(value)


def expect_channels(name: str, value: Any) -> tuple[float, float, float]:
    """Return one number, or a sequence of one for each of three channels, as three floats.

    Raises:
        TypeError: not a number or a sequence of three.
        ValueError: a number that float32 cannot hold, NaN and infinity included.

    """
    try:
        first, second, third = (value,) * 3 if isinstance(value, float | int) else map(float, value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number or three, got {value!r}") from None
    if not all(abs(number) <= FLOAT32_MAX for number in (first, second, third)):
        raise ValueError(f"{name}: expected finite float32 numbers, got {value!r}")
    return first, second, third


def expect_plane(name: str, value: Any, height: int, width: int) -> None:
    """Require a plane of a decoded picture: uint8 (height, width), rows apart by at least a row.

    Raises:
        TypeError: `value` is no array, or of another dtype.
        ValueError: another shape, pixels of a row that do not lie side by side, or rows that overlap.

    """
    wanted = f"{name}: expected a uint8 array of shape ({height}, {width})"
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{wanted}, got {type(value).__name__}")
    if value.dtype != np.uint8:
        raise TypeError(f"{wanted}, got {value.dtype} {value.shape}")
    if value.shape != (height, width):
        raise ValueError(f"{wanted}, got {value.dtype} {value.shape}")
    between_rows, between_pixels = value.strides
    if (width > 1 and between_pixels != 1) or (height > 1 and between_rows < width):
        raise ValueError(f"{wanted} with strides (at least {width}, 1), got strides {value.strides}")


def expect_mask_of(name: str, value: Any, shape: tuple[int, int]) -> None:
    """Require a mask of a grid: bool or uint8 of this shape, C-contiguous; errors as `expect_array`."""
    is_bool = isinstance(value, np.ndarray) and value.dtype == np.bool_
    expect_array(name, value, np.bool_ if is_bool else np.uint8, shape)


def expect_positive(name: str, value: Any, *, or_zero: bool = False) -> float:
    """Return a finite number above 0, or 0 as well, as a float.

    Raises:
        TypeError: no number.
        ValueError: a number out of the range that float32 holds, NaN included.

    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}: expected a number, got {value!r}")
    if not (0 < value <= FLOAT32_MAX or (or_zero and value == 0)):
        raise ValueError(
            f"{name}: expected a number {'of at least' if or_zero else 'above'} 0, got {value!r}"
        )
    return float(value)
