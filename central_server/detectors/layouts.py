"""Which layout a model has: told from its inputs, outputs, metadata and the number of labels.

Nothing here needs a session, so each rule can be tried on plain values.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from central_server.errors import DetectorError

MAX_INPUT_PX = 4096
# Ports that a refusal names: enough for every layout, and still one line.
MAX_LISTED = 8
MAX_DIM_CHARS = 20
# Cells are laid over the input once for each stride. Published heads have these; the first is the usual.
STRIDES = (8, 16, 32)
STRIDE_SETS = (STRIDES, (4, 8, 16, 32), (8, 16, 32, 64))
SSD_OUTPUTS = ("box_encodings", "class_logits")
EXPECTED_INPUT = "expected one input float32 [1, 3, height, width]"
EXPECTED_OUTPUT = (
    "expected one output float32 [1, 4+C, N] or [1, N, 4+C] (YOLOv8/11), [1, N, 5+C] (YOLOX) or [1, N, 6] "
    "(end-to-end), or box_encodings [1, N, 4] and class_logits [1, N, C] (SSD), for C classes"
)


class Kind(StrEnum):
    """The layouts, by the names that `--detector onnx:FILE,layout=NAME` takes."""

    YOLOV8 = "yolov8"
    YOLOV8_TRANSPOSED = "yolov8-transposed"
    YOLOX = "yolox"
    END_TO_END = "end-to-end"
    SSD = "ssd"


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output as the model declares it; a dimension that is no number is not fixed."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]

    def __str__(self) -> str:
        # Exporters write whole formulas as the name of a dimension.
        short = ("?" if dim is None or len(str(dim)) > MAX_DIM_CHARS else str(dim) for dim in self.shape)
        dims = ", ".join(short)
        return f"{self.name} {self.dtype} [{dims}]"


@dataclass(frozen=True, slots=True)
class Interface:
    """What a model takes, gives and says of itself."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    metadata: Mapping[str, str]

    def refusal(self, reason: str, expected: str) -> DetectorError:
        """Say why the model is refused, what it has, and what would fit, in one line."""
        found = f"inputs {_listed(self.inputs)}; outputs {_listed(self.outputs)}"
        return DetectorError(f"{reason}; found {found}; {expected}")


def _listed(ports: tuple[Port, ...]) -> str:
    more = f" and {len(ports) - MAX_LISTED} more" if len(ports) > MAX_LISTED else ""
    return (", ".join(map(str, ports[:MAX_LISTED])) or "none") + more


@dataclass(frozen=True, slots=True)
class ImageInput:
    """Where the image goes in: one image, three planes, float32."""

    name: str
    hw: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """What the outputs mean: `count` boxes, of `classes` classes."""

    kind: Kind
    count: int
    classes: int


def find_image_input(model: Interface) -> ImageInput:
    """Find the one image input; its size comes from the model's shape, else from `imgsz` in its metadata.

    Raises:
        DetectorError: several inputs, a dtype other than float32, a fixed batch, channels last, or no size.

    """
    if len(model.inputs) != 1:
        raise model.refusal(f"it has {len(model.inputs)} inputs", EXPECTED_INPUT)
    port = model.inputs[0]
    if port.dtype == "float16":
        raise model.refusal("its input is float16", f"{EXPECTED_INPUT}: export it without half precision")
    if port.dtype != "float32":
        raise model.refusal(f"its input is {port.dtype}", EXPECTED_INPUT)
    if len(port.shape) != 4:
        raise model.refusal(f"its input has {len(port.shape)} dimensions", EXPECTED_INPUT)
    batch, channels, height, width = port.shape
    if isinstance(batch, int) and batch != 1:
        raise model.refusal(f"its batch is fixed to {batch}", f"{EXPECTED_INPUT}: export it with batch 1")
    if channels != 3 and width == 3:
        raise model.refusal("its input has the channels last (NHWC)", EXPECTED_INPUT)
    if channels != 3:
        raise model.refusal(f"its input has {channels} channels", EXPECTED_INPUT)
    if not isinstance(height, int) or not isinstance(width, int):
        height, width = _size_in_metadata(model)
    if not (1 <= height <= MAX_INPUT_PX and 1 <= width <= MAX_INPUT_PX):
        raise model.refusal(
            f"its input is {width}x{height} pixels",
            f"{EXPECTED_INPUT} of at most {MAX_INPUT_PX} pixels a side",
        )
    return ImageInput(port.name, (height, width))


def _size_in_metadata(model: Interface) -> tuple[int, int]:
    """Read `imgsz`, which Ultralytics writes as ``[height, width]``."""
    text = model.metadata.get("imgsz", "")
    try:
        size = ast.literal_eval(text) if len(text) < 100 else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        size = None
    if isinstance(size, list | tuple) and len(size) == 2 and all(type(side) is int for side in size):
        return size[0], size[1]
    stated = f"'imgsz' in its metadata is {text[:40]!r}" if text else "there is no 'imgsz' in its metadata"
    raise model.refusal(
        f"its input size is not fixed and {stated}",
        f"{EXPECTED_INPUT}: export it with a fixed height and width",
    )


def check_outputs(model: Interface) -> None:
    """Refuse outputs whose number, names or dtypes fit no layout, whatever their shapes.

    Raises:
        DetectorError: they fit none.

    """
    task = model.metadata.get("task", "detect")
    if task != "detect":
        raise model.refusal(
            f"'task' in its metadata is {task[:40]!r}", f"expected 'detect'; {EXPECTED_OUTPUT}"
        )
    is_ssd = sorted(port.name for port in model.outputs) == sorted(SSD_OUTPUTS)
    if not is_ssd and len(model.outputs) != 1:
        raise model.refusal(
            f"it has {len(model.outputs)} outputs",
            f"{EXPECTED_OUTPUT}; a model with NMS inside has to be exported without",
        )
    for port in model.outputs:
        if port.dtype != "float32":
            raise model.refusal(f"its output {port.name} is {port.dtype}", EXPECTED_OUTPUT)


def recognise(model: Interface, input_hw: tuple[int, int], labels: int, wanted: Kind | None) -> Layout:
    """Tell the layout from the shapes of the outputs, the metadata and the number of labels.

    `[1, N, C]` fits YOLOX and the transpose of YOLOv8 alike when N is the number of cells: the number
    of labels decides, and `wanted` decides where that fits more than one as well.

    Args:
        model: with the shapes that its outputs really have.
        input_hw: height and width of the model's input in pixels.
        labels: how many there are.
        wanted: the layout that the user named, if any.

    Raises:
        DetectorError: no layout fits, more than one does, or the labels are too many or too few.

    """
    fitting = _ssd(model) if len(model.outputs) == 2 else _single(model, input_hw, labels, wanted)
    if wanted is not None and wanted not in fitting:
        also = f"; {_options(fitting)} would fit" if fitting else ""
        raise model.refusal(f"layout={wanted} does not fit{also}", EXPECTED_OUTPUT)
    if wanted is not None:
        fitting = {wanted: fitting[wanted]}
    if not fitting:
        raise model.refusal(f"it fits no known layout; {_cells(input_hw)}", EXPECTED_OUTPUT)
    agreeing = [layout for layout in fitting.values() if layout.classes == labels]
    if not agreeing:
        counts = " or ".join(f"{layout.classes} ({layout.kind})" for layout in fitting.values())
        raise model.refusal(f"its classes and the labels disagree: {labels} labels", f"expected {counts}")
    if len(agreeing) > 1:
        raise model.refusal(
            f"it fits more than one layout: {_options(layout.kind for layout in agreeing)}",
            "expected one of them after onnx:FILE,",
        )
    return agreeing[0]


def _options(kinds: Iterable[Kind]) -> str:
    return ", ".join(f"layout={kind}" for kind in kinds)


def _ssd(model: Interface) -> dict[Kind, Layout]:
    if not all(isinstance(side, int) for side in model.inputs[0].shape[2:]):
        raise model.refusal("its input size is not fixed, and an SSD's anchors are for one", EXPECTED_INPUT)
    shapes = {port.name: port.shape for port in model.outputs}
    match [shapes[name] for name in SSD_OUTPUTS]:
        case [(1, int(boxes), 4), (1, int(logits), int(classes))] if boxes == logits > 0 and classes > 0:
            return {Kind.SSD: Layout(Kind.SSD, boxes, classes)}
    return {}


def _single(
    model: Interface, input_hw: tuple[int, int], labels: int, wanted: Kind | None
) -> dict[Kind, Layout]:
    """Layouts that one output fits by its shape and the model's metadata, labels apart."""
    match model.outputs[0].shape:
        case (1, int(rows), int(columns)):
            pass
        case _:
            return {}
    cells = {count_cells(input_hw, strides) for strides in STRIDE_SETS}
    end_to_end = Layout(Kind.END_TO_END, rows, labels)
    if model.metadata.get("end2end", "False") == "True":
        return {Kind.END_TO_END: end_to_end} if columns == 6 else {}
    found = []
    if columns in cells:
        found.append(Layout(Kind.YOLOV8, columns, rows - 4))
    if rows in cells:
        found.append(Layout(Kind.YOLOV8_TRANSPOSED, rows, columns - 4))
    # Only Ultralytics writes a task, and it has no YOLOX.
    if rows == count_cells(input_hw, STRIDES) and "task" not in model.metadata:
        found.append(Layout(Kind.YOLOX, rows, columns - 5))
    # As many rows as cells are cells, unless the user says otherwise: a selection has fewer.
    if columns == 6 and (rows not in cells or wanted is Kind.END_TO_END):
        found.append(end_to_end)
    return {layout.kind: layout for layout in found if layout.classes > 0}


def count_cells(input_hw: tuple[int, int], strides: tuple[int, ...]) -> int:
    """Count the cells of all strides, which is the number of boxes of an anchor-free head."""
    height, width = input_hw
    return sum((height // stride) * (width // stride) for stride in strides)


def _cells(input_hw: tuple[int, int]) -> str:
    height, width = input_hw
    counts = ", ".join(str(count_cells(input_hw, strides)) for strides in STRIDE_SETS)
    return f"with an input of {width}x{height} pixels N is {counts} (of YOLO cells)"
