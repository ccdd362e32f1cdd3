"""Greedy non-maximum suppression; docstrings in full in `nms.pyx`."""

import numpy as np
from numpy.typing import NDArray

# Cython adds these to a compiled module.
__pyx_capi__: dict[str, object]
__test__: dict[str, str]

def nms(
    boxes_xyxy: NDArray[np.float32],
    scores: NDArray[np.float32],
    class_ids: NDArray[np.int32],
    iou_threshold: float,
    *,
    class_agnostic: bool = False,
    max_detections: int = 300,
    max_candidates: int = 4096,
) -> NDArray[np.int64]:
    """Return the indices of the boxes to keep, by score descending; IoU above the threshold suppresses."""
