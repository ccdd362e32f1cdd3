"""Which layout is told from what a model declares, and each refusal's words."""

from collections.abc import Mapping

import pytest

from central_server.detectors.layouts import (
    EXPECTED_INPUT,
    EXPECTED_OUTPUT,
    Interface,
    Kind,
    Layout,
    Port,
    check_outputs,
    find_image_input,
    recognise,
)
from central_server.errors import DetectorError

Shape = tuple[int | str | None, ...]
IMAGES: Shape = (1, 3, 640, 640)
ULTRALYTICS = {"task": "detect", "stride": "32", "imgsz": "[640, 640]"}


def model_of(
    *outputs: Shape | Port,
    images: Shape = IMAGES,
    dtype: str = "float32",
    metadata: Mapping[str, str] | None = None,
) -> Interface:
    ports = [
        output if isinstance(output, Port) else Port(f"output{index}", "float32", output)
        for index, output in enumerate(outputs)
    ]
    return Interface((Port("images", dtype, images),), tuple(ports), metadata or {})


def ssd_of(encodings: Shape, logits: Shape) -> Interface:
    outputs = [Port("box_encodings", "float32", encodings), Port("class_logits", "float32", logits)]
    return model_of(*outputs, images=("N", 3, 300, 300))


YOLO = model_of((1, 84, 8400))
CASES = {
    "v8": (YOLO, 80, Layout(Kind.YOLOV8, 8400, 80)),
    "v8, one class": (model_of((1, 5, 8400)), 1, Layout(Kind.YOLOV8, 8400, 1)),
    "v8, four strides": (model_of((1, 84, 34000)), 80, Layout(Kind.YOLOV8, 34000, 80)),
    "v8 transposed": (model_of((1, 8400, 84)), 80, Layout(Kind.YOLOV8_TRANSPOSED, 8400, 80)),
    "v8 transposed, 81 classes": (model_of((1, 8400, 85)), 81, Layout(Kind.YOLOV8_TRANSPOSED, 8400, 81)),
    "v8 transposed, two classes": (model_of((1, 8400, 6)), 2, Layout(Kind.YOLOV8_TRANSPOSED, 8400, 2)),
    "yolox": (model_of((1, 8400, 85)), 80, Layout(Kind.YOLOX, 8400, 80)),
    "yolox, one class": (model_of((1, 8400, 6)), 1, Layout(Kind.YOLOX, 8400, 1)),
    "end to end": (model_of((1, 300, 6)), 80, Layout(Kind.END_TO_END, 300, 80)),
    "end to end, said by metadata": (
        model_of((1, 8400, 6), metadata={**ULTRALYTICS, "end2end": "True"}),
        2,
        Layout(Kind.END_TO_END, 8400, 2),
    ),
    "ssd": (ssd_of((1, 1917, 4), (1, 1917, 91)), 91, Layout(Kind.SSD, 1917, 91)),
}


@pytest.mark.parametrize(("model", "labels", "layout"), CASES.values(), ids=CASES.keys())
def test_recognises(model: Interface, labels: int, layout: Layout) -> None:
    """Each layout is told by the shape of its output, its metadata and the number of labels."""
    image_input = find_image_input(model)
    check_outputs(model)

    assert recognise(model, image_input.hw, labels, None) == layout


def test_the_order_of_an_ssds_outputs_does_not_matter() -> None:
    """Outputs are told by their names."""
    model = ssd_of((1, 1917, 4), (1, 1917, 91))
    turned = Interface(model.inputs, model.outputs[::-1], {})

    check_outputs(turned)

    assert recognise(turned, (300, 300), 91, None).kind is Kind.SSD


def test_ultralytics_has_no_yolox() -> None:
    """Where the metadata is of Ultralytics, `[1, N, 5+C]` is not taken for YOLOX."""
    model = model_of((1, 8400, 85), metadata=ULTRALYTICS)

    with pytest.raises(DetectorError, match=r"disagree: 80 labels; .*; expected 81 \(yolov8-transposed\)$"):
        recognise(model, (640, 640), 80, None)


def test_a_size_that_is_not_fixed_comes_from_the_metadata() -> None:
    """`imgsz` is height, then width."""
    model = model_of(
        (1, 84, "anchors"), images=("batch", 3, "height", "width"), metadata={"imgsz": "[384, 640]"}
    )

    assert find_image_input(model).hw == (384, 640)


@pytest.mark.parametrize(
    "imgsz",
    ["", "640", "[640]", "[640.0, 640]", "[640, 'x']", "open('x')", "[" * 90, "[1, 2" + " " * 200 + "]"],
)
def test_a_size_that_is_neither_fixed_nor_in_the_metadata(imgsz: str) -> None:
    """A model that takes any size does not say which one it is good at."""
    model = model_of((1, 84, 8400), images=(None, 3, "height", "width"), metadata={"imgsz": imgsz})

    with pytest.raises(DetectorError) as refused:
        find_image_input(model)

    stated = f"'imgsz' in its metadata is {imgsz[:40]!r}" if imgsz else "there is no 'imgsz' in its metadata"
    assert str(refused.value) == (
        f"its input size is not fixed and {stated}; found inputs images float32 [?, 3, height, width]; "
        "outputs output0 float32 [1, 84, 8400]; expected one input float32 [1, 3, height, width]: "
        "export it with a fixed height and width"
    )


HALF = f"{EXPECTED_INPUT}: export it without half precision"
BATCH = f"{EXPECTED_INPUT}: export it with batch 1"
SIDES = f"{EXPECTED_INPUT} of at most 4096 pixels a side"
INPUTS = {
    "float16": (IMAGES, "float16", "its input is float16", HALF),
    "uint8": (IMAGES, "uint8", "its input is uint8", EXPECTED_INPUT),
    "fixed batch": ((8, 3, 640, 640), "float32", "its batch is fixed to 8", BATCH),
    "channels last": (
        (1, 640, 640, 3),
        "float32",
        "its input has the channels last (NHWC)",
        EXPECTED_INPUT,
    ),
    "grey": ((1, 1, 640, 640), "float32", "its input has 1 channels", EXPECTED_INPUT),
    "three dimensions": ((3, 640, 640), "float32", "its input has 3 dimensions", EXPECTED_INPUT),
    "huge": ((1, 3, 640, 100_000), "float32", "its input is 100000x640 pixels", SIDES),
    "nothing": ((1, 3, 0, 640), "float32", "its input is 640x0 pixels", SIDES),
}


@pytest.mark.parametrize(("shape", "dtype", "reason", "expected"), INPUTS.values(), ids=INPUTS.keys())
def test_inputs_refused(shape: Shape, dtype: str, reason: str, expected: str) -> None:
    """Each input that does not fit is refused with what it is, what was found and what is expected."""
    with pytest.raises(DetectorError) as refused:
        find_image_input(model_of((1, 84, 8400), images=shape, dtype=dtype))

    dims = ", ".join(map(str, shape))
    assert str(refused.value) == (
        f"{reason}; found inputs images {dtype} [{dims}]; outputs output0 float32 [1, 84, 8400]; {expected}"
    )


def test_a_refusal_stays_short() -> None:
    """Formulas for dimensions and dozens of ports do not fill the terminal."""
    formula = "floor(floor(height/2 - 1/2)/2) + 1"
    model = model_of(*[(1, "boxes", formula, None)] * 30)

    with pytest.raises(DetectorError) as refused:
        check_outputs(model)

    message = str(refused.value)
    assert "outputs output0 float32 [1, boxes, ?, ?], " in message
    assert "output7 float32 [1, boxes, ?, ?] and 22 more; expected " in message
    assert len(message) < 1000


def test_two_inputs() -> None:
    """A model that wants the original size as well is refused."""
    size = Port("orig_target_sizes", "int64", (1, 2))
    model = Interface((*YOLO.inputs, size), YOLO.outputs, {})

    with pytest.raises(DetectorError, match=r"^it has 2 inputs; found .*, orig_target_sizes int64 \[1, 2\]"):
        find_image_input(model)


WITHOUT_NMS = f"{EXPECTED_OUTPUT}; a model with NMS inside has to be exported without"
OUTPUTS = {
    "nms inside": (
        model_of(
            Port("num_dets", "int32", (1, 1)),
            Port("det_boxes", "float32", (1, 100, 4)),
            Port("det_scores", "float32", (1, 100)),
            Port("det_classes", "int32", (1, 100)),
        ),
        "it has 4 outputs",
        "num_dets int32 [1, 1], det_boxes float32 [1, 100, 4], det_scores float32 [1, 100], "
        "det_classes int32 [1, 100]",
        WITHOUT_NMS,
    ),
    "two outputs": (
        model_of((1, 116, 8400), (1, 32, 160, 160)),
        "it has 2 outputs",
        "output0 float32 [1, 116, 8400], output1 float32 [1, 32, 160, 160]",
        WITHOUT_NMS,
    ),
    "no output": (model_of(), "it has 0 outputs", "none", WITHOUT_NMS),
    "half": (
        model_of(Port("output0", "float16", (1, 84, 8400))),
        "its output output0 is float16",
        "output0 float16 [1, 84, 8400]",
        EXPECTED_OUTPUT,
    ),
    "another task": (
        model_of((1, 56, 8400), metadata={"task": "pose"}),
        "'task' in its metadata is 'pose'",
        "output0 float32 [1, 56, 8400]",
        f"expected 'detect'; {EXPECTED_OUTPUT}",
    ),
}


@pytest.mark.parametrize(("model", "reason", "found", "expected"), OUTPUTS.values(), ids=OUTPUTS.keys())
def test_outputs_refused(model: Interface, reason: str, found: str, expected: str) -> None:
    """Outputs that no layout has are refused before the model is run."""
    with pytest.raises(DetectorError) as refused:
        check_outputs(model)

    assert str(refused.value) == (
        f"{reason}; found inputs images float32 [1, 3, 640, 640]; outputs {found}; {expected}"
    )


NO_LAYOUT = "it fits no known layout; with an input of 640x640 pixels N is 8400, 34000, 8500 (of YOLO cells)"
SHAPES = {
    "yolov5": ((1, 25200, 85), NO_LAYOUT),
    "detr": ((1, 300, 84), NO_LAYOUT),
    "classifier": ((1, 1000), NO_LAYOUT),
    "nms inside, one output": ((57, 7), NO_LAYOUT),
    "batch": ((2, 84, 8400), NO_LAYOUT),
    "grid of another input": ((1, 84, 2100), NO_LAYOUT),
    "no class": ((1, 4, 8400), NO_LAYOUT),
    "scalar": ((), NO_LAYOUT),
}


@pytest.mark.parametrize(("shape", "reason"), SHAPES.values(), ids=SHAPES.keys())
def test_shapes_refused(shape: Shape, reason: str) -> None:
    """A shape that fits nothing is refused with the numbers of cells that its input would have."""
    with pytest.raises(DetectorError) as refused:
        recognise(model_of(shape), (640, 640), 80, None)

    dims = ", ".join(map(str, shape))
    assert str(refused.value) == (
        f"{reason}; found inputs images float32 [1, 3, 640, 640]; outputs output0 float32 [{dims}]; "
        f"{EXPECTED_OUTPUT}"
    )


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (YOLO, "80 (yolov8)"),
        (model_of((1, 8400, 85)), "81 (yolov8-transposed) or 80 (yolox)"),
        (ssd_of((1, 1917, 4), (1, 1917, 91)), "91 (ssd)"),
    ],
    ids=["v8", "v8 transposed or yolox", "ssd"],
)
def test_labels_that_disagree(model: Interface, expected: str) -> None:
    """Too few or too many labels are refused with the number that would fit."""
    image_input = find_image_input(model)

    with pytest.raises(DetectorError) as refused:
        recognise(model, image_input.hw, 3, None)

    message = str(refused.value)
    assert message.startswith("its classes and the labels disagree: 3 labels; found inputs images float32 [")
    assert message.endswith(f"; expected {expected}")


AMBIGUOUS = model_of((1, 84, 84), images=(1, 3, 64, 64))


def test_more_than_one_layout_fits() -> None:
    """With 80 labels and 84 cells rows and columns cannot be told apart: the user is asked."""
    with pytest.raises(DetectorError) as refused:
        recognise(AMBIGUOUS, (64, 64), 80, None)

    assert str(refused.value) == (
        "it fits more than one layout: layout=yolov8, layout=yolov8-transposed; found inputs images float32 "
        "[1, 3, 64, 64]; outputs output0 float32 [1, 84, 84]; expected one of them after onnx:FILE,"
    )


@pytest.mark.parametrize("kind", [Kind.YOLOV8, Kind.YOLOV8_TRANSPOSED])
def test_the_user_decides(kind: Kind) -> None:
    """Where more than one layout fits, the one that was named is taken."""
    assert recognise(AMBIGUOUS, (64, 64), 80, kind) == Layout(kind, 84, 80)


def test_the_user_may_call_as_many_rows_as_cells_a_selection() -> None:
    """`[1, N, 6]` with as many rows as cells is end-to-end only when the user says so."""
    model = model_of((1, 8400, 6))

    assert recognise(model, (640, 640), 2, Kind.END_TO_END) == Layout(Kind.END_TO_END, 8400, 2)


def test_the_user_cannot_decide_against_the_shape() -> None:
    """A layout that does not fit is refused, with those that would."""
    with pytest.raises(
        DetectorError, match=r"^layout=ssd does not fit; layout=yolov8 would fit; found inputs "
    ):
        recognise(YOLO, (640, 640), 80, Kind.SSD)
    with pytest.raises(DetectorError, match=r"^layout=yolox does not fit; found inputs "):
        recognise(model_of((1, 1000)), (640, 640), 80, Kind.YOLOX)


def test_ssd_outputs_that_disagree() -> None:
    """Encodings and logits of different numbers of boxes are no SSD."""
    with pytest.raises(DetectorError, match=r"^it fits no known layout"):
        recognise(ssd_of((1, 1917, 4), (1, 1916, 91)), (300, 300), 91, None)
