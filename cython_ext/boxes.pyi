"""What detection models put out, decoded; docstrings in full in `boxes.pyx`."""

import numpy as np
from numpy.typing import NDArray

# Cython adds these to a compiled module.
__pyx_capi__: dict[str, object]
__test__: dict[str, str]

_Detections = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int32]]
_ClassMask = NDArray[np.bool_] | NDArray[np.uint8]

def decode_ssd(
    box_encodings: NDArray[np.float32],
    class_logits: NDArray[np.float32],
    anchors: NDArray[np.float32],
    frame_wh: tuple[int, int],
    min_score: float,
    *,
    class_mask: _ClassMask | None = None,
) -> _Detections:
    """Return boxes_xyxy (m, 4) in frame px, scores (m,) and class_ids (m,); several labels an anchor."""

def decode_yolo(
    output: NDArray[np.float32],
    *,
    channels_first: bool,
    has_objectness: bool,
    min_score: float,
    class_mask: _ClassMask | None = None,
) -> _Detections:
    """Return boxes_xyxy (m, 4) in model px, scores (m,) and class_ids (m,); one label an anchor."""

def decode_yolox(
    output: NDArray[np.float32],
    input_hw: tuple[int, int],
    min_score: float,
    *,
    class_mask: _ClassMask | None = None,
) -> _Detections:
    """Return what `decode_yolo` returns for YOLOX's raw output, its grids applied."""
