"""The bytes of the two messages that every frame costs; docstrings in full in `messages.pyx`."""

import numpy as np
from numpy.typing import NDArray

# Cython adds these to a compiled module.
__pyx_capi__: dict[str, object]
__test__: dict[str, str]

def read_detect_request(data: bytes) -> tuple[int, memoryview, int, int, int, str, int, int, int | None, int]:
    """Read a DetectRequest without copying its image; ValueError when the bytes are none."""

def write_detect_response(
    frame_id: int,
    outcome: int,
    detail: str,
    queue_ms: float,
    work_ms: float,
    boxes_xyxy: NDArray[np.float32] | None,
    scores: NDArray[np.float32] | None,
    class_ids: NDArray[np.int32] | None,
    labels: tuple[str, ...],
) -> bytes:
    """Write a DetectResponse: detections become objects in whole pixels."""
