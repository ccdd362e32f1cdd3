"""Kernels against the library calls that people would write instead; equal answers first."""

import time
from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from bench import footage
from bench.model import SIDE, Model, prepared
from bench.report import Report
from central_server.detectors.ssd import INPUT_OFFSET, INPUT_SCALE, IOU_THRESHOLD
from cython_ext import reference
from cython_ext.boxes import decode_ssd
from cython_ext.nms import nms
from cython_ext.resize import letterbox_to_tensor, resize_to_tensor

cv2.setNumThreads(1)


def measure(*, quick: bool) -> Report:
    """Time each kernel and its rival in turn."""
    rounds = 30 if quick else 200
    report = Report(
        "kernels, one thread",
        ("kernel", "rival", "ours ms", "rival ms", "rival / ours"),
        notes=["processor time of the thread, the median of rounds that take turns; answers compared before"],
    )
    frame = next(footage.frames(300, first=300))
    full_hd = np.asarray(cv2.resize(frame, (1920, 1080)), np.uint8)
    for name, image in (("768x576", frame), ("1920x1080", full_hd)):
        _resize(report, rounds, f"resize {name} to {SIDE}", image)
        _letterbox(report, rounds, f"letterbox {name} to 640", image)
    _boxes(report, rounds, frame)
    return report


def _resize(report: Report, rounds: int, name: str, image: NDArray[np.uint8]) -> None:
    out = np.empty((1, 3, SIDE, SIDE), np.float32)

    def ours() -> NDArray[np.float32]:
        return resize_to_tensor(image, (SIDE, SIDE), INPUT_SCALE, INPUT_OFFSET, out=out)

    def rival() -> NDArray[np.float32]:
        small = cv2.resize(image.astype(np.float32), (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
        return np.ascontiguousarray((small * INPUT_SCALE + INPUT_OFFSET).transpose(2, 0, 1)[None], np.float32)

    np.testing.assert_allclose(ours(), rival(), atol=1e-5)
    _compare(report, rounds, name, "cv2.resize of float32 + NumPy", ours, rival)


def _letterbox(report: Report, rounds: int, name: str, image: NDArray[np.uint8]) -> None:
    def ours() -> NDArray[np.float32]:
        return letterbox_to_tensor(image, (640, 640), 114, 1 / 255, 0)[0]

    def rival() -> NDArray[np.float32]:
        height, width = image.shape[:2]
        ratio = min(640 / width, 640 / height)
        scaled_wh = (round(width * ratio), round(height * ratio))
        small = cv2.resize(image.astype(np.float32), scaled_wh, interpolation=cv2.INTER_LINEAR)
        left, top = (640 - scaled_wh[0]) // 2, (640 - scaled_wh[1]) // 2
        canvas = np.full((640, 640, 3), 114, np.float32)
        canvas[top : top + scaled_wh[1], left : left + scaled_wh[0]] = small
        return np.ascontiguousarray((canvas / 255).transpose(2, 0, 1)[None], np.float32)

    np.testing.assert_allclose(ours(), rival(), atol=1e-5)
    _compare(report, rounds, name, "cv2.resize of float32 + NumPy", ours, rival)


def _boxes(report: Report, rounds: int, image: NDArray[np.uint8]) -> None:
    model = Model()
    encodings, logits = (output[0] for output in model.run(prepared(image)))
    frame_wh = (image.shape[1], image.shape[0])

    def ours() -> NDArray[np.float32]:
        boxes, scores, class_ids = decode_ssd(encodings, logits, model.anchors, frame_wh, 0.5)
        return boxes[nms(boxes, scores, class_ids, IOU_THRESHOLD)]

    def rival() -> NDArray[np.float32]:
        boxes, scores, class_ids = reference.decode_ssd(encodings, logits, model.anchors, frame_wh, 0.5)
        return boxes[reference.nms(boxes, scores, class_ids, IOU_THRESHOLD)]

    np.testing.assert_allclose(ours(), rival(), atol=1e-3)
    _compare(report, rounds, "SSD boxes and NMS", "NumPy", ours, rival)


def _compare(
    report: Report,
    rounds: int,
    name: str,
    rival_name: str,
    ours: Callable[[], object],
    rival: Callable[[], object],
) -> None:
    times: tuple[list[int], list[int]] = ([], [])
    for _ in range(rounds):
        for kept, call in zip(times, (ours, rival), strict=True):
            begun_ns = time.thread_time_ns()
            call()
            kept.append(time.thread_time_ns() - begun_ns)
    ours_ms, rival_ms = (float(np.median(kept)) / 1e6 for kept in times)
    report.add(name, rival_name, ours_ms, rival_ms, rival_ms / ours_ms)
