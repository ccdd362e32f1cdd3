"""A frame's image into a model's input, and boxes back to the frame; docstrings in full in `resize.pyx`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cython_ext.letterbox import Letterbox

# Cython adds these to a compiled module.
__pyx_capi__: dict[str, object]
__test__: dict[str, str]

def resize_to_tensor(
    image: NDArray[np.uint8],
    out_hw: Sequence[int],
    scale: float | Sequence[float],
    offset: float | Sequence[float],
    *,
    bgr: bool = False,
    out: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Resize a uint8 (height, width, 3) image to a float32 tensor, not keeping its aspect."""

def letterbox_to_tensor(
    image: NDArray[np.uint8],
    out_hw: Sequence[int],
    pad_value: float,
    scale: float | Sequence[float],
    offset: float | Sequence[float],
    *,
    bgr: bool = False,
    centred: bool = True,
    out: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.float32], Letterbox]:
    """Resize an image to a tensor, keeping its aspect, fill the rest, and say where it lies."""

def unletterbox(boxes_xyxy: NDArray[np.float32], letterbox: Letterbox) -> NDArray[np.float32]:
    """Lead float32 (n, 4) boxes from the model's input back to the frame, clipped to it."""
