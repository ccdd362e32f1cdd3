"""The YOLO layouts on real models whose outputs are computed from the image in a known way.

One kind of model answers every cell of the input with the mean colour in it: a class for each of red, green
and blue, so that the order of channels, their scale, the padding and the place of every cell show in the
answer. The other answers the same boxes whatever it sees.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from central_server.detectors.detector import Detector, DetectorOptions, Query
from central_server.detectors.layouts import Kind
from central_server.detectors.onnx_file import create
from central_server.detectors.yolo import MAX_DETECTIONS
from central_server.errors import DetectorError
from central_server.frame import Detections

SaveModel = Callable[..., Path]
YOLO_KINDS = [Kind.YOLOV8, Kind.YOLOV8_TRANSPOSED, Kind.YOLOX, Kind.END_TO_END]
STRIDES = (8, 16, 32)
# Input of the cell models: not square, so that no two numbers of theirs agree by accident.
CELLS_HW = (64, 96)
CELLS_N = 126
COLOURS = "{0: 'red', 1: 'green', 2: 'blue'}"
EVERYTHING = Query(min_score=0.0)

POOL = """
    p8 = AveragePool<kernel_shape=[8,8], strides=[8,8]>(images)
    p16 = AveragePool<kernel_shape=[16,16], strides=[16,16]>(images)
    p32 = AveragePool<kernel_shape=[32,32], strides=[32,32]>(images)
    r8 = Reshape(p8, rows)
    r16 = Reshape(p16, rows)
    r32 = Reshape(p32, rows)
    means = Concat<axis=2>(r8, r16, r32)
"""
CELL_GRAPHS = {
    Kind.YOLOV8: f"""cells (float[1,3,64,96] images) => (float[1,7,126] output0) {{ {POOL}
        output0 = Concat<axis=1>(cxcywh, means) }}""",
    Kind.YOLOV8_TRANSPOSED: f"""cells (float[1,3,64,96] images) => (float[1,126,7] output0) {{ {POOL}
        channels = Concat<axis=1>(cxcywh, means)
        output0 = Transpose<perm=[0,2,1]>(channels) }}""",
    # A tensor of BGR from 0 to 255 becomes red, green, blue from 0 to 1; each cell answers itself.
    Kind.YOLOX: f"""cells (float[1,3,64,96] images) => (float[1,126,8] output) {{ {POOL}
        rgb = Gather<axis=1>(means, turned)
        scores = Mul(rgb, one_255th)
        channels = Concat<axis=1>(raw, scores)
        output = Transpose<perm=[0,2,1]>(channels) }}""",
    Kind.END_TO_END: f"""cells (float[1,3,64,96] images) => (float[1,100,6] output0) {{ {POOL}
        best = ReduceMax<axes=[1], keepdims=1>(means)
        index = ArgMax<axis=1, keepdims=1>(means)
        class = Cast<to=1>(index)
        channels = Concat<axis=1>(xyxy, best, class)
        all = Transpose<perm=[0,2,1]>(channels)
        output0 = Gather<axis=1>(all, chosen) }}""",
}


def cells_xyxy() -> NDArray[np.float64]:
    """(N, 4): the cells of each stride, row by row."""
    height, width = CELLS_HW
    return np.array(
        [
            (x, y, x + stride, y + stride)
            for stride in STRIDES
            for y in range(0, height, stride)
            for x in range(0, width, stride)
        ],
        np.float64,
    )


def chosen_cells() -> NDArray[np.int64]:
    """Those that the end-to-end model answers: a hundred, in no order."""
    return np.random.default_rng(1).permutation(CELLS_N)[:100]


def cell_model(save_model: SaveModel, kind: Kind, names: str = COLOURS) -> Path:
    xyxy = cells_xyxy()
    cxcywh = np.concatenate([(xyxy[:, :2] + xyxy[:, 2:]) / 2, xyxy[:, 2:] - xyxy[:, :2]], axis=1)
    raw = np.repeat([[0.5], [0.5], [0.0], [0.0], [1.0]], CELLS_N, axis=1)
    constants = {
        "cxcywh": cxcywh.T[None].astype(np.float32),
        "xyxy": xyxy.T[None].astype(np.float32),
        "raw": raw[None].astype(np.float32),
        "rows": np.array([1, 3, -1]),
        "turned": np.array([2, 1, 0]),
        "chosen": chosen_cells(),
        "one_255th": np.array(1 / 255, np.float32),
    }
    graph = CELL_GRAPHS[kind]
    used = {name: value for name, value in constants.items() if name in graph}
    return save_model(graph, used, {"names": names}, f"{kind}.onnx")


def load(model: Path) -> Detector:
    return create(str(model), DetectorOptions())


def smooth_noise(height: int, width: int) -> NDArray[np.uint8]:
    """Colours that differ between cells."""
    rng = np.random.default_rng(height * 10_000 + width)
    coarse = rng.integers(0, 256, (min(height, 9), min(width, 11), 3), dtype=np.uint8)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_NEAREST), np.uint8)


def expected_cells(image: NDArray[np.uint8], kind: Kind) -> Detections:
    """Compute the cell models' answer with cv2 and NumPy alone."""
    (height, width), (model_h, model_w) = image.shape[:2], CELLS_HW
    ratio = min(model_w / width, model_h / height)
    new_w, new_h = max(1, round(width * ratio)), max(1, round(height * ratio))
    left, top = (0, 0) if kind is Kind.YOLOX else ((model_w - new_w) // 2, (model_h - new_h) // 2)
    resized = cv2.resize(image.astype(np.float32), (new_w, new_h), interpolation=cv2.INTER_LINEAR)
    canvas = cv2.copyMakeBorder(
        resized.reshape(new_h, new_w, 3),
        top,
        model_h - new_h - top,
        left,
        model_w - new_w - left,
        cv2.BORDER_CONSTANT,
        value=(114, 114, 114),
    )
    cells = cells_xyxy()
    means = np.array(
        [canvas[int(y1) : int(y2), int(x1) : int(x2)].mean((0, 1), np.float64) for x1, y1, x2, y2 in cells]
    )
    boxes = (cells - [left, top, left, top]) / ([new_w / width, new_h / height] * 2)
    boxes = np.clip(boxes, 0, [width, height, width, height])
    rows = chosen_cells() if kind is Kind.END_TO_END else np.arange(CELLS_N)
    rows = rows[((boxes[rows, 2] > boxes[rows, 0]) & (boxes[rows, 3] > boxes[rows, 1]))]
    return Detections(
        boxes[rows].astype(np.float32),
        (means[rows].max(axis=1) / 255).astype(np.float32),
        means[rows].argmax(axis=1).astype(np.int32),
    )


def by_place(detections: Detections) -> NDArray[np.intp]:
    """Order of the detections by their boxes, so that equal sets compare equal."""
    return np.lexsort(np.round(detections.boxes_xyxy, 1).T)


def assert_same(found: Detections, expected: Detections) -> None:
    assert len(found.scores) == len(expected.scores)
    f, e = by_place(found), by_place(expected)
    np.testing.assert_allclose(found.boxes_xyxy[f], expected.boxes_xyxy[e], atol=2e-3, rtol=1e-5)
    np.testing.assert_allclose(found.scores[f], expected.scores[e], atol=1e-5)
    np.testing.assert_array_equal(found.class_ids[f], expected.class_ids[e])
    assert (np.diff(found.scores) <= 0).all()
    assert found.boxes_xyxy.dtype == found.scores.dtype == np.dtype(np.float32)


SIZES_HW = [
    (64, 96),
    (63, 95),
    (65, 97),
    (333, 77),
    (77, 333),
    (719, 1281),
    (1080, 1920),
    (1, 1),
    (1, 97),
    (501, 3),
]


@pytest.mark.parametrize("kind", YOLO_KINDS)
@pytest.mark.parametrize("height_width", SIZES_HW, ids=str)
def test_equals_an_independent_computation(
    save_model: SaveModel, kind: Kind, height_width: tuple[int, int]
) -> None:
    """Channel order, scale, padding, grid and the way back to the frame are as cv2 and NumPy have them."""
    image = smooth_noise(*height_width)
    detector = load(cell_model(save_model, kind))

    found = detector.detect(image, EVERYTHING)

    assert_same(found, expected_cells(image, kind))
    assert len(found.scores) > 0
    assert detector.input_wh == CELLS_HW[::-1]
    assert detector.labels == ("red", "green", "blue")


def test_the_transpose_answers_the_same(save_model: SaveModel) -> None:
    """`[1, 4+C, N]` and `[1, N, 4+C]` of one model are one detector, to the last bit."""
    image = smooth_noise(481, 639)

    upright, transposed = (
        load(cell_model(save_model, kind)).detect(image, Query(min_score=0.3))
        for kind in (Kind.YOLOV8, Kind.YOLOV8_TRANSPOSED)
    )

    assert len(upright.scores) > 20
    np.testing.assert_array_equal(upright.boxes_xyxy, transposed.boxes_xyxy)
    np.testing.assert_array_equal(upright.scores, transposed.scores)
    np.testing.assert_array_equal(upright.class_ids, transposed.class_ids)


@pytest.mark.parametrize("kind", YOLO_KINDS)
def test_answers_what_was_asked_for(save_model: SaveModel, kind: Kind) -> None:
    """Scores under the least one, classes not wanted and classes without a name are left out."""
    image = smooth_noise(200, 300)
    detector = load(cell_model(save_model, kind, names="['red', '', 'blue']"))
    everything = expected_cells(image, kind)

    for query, wanted in [
        (Query(min_score=0.6), (everything.scores >= 0.6) & (everything.class_ids != 1)),
        (Query(0.0, np.array([0, 1, 1], np.uint8)), everything.class_ids == 2),
        (Query(0.0, np.zeros(3, np.uint8)), everything.class_ids == 3),
        (Query(min_score=1.0), everything.scores > 1),
    ]:
        expected = Detections(
            everything.boxes_xyxy[wanted], everything.scores[wanted], everything.class_ids[wanted]
        )

        assert_same(detector.detect(image, query), expected)


def constant_model(save_model: SaveModel, kind: Kind, rows: Sequence[tuple[float, ...]]) -> Path:
    """Answer the same boxes whatever is seen: (x1, y1, x2, y2, score, class) in 64 x 96 model pixels."""
    names = {"names": COLOURS}
    if kind is Kind.END_TO_END:
        output = np.array([rows], np.float32)
        graph = f"""still (float[1,3,64,96] images) => (float[1,{len(rows)},6] output0) {{
            output0 = Identity(answer) }}"""
        return save_model(graph, {"answer": output}, names)
    output = np.zeros((1, CELLS_N, 8), np.float32)
    for row, (x1, y1, x2, y2, score, class_id) in zip(output[0], rows, strict=False):
        row[:5] = ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1, 1)
        row[5 + int(class_id)] = score
    if kind is Kind.YOLOX:
        cells = cells_xyxy()
        strides = cells[:, 2:] - cells[:, :2]
        with np.errstate(divide="ignore"):
            output[0, :, :2] = output[0, :, :2] / strides - cells[:, :2] / strides
            output[0, :, 2:4] = np.log(output[0, :, 2:4] / strides)
        graph = "still (float[1,3,64,96] images) => (float[1,126,8] output) { output = Identity(answer) }"
        return save_model(graph, {"answer": output}, names)
    output = np.ascontiguousarray(np.delete(output, 4, axis=2).transpose(0, 2, 1))
    graph = "still (float[1,3,64,96] images) => (float[1,7,126] output0) { output0 = Identity(answer) }"
    return save_model(graph, {"answer": output}, names)


FRAME = np.zeros((64, 96, 3), np.uint8)


@pytest.mark.parametrize(
    ("kind", "overlap", "kept"),
    [
        (Kind.YOLOV8, 0.69, 3),
        (Kind.YOLOV8, 0.71, 2),
        (Kind.YOLOX, 0.44, 3),
        (Kind.YOLOX, 0.46, 2),
        (Kind.END_TO_END, 0.99, 3),
    ],
)
def test_overlap(save_model: SaveModel, kind: Kind, overlap: float, kept: int) -> None:
    """Above the family's IoU a box suppresses those of its class; a selection is taken as it is."""
    wide = 40 * overlap
    rows = [
        (10.0, 10.0, 50.0, 30.0, 0.9, 0),
        (10.0, 10.0, 10 + wide, 30.0, 0.8, 0),
        (10.0, 10.0, 50.0, 30.0, 0.7, 1),
    ]

    found = load(constant_model(save_model, kind, rows)).detect(FRAME, Query(min_score=0.5))

    assert len(found.scores) == kept
    assert found.class_ids.tolist() == ([0, 0, 1] if kept == 3 else [0, 1])


@pytest.mark.parametrize("kind", [Kind.YOLOV8, Kind.YOLOX, Kind.END_TO_END])
def test_boxes_end_at_the_frame(save_model: SaveModel, kind: Kind) -> None:
    """What reaches out is cut at the frame's edge; what lies outside is no object."""
    rows = [
        (-20.0, -5.0, 30.0, 20.0, 0.9, 0),
        (80.0, 50.0, 120.0, 90.0, 0.8, 1),
        (-30.0, 5.0, -10.0, 9.0, 0.7, 2),
    ]

    found = load(constant_model(save_model, kind, rows)).detect(FRAME, Query(min_score=0.5))

    np.testing.assert_allclose(found.boxes_xyxy, [[0, 0, 30, 20], [80, 50, 96, 64]], atol=1e-4)
    assert found.class_ids.tolist() == [0, 1]


def test_a_selection_with_what_does_not_count(save_model: SaveModel) -> None:
    """NaN, no area, filling rows: left out, and the rest is sorted, equal scores in the model's order."""
    nan = float("nan")
    rows = [
        (1.0, 1.0, 9.0, 9.0, 0.6, 0),
        (1.0, 1.0, 9.0, 9.0, nan, 0),
        (nan, 1.0, 9.0, 9.0, 0.9, 0),
        (9.0, 9.0, 1.0, 1.0, 0.9, 0),
        (0.0, 0.0, 0.0, 0.0, 0.0, -1),
        (2.0, 2.0, 9.0, 9.0, 0.8, 1),
        (3.0, 3.0, 9.0, 9.0, 0.6, 2),
        *((1.0, 1.0, 9.0, 9.0, 0.5, number % 3) for number in range(50)),
    ]

    found = load(constant_model(save_model, Kind.END_TO_END, rows)).detect(FRAME, EVERYTHING)

    np.testing.assert_allclose(found.scores, [0.8, 0.6, 0.6] + [0.5] * 50)
    assert found.class_ids.tolist() == [1, 0, 2] + [number % 3 for number in range(50)]


@pytest.mark.parametrize("class_id", [3.0, -1.0, float("nan")])
def test_a_selection_of_a_class_without_label(save_model: SaveModel, class_id: float) -> None:
    """Labels of another model are noticed at the first class that has none."""
    rows = [(1.0, 1.0, 9.0, 9.0, 0.6, class_id)]
    detector = load(constant_model(save_model, Kind.END_TO_END, rows))

    with pytest.raises(DetectorError, match=rf"^the model answered class {class_id:g}, expected 0 to 2"):
        detector.detect(FRAME, EVERYTHING)


def test_no_more_than_a_bounded_number(save_model: SaveModel) -> None:
    """The best ones, as many as `MAX_DETECTIONS` says, however many boxes the model has."""
    scores = np.random.default_rng(3).permutation(np.linspace(0.5, 0.9, 525)).astype(np.float32)
    x, y = np.arange(525) % 40 * 4 + 2, np.arange(525) // 40 * 4 + 2
    side = np.full(525, 3)
    yolo = np.stack([x, y, side, side, scores])[None].astype(np.float32)
    selection = np.stack([x - 1, y - 1, x + 1, y + 1, scores, 0 * x], axis=1)[None, :524].astype(np.float32)
    for dims, output, of_output in (("1,5,525", yolo, scores), ("1,524,6", selection, scores[:524])):
        graph = (
            f"many (float[1,3,160,160] images) => (float[{dims}] output0) {{ output0 = Identity(answer) }}"
        )
        detector = load(save_model(graph, {"answer": output}, {"names": "['vest']"}))

        found = detector.detect(np.zeros((160, 160, 3), np.uint8), EVERYTHING)

        np.testing.assert_array_equal(found.scores, -np.sort(-of_output)[:MAX_DETECTIONS])
