"""A known rectangle, found by a model and led back to the frame, whatever the frame's size."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from central_server.detectors.detector import DetectorOptions, Query
from central_server.detectors.layouts import Kind
from central_server.detectors.onnx_file import create

SaveModel = Callable[..., Path]

# What finds a rectangle of pure red on black: `red` is 1 inside, 0 outside and in the grey padding, and
# between at a soft edge. Its sum along an axis is the rectangle's length, its centroid the middle.
FIND = """
    peaks_x = ReduceMax<axes=[1,2], keepdims=0>(red)
    peaks_y = ReduceMax<axes=[1,3], keepdims=0>(red)
    w = ReduceSum(peaks_x, last)
    h = ReduceSum(peaks_y, last)
    moments_x = Mul(peaks_x, centres)
    moments_y = Mul(peaks_y, centres)
    moment_x = ReduceSum(moments_x, last)
    moment_y = ReduceSum(moments_y, last)
    cx = Div(moment_x, w)
    cy = Div(moment_y, h)
    score = ReduceMax<axes=[1], keepdims=1>(peaks_x)
"""
RED_OF_RGB = """
    r = Slice(images, zero, one, one)
    g = Slice(images, one, two, one)
    red = Sub(r, g)
"""
RED_OF_BGR = """
    r = Slice(images, two, three, one)
    g = Slice(images, one, two, one)
    difference = Sub(r, g)
    red = Mul(difference, one_255th)
"""
HALVES = """
    half_w = Mul(w, half)
    half_h = Mul(h, half)
    x1 = Sub(cx, half_w)
    y1 = Sub(cy, half_h)
    x2 = Add(cx, half_w)
    y2 = Add(cy, half_h)
"""
RECTANGLE_GRAPHS = {
    Kind.YOLOV8: f"""find (float[1,3,640,640] images) => (float[1,5,8400] output0) {{ {RED_OF_RGB} {FIND}
        column = Concat<axis=1>(cx, cy, w, h, score)
        first = Unsqueeze(column, two)
        output0 = Concat<axis=2>(first, nothing) }}""",
    # Cell 0, 0 of stride 8.
    Kind.YOLOX: f"""find (float[1,3,640,640] images) => (float[1,8400,6] output) {{ {RED_OF_BGR} {FIND}
        box = Concat<axis=1>(cx, cy, w, h)
        cells = Mul(box, one_8th)
        centre = Slice(cells, zero, two, one)
        size = Slice(cells, two, four, one)
        log_size = Log(size)
        sure = Div(w, w)
        row = Concat<axis=1>(centre, log_size, sure, score)
        first = Unsqueeze(row, one)
        output = Concat<axis=1>(first, nothing) }}""",
    Kind.END_TO_END: f"""find (float[1,3,640,640] images) => (float[1,300,6] output0) {{ {RED_OF_RGB} {FIND}
        {HALVES}
        class = Sub(w, w)
        row = Concat<axis=1>(x1, y1, x2, y2, score, class)
        first = Unsqueeze(row, one)
        output0 = Concat<axis=1>(nothing, first) }}""",
}
NOTHING_SHAPES = {Kind.YOLOV8: (1, 5, 8399), Kind.YOLOX: (1, 8399, 6), Kind.END_TO_END: (1, 299, 6)}


def rectangle_model(save_model: SaveModel, kind: Kind) -> Path:
    constants = {
        "last": np.array([1]),
        "centres": np.arange(640, dtype=np.float32)[None] + np.float32(0.5),
        "nothing": np.zeros(NOTHING_SHAPES[kind], np.float32),
        "half": np.array(0.5, np.float32),
        "one_8th": np.array(1 / 8, np.float32),
        "one_255th": np.array(1 / 255, np.float32),
        **{word: np.array([number]) for number, word in enumerate(("zero", "one", "two", "three"))},
        "four": np.array([4]),
    }
    graph = RECTANGLE_GRAPHS[kind]
    used = {name: value for name, value in constants.items() if name in graph}
    return save_model(graph, used, {"names": "{0: 'vest'}"}, f"{kind}-rectangle.onnx")


def soft_step(
    length: int, ratio: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], float, float]:
    """Brightness along an axis of a rectangle, and its edges: soft ones, wide enough to survive sampling.

    Where the frame is too short for that, the rectangle is as long as the frame.
    """
    soft = 4 * max(1.0, 1 / ratio)
    if length < 8 * soft:
        return np.ones(length), 0.0, float(length)
    begin = rng.uniform(soft, length / 2 - 2 * soft)
    end = rng.uniform(length / 2 + soft, length - soft)
    middles = np.arange(length) + 0.5
    rising, falling = (middles - begin) / soft + 0.5, (end - middles) / soft + 0.5
    return np.clip(np.minimum(rising, falling), 0, 1), begin, end


HARD_SIZES_HW = [
    (1, 1), (1, 2), (2, 1), (3, 4096), (4096, 3), (17, 4096), (4095, 31), (639, 641), (641, 639), (640, 640),
    (427, 640), (428, 641), (1079, 1919), (1081, 1921), (1440, 2561), (2160, 4096), (4093, 2003), (101, 1009),
    (353, 289), (7, 13),
]  # fmt: skip


@pytest.mark.parametrize("kind", RECTANGLE_GRAPHS)
def test_a_known_rectangle_comes_back_within_a_pixel(save_model: SaveModel, kind: Kind) -> None:
    """Whatever the frame's size, a rectangle in it is answered where it is."""
    detector = create(str(rectangle_model(save_model, kind)), DetectorOptions())

    for height, width in HARD_SIZES_HW:
        rng = np.random.default_rng(height * 5000 + width)
        ratio = min(640 / height, 640 / width)
        rows, y1, y2 = soft_step(height, ratio, rng)
        columns, x1, x2 = soft_step(width, ratio, rng)
        image = np.zeros((height, width, 3), np.uint8)
        image[..., 0] = np.rint(np.outer(rows, columns * 255))

        found = detector.detect(image, Query(min_score=0.9))

        assert found.boxes_xyxy.shape == (1, 4), (height, width)
        np.testing.assert_allclose(found.boxes_xyxy[0], [x1, y1, x2, y2], atol=1, err_msg=f"{width}x{height}")
