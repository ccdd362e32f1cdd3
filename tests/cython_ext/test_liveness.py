"""While a kernel works in one thread, the others run: each nogil stretch is shown by its own large input."""

from collections.abc import Callable

import numpy as np
import pytest

from cython_ext.boxes import decode_ssd, decode_yolo, decode_yolox
from cython_ext.letterbox import place_letterbox
from cython_ext.motion import MotionBackground
from cython_ext.nms import nms
from cython_ext.resize import letterbox_to_tensor, resize_to_tensor, unletterbox
from cython_ext.simulated import spin_cpu, spin_wall

Call = Callable[[], object]


def large_resize() -> Call:
    image, out = np.zeros((64, 64, 3), np.uint8), np.zeros((1, 3, 4000, 4000), np.float32)
    return lambda: resize_to_tensor(image, (4000, 4000), 1, 0, out=out)


def large_letterbox() -> Call:
    image, out = np.zeros((64, 64, 3), np.uint8), np.zeros((1, 3, 4000, 4000), np.float32)
    return lambda: letterbox_to_tensor(image, (4000, 4000), 114, 1, 0, out=out)


def many_boxes_to_unletterbox() -> Call:
    boxes, placed = np.ones((4_000_000, 4), np.float32), place_letterbox((1920, 1080), (640, 640))
    return lambda: unletterbox(boxes, placed)


def ssd_scan() -> Call:
    encodings = np.zeros((400_000, 4), np.float32)
    logits = np.full((400_000, 91), -9, np.float32)
    return lambda: decode_ssd(encodings, logits, encodings, (100, 100), 0.5)


def ssd_results() -> Call:
    encodings = np.zeros((20_000, 4), np.float32)
    anchors = np.tile(np.array([0, 0, 1, 1], np.float32), (20_000, 1))
    logits = np.zeros((20_000, 91), np.float32)
    return lambda: decode_ssd(encodings, logits, anchors, (100, 100), 0.5)


def yolo_scan(channels_first: bool, fill: float, min_score: float) -> Call:
    output = np.full((84, 400_000) if channels_first else (400_000, 84), fill, np.float32)
    return lambda: decode_yolo(
        output, channels_first=channels_first, has_objectness=False, min_score=min_score
    )


def yolox_results() -> Call:
    output = np.ones((21 * 160 * 160, 15), np.float32)
    return lambda: decode_yolox(output, (160 * 32, 160 * 32), 0.5)


def large_plane() -> Call:
    plane = np.zeros((10_240, 10_240), np.uint8)
    background = MotionBackground(*plane.shape, least_levels=4.0, noise_factor=6.0, least_cells=3)
    return lambda: background.update(plane, 0.1)


def apart_boxes() -> Call:
    left = np.arange(12_000, dtype=np.float32) * 2
    boxes = np.stack([left, left * 0, left + 1, left * 0 + 1], axis=1)
    scores, classes = np.ones(12_000, np.float32), np.zeros(12_000, np.int32)
    return lambda: nms(boxes, scores, classes, 0.5, max_detections=12_000, max_candidates=12_000)


CALLS: dict[str, Callable[[], Call]] = {
    "resize": large_resize,
    "letterbox": large_letterbox,
    "unletterbox": many_boxes_to_unletterbox,
    "ssd, nothing found": ssd_scan,
    "ssd, all found": ssd_results,
    "yolo by column, nothing found": lambda: yolo_scan(True, 0.1, 0.5),
    "yolo by row, nothing found": lambda: yolo_scan(False, 0.1, 0.5),
    "yolo by column, all found": lambda: yolo_scan(True, 0.9, 0.5),
    "yolox, all found": yolox_results,
    "motion": large_plane,
    "nms": apart_boxes,
    "spin_cpu": lambda: lambda: spin_cpu(200),
    "spin_wall": lambda: lambda: spin_wall(200),
}


@pytest.mark.parametrize("name", CALLS)
def test_other_threads_run_while_a_kernel_works(name: str, longest_stall: Callable[[Call], float]) -> None:
    """The longest stall of a ticking thread is shorter than half of the call that it ran beside."""
    share = longest_stall(CALLS[name]())

    assert share < 0.5
