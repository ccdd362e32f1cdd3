"""Kernels against the library calls that people would write instead; equal answers first."""

import itertools
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
from cython_ext.motion import MotionBackground
from cython_ext.nms import nms
from cython_ext.resize import letterbox_to_tensor, resize_to_tensor

cv2.setNumThreads(1)
NOISY_PLANES = 8
OPENING = np.ones((3, 3), np.uint8)

Marks = NDArray[np.uint8]


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
    for name, image in (("768x576", frame), ("1920x1080", full_hd)):
        _motion(
            report, rounds, f"motion {name}", np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
        )
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


def _motion(report: Report, rounds: int, name: str, scene: NDArray[np.uint8]) -> None:
    """All see noise on a still scene for a while, then a bright block in its middle, and have to mark it."""
    rng = np.random.default_rng(1)
    height, width = scene.shape
    noisy = [
        np.clip(scene + rng.normal(0, 4, scene.shape), 0, 255).astype(np.uint8) for _ in range(NOISY_PLANES)
    ]
    block = (slice(height * 3 // 8, height * 5 // 8), slice(width * 3 // 8, width * 5 // 8))
    blocked = noisy[0].copy()
    blocked[block] = np.where(scene[block] > 127, 10, 245)
    background = MotionBackground(height, width, least_levels=4.0, noise_factor=6.0, least_cells=3)
    cells_wh = (background.grid.columns, background.grid.rows)
    mixtures = [cv2.createBackgroundSubtractorMOG2(detectShadows=False) for _ in range(2)]

    def ours(plane: NDArray[np.uint8]) -> Marks:
        background.update(plane, 0.1)
        return background.foreground

    def full(plane: NDArray[np.uint8]) -> Marks:
        return np.asarray(cv2.morphologyEx(mixtures[0].apply(plane), cv2.MORPH_OPEN, OPENING), np.uint8)

    def cells(plane: NDArray[np.uint8]) -> Marks:
        small = cv2.resize(plane, cells_wh, interpolation=cv2.INTER_AREA)
        return np.asarray(cv2.morphologyEx(mixtures[1].apply(small), cv2.MORPH_OPEN, OPENING), np.uint8)

    for way in (ours, full, cells):
        for _, plane in zip(range(5 * NOISY_PLANES), itertools.cycle(noisy), strict=False):
            way(plane)
        found = cv2.resize(way(blocked), (width, height), interpolation=cv2.INTER_NEAREST) != 0
        assert found[block].mean() > 0.9
        assert found.mean() < 1.25 / 16
    planes = itertools.cycle(noisy)

    def in_turn(way: Callable[[NDArray[np.uint8]], Marks]) -> Callable[[], Marks]:
        return lambda: way(next(planes))

    _compare(report, rounds, name, "cv2's MOG2", in_turn(ours), in_turn(full))
    _compare(report, rounds, name, "cv2.resize by area + MOG2", in_turn(ours), in_turn(cells))


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
