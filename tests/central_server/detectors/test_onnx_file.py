"""`--detector onnx:FILE`: what loads, where its parts come from, and what is refused when it is loaded."""

import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from central_server.detectors import registry
from central_server.detectors.coco_ssd import MODELS, STEM
from central_server.detectors.detector import Detector, DetectorOptions, Query
from central_server.detectors.layouts import EXPECTED_INPUT, EXPECTED_OUTPUT
from central_server.detectors.onnx_file import create
from central_server.errors import DetectorError, OptionError

SaveModel = Callable[..., Path]
NAMES = {"names": "{0: 'person', 1: 'car'}"}
# One box of class 1 that fills cell 0, 0 of stride 32 in a 64 x 64 input of 84 cells.
ANSWER = np.zeros((1, 6, 84), np.float32)
ANSWER[0, :, 80] = (16, 16, 32, 32, 0.1, 0.9)
FRAME = np.zeros((64, 64, 3), np.uint8)


def yolo_graph(images: str = "1,3,64,64", output: str = "1,6,84", dtype: str = "float") -> str:
    return f"yolo ({dtype}[{images}] images) => (float[{output}] output0) {{ output0 = Identity(answer) }}"


def refusal(model: Path | str, options: DetectorOptions | None = None) -> str:
    with pytest.raises(DetectorError) as refused:
        create(str(model), options or DetectorOptions())
    message = str(refused.value)
    assert "\n" not in message
    return message


def test_by_name_from_the_registry(save_model: SaveModel, caplog: pytest.LogCaptureFixture) -> None:
    """`onnx:FILE` makes one detector for each worker, and the log says what was recognised."""
    model = save_model(yolo_graph(), {"answer": ANSWER}, NAMES)
    caplog.set_level(logging.INFO, "central_server")

    detectors = registry.load(f"onnx:{model}", DetectorOptions(), 2)

    assert detectors[0] is not detectors[1]
    for detector in detectors:
        found = detector.detect(FRAME, Query())
        assert (detector.name, detector.labels, detector.input_wh) == (
            f"onnx:{model}",
            ("person", "car"),
            (64, 64),
        )
        np.testing.assert_allclose(found.boxes_xyxy, [[0, 0, 32, 32]], atol=1e-4)
        assert found.class_ids.tolist() == [1]
    assert caplog.messages == 2 * [
        f"{model}: layout yolov8, input 64x64, 84 boxes, 2 labels from the model's 'names'"
    ]


def test_labels_from_each_source(save_model: SaveModel, tmp_path: Path) -> None:
    """The labels of an answer are those of the option, the metadata or the file beside the model."""
    named = save_model(yolo_graph(), {"answer": ANSWER}, NAMES, "named.onnx")
    bare = save_model(yolo_graph(), {"answer": ANSWER}, None, "bare.onnx")
    (tmp_path / "bare.labels.txt").write_text("bus\ntram\n")
    option = tmp_path / "option.txt"
    option.write_text("dog\ncat\n")

    assert create(str(named), DetectorOptions()).labels == ("person", "car")
    assert create(str(bare), DetectorOptions()).labels == ("bus", "tram")
    assert create(str(named), DetectorOptions(labels_file=option)).labels == ("dog", "cat")


def test_no_labels(save_model: SaveModel) -> None:
    """A model whose classes have no names is refused with the ways to name them."""
    model = save_model(yolo_graph(), {"answer": ANSWER})

    assert refusal(model).startswith(f"{model}: no labels: found no 'names' in the model's metadata and no ")


def test_a_size_that_is_not_fixed(save_model: SaveModel) -> None:
    """Shapes left open are settled by `imgsz`; the number of boxes shows when the model is run."""
    graph = """open (float[batch,3,height,width] images) => (float[1,6,boxes] output0) {
        brightest = ReduceMax<keepdims=1>(images)
        flat = Reshape(brightest, one)
        bright = Cast<to=7>(flat)
        end = Add(bright, count)
        output0 = Slice(answer, zero, end, two) }"""
    constants = {
        "answer": np.concatenate([ANSWER, ANSWER], axis=2),
        "count": np.array([84]),
        **{word: np.array([number]) for number, word in enumerate(("zero", "one", "two"))},
    }
    settled = save_model(graph, constants, {**NAMES, "imgsz": "[64, 64]"}, "settled.onnx")
    unsettled = save_model(graph, constants, NAMES, "unsettled.onnx")

    assert create(str(settled), DetectorOptions()).input_wh == (64, 64)
    assert refusal(unsettled) == (
        f"{unsettled}: its input size is not fixed and there is no 'imgsz' in its metadata; found inputs "
        "images float32 [batch, 3, height, width]; outputs output0 float32 [1, 6, boxes]; "
        f"{EXPECTED_INPUT}: export it with a fixed height and width"
    )


REFUSED_GRAPHS = {
    "float16": (
        yolo_graph(dtype="float16"),
        "its input is float16; found inputs images float16 [1, 3, 64, 64]; outputs output0 float32 "
        f"[1, 6, 84]; {EXPECTED_INPUT}: export it without half precision",
    ),
    "fixed batch": (
        yolo_graph(images="4,3,64,64"),
        "its batch is fixed to 4; found inputs images float32 [4, 3, 64, 64]; outputs output0 float32 "
        f"[1, 6, 84]; {EXPECTED_INPUT}: export it with batch 1",
    ),
    "channels last": (
        yolo_graph(images="1,64,64,3"),
        "its input has the channels last (NHWC); found inputs images float32 [1, 64, 64, 3]; outputs output0 "
        f"float32 [1, 6, 84]; {EXPECTED_INPUT}",
    ),
    "cells of another input": (
        yolo_graph(images="1,3,96,96"),
        "it fits no known layout; with an input of 96x96 pixels N is 189, 765, 190 (of YOLO cells); found "
        f"inputs images float32 [1, 3, 96, 96]; outputs output0 float32 [1, 6, 84]; {EXPECTED_OUTPUT}",
    ),
    "several outputs": (
        """two (float[1,3,64,64] images) => (float[1,6,84] output0, float[1,32,16,16] output1) {
            output0 = Identity(answer)
            output1 = Constant<value_float=0.0>() }""".replace(
            "Constant<value_float=0.0>()", "Identity(masks)"
        ),
        "it has 2 outputs; found inputs images float32 [1, 3, 64, 64]; outputs output0 float32 [1, 6, 84], "
        f"output1 float32 [1, 32, 16, 16]; {EXPECTED_OUTPUT}; a model with NMS inside has to be exported "
        "without",
    ),
    "nms inside": (
        """inside (float[1,3,64,64] images) => (int64[kept,3] selected) {
            boxes = Slice(answer, none, four, axis)
            corners = Transpose<perm=[0,2,1]>(boxes)
            scores = Slice(answer, four, six, axis)
            selected = NonMaxSuppression(corners, scores) }""",
        "its output selected is int64; found inputs images float32 [1, 3, 64, 64]; outputs selected int64 "
        f"[kept, 3]; {EXPECTED_OUTPUT}",
    ),
}


@pytest.mark.parametrize(("graph", "message"), REFUSED_GRAPHS.values(), ids=REFUSED_GRAPHS.keys())
def test_refused(save_model: SaveModel, graph: str, message: str) -> None:
    """A model that fits no layout is refused with what was found and what is expected."""
    constants: dict[str, NDArray[np.generic]] = {
        "answer": ANSWER,
        "masks": np.zeros((1, 32, 16, 16), np.float32),
        "none": np.array([0]),
        "four": np.array([4]),
        "six": np.array([6]),
        "axis": np.array([1]),
    }
    model = save_model(graph, {name: value for name, value in constants.items() if name in graph}, NAMES)

    assert refusal(model) == f"{model}: {message}"


def test_labels_that_disagree_with_the_classes(save_model: SaveModel, tmp_path: Path) -> None:
    """Three labels for two classes are refused."""
    model = save_model(yolo_graph(), {"answer": ANSWER})
    labels = tmp_path / "three.txt"
    labels.write_text("person\ncar\ndog\n")

    assert refusal(model, DetectorOptions(labels_file=labels)) == (
        f"{model}: its classes and the labels disagree: 3 labels; found inputs images float32 "
        "[1, 3, 64, 64]; outputs output0 float32 [1, 6, 84]; expected 2 (yolov8)"
    )


def test_a_model_that_does_not_run(save_model: SaveModel) -> None:
    """A model that loads and then fails on an image is refused when it is loaded."""
    graph = """broken (float[1,3,64,64] images) => (float[1,6,1] output0) {
        brightest = ReduceMax<keepdims=1>(images)
        flat = Reshape(brightest, one)
        bright = Cast<to=7>(flat)
        beyond = Add(bright, hundred)
        output0 = Gather<axis=2>(answer, beyond) }"""
    numbers = {"one": np.array([1]), "hundred": np.array([100])}
    model = save_model(graph, {"answer": ANSWER, **numbers}, NAMES)

    assert refusal(model).startswith(f"{model}: onnxruntime cannot run it: ")


def test_files_that_are_no_models(tmp_path: Path) -> None:
    """A missing file, a directory, an empty file and other files are each refused in one line."""
    empty = tmp_path / "empty.onnx"
    empty.touch()
    text = tmp_path / "text.onnx"
    text.write_text("This is no model.\n" * 50)

    assert refusal(tmp_path / "gone.onnx") == f"{tmp_path}/gone.onnx: no such model file"
    assert refusal(tmp_path) == f"{tmp_path}: no such model file"
    assert refusal(empty).startswith(f"{empty}: onnxruntime cannot load it: ")
    assert refusal(text).startswith(f"{text}: onnxruntime cannot load it: ")


def test_an_option_that_cannot_be_used(save_model: SaveModel, tmp_path: Path) -> None:
    """A provider, layout or labels file that does not exist is the option's fault, by name."""
    model = save_model(yolo_graph(), {"answer": ANSWER}, NAMES)
    available = ", ".join(onnxruntime.get_available_providers())
    gone = tmp_path / "gone.txt"
    layouts = "yolov8, yolov8-transposed, yolox, end-to-end, ssd"
    for argument, options, message in [
        (
            f"{model}",
            DetectorOptions(providers=("AbacusExecutionProvider",)),
            f"--provider: found 'AbacusExecutionProvider', expected one of {available}",
        ),
        (
            f"{model},layout=yolo",
            DetectorOptions(),
            f"--detector onnx:{model},layout=yolo: found layout 'yolo', expected one of {layouts}",
        ),
        (f"{model}", DetectorOptions(labels_file=gone), f"--labels {gone}: no such file"),
        ("", DetectorOptions(), "--detector onnx:FILE: found no file, expected the path of an ONNX model"),
    ]:
        with pytest.raises(OptionError) as refused:
            create(argument, options)

        assert str(refused.value) == message


def test_the_layout_named_after_the_file(save_model: SaveModel) -> None:
    """Where shapes and labels fit two layouts the option decides; a comma may be in the file's name."""
    answer = np.zeros((1, 84, 84), np.float32)
    answer[0, 80] = np.concatenate([[16, 16, 32, 32], np.eye(80)[7]])
    names = {"names": str([f"class {number}" for number in range(80)])}
    model = save_model(yolo_graph(output="1,84,84"), {"answer": answer}, names, "a,b.onnx")

    assert "it fits more than one layout: layout=yolov8, layout=yolov8-transposed;" in refusal(model)
    detector = create(f"{model},layout=yolov8-transposed", DetectorOptions())
    found = detector.detect(FRAME, Query())
    np.testing.assert_allclose(found.boxes_xyxy, [[0, 0, 32, 32]], atol=1e-4)
    assert detector.labels[found.class_ids[0]] == "class 7"
    assert detector.name == f"onnx:{model},layout=yolov8-transposed"


@pytest.fixture
def ssd_files(tmp_path: Path) -> Path:
    """Copy the packaged SSD as a user's own model: three files beside each other."""
    for end in ("onnx", "anchors.npy", "labels.txt"):
        shutil.copy(MODELS / f"{STEM}.{end}", tmp_path / f"mine.{end}")
    return tmp_path / "mine.onnx"


def test_an_ssd_with_anchors_and_labels_beside_it(ssd_files: Path) -> None:
    """The packaged model under another name answers what `coco-ssd` answers."""
    image = np.random.default_rng(5).integers(0, 256, (9, 13, 3), dtype=np.uint8).repeat(40, 0).repeat(40, 1)
    packaged = registry.load("coco-ssd", DetectorOptions(), 1)[0]

    own = create(str(ssd_files), DetectorOptions())

    found, expected = own.detect(image, Query(0.03)), packaged.detect(image, Query(0.03))
    assert len(found.scores) > 0
    np.testing.assert_array_equal(found.boxes_xyxy, expected.boxes_xyxy)
    np.testing.assert_array_equal(found.class_ids, expected.class_ids)
    assert (own.labels, own.input_wh) == (packaged.labels, packaged.input_wh)


EXPECTED_ANCHORS = "expected an array of (1917, 4) numbers: ymin, xmin, ymax, xmax of each box"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"anchors", "not a NumPy array on file"),
        (np.zeros((1917, 4), np.int64), "found int64"),
        (np.zeros((1916, 4), np.float32), "found shape (1916, 4)"),
        (np.zeros((1917, 4), np.float32), "found anchors without a size"),
        (np.full((1917, 4), np.nan, np.float32), "found anchors without a size"),
        (np.array([{}], object), "not a NumPy array on file"),
        ({"a": np.zeros(1)}, "not a NumPy array on file"),
    ],
    ids=["missing", "text", "integers", "another number", "no size", "nan", "pickle", "npz"],
)
def test_anchors_refused(ssd_files: Path, content: object, message: str) -> None:
    """Anchors that do not belong to the model are refused, and nothing in the file is unpickled."""
    path = ssd_files.with_suffix(".anchors.npy")
    path.unlink()
    match content:
        case bytes():
            path.write_bytes(content)
        case np.ndarray():
            np.save(path, content)
        case dict():
            with path.open("xb") as file:
                np.savez(file, **content)

    assert refusal(ssd_files) == f"{path}: {message}, {EXPECTED_ANCHORS}"


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_two_detectors_start_no_threads(ssd_files: Path) -> None:
    """Neither loading nor running adds a thread to those that call."""
    image = np.zeros((480, 640, 3), np.uint8)
    before = threads()

    detectors = registry.load(f"onnx:{ssd_files}", DetectorOptions(), 2)

    assert threads() == before
    stop = threading.Event()
    counts: list[int] = []

    def run(detector: Detector) -> None:
        while not stop.is_set():
            detector.detect(image, Query())
            counts.append(threads())

    callers = [threading.Thread(target=run, args=(detector,)) for detector in detectors]
    for caller in callers:
        caller.start()
    while len(counts) < 10 and all(caller.is_alive() for caller in callers):
        time.sleep(0.01)
    stop.set()
    for caller in callers:
        caller.join()

    assert len(counts) >= 10
    assert max(counts) <= before + 2


def test_the_runtime_takes_todays_opset(tmp_path: Path, save_model: SaveModel) -> None:
    """A model saved by the newest onnx package at its own opset loads, or is refused in one line."""
    model = onnx.load(save_model(yolo_graph(), {"answer": ANSWER}, NAMES))
    del model.opset_import[:]
    model.opset_import.append(onnx.helper.make_opsetid("", 21))
    model.ir_version = 10
    path = tmp_path / "today.onnx"
    onnx.save(model, path)
    model.ir_version = onnx.IR_VERSION + 50
    future = tmp_path / "future.onnx"
    onnx.save(model, future)

    assert create(str(path), DetectorOptions()).labels == ("person", "car")
    assert refusal(future).startswith(f"{future}: onnxruntime cannot load it: ")
