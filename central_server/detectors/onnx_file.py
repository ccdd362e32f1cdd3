"""`onnx:FILE`: a model of the user's own, in one of the layouts that `layouts` knows."""

import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from central_server.detectors.detector import Detector, DetectorOptions
from central_server.detectors.labels import Labels, find_labels
from central_server.detectors.layouts import (
    ImageInput,
    Interface,
    Kind,
    Layout,
    Port,
    check_outputs,
    find_image_input,
    recognise,
)
from central_server.detectors.session import open_session
from central_server.detectors.ssd import Ssd
from central_server.detectors.yolo import Yolo
from central_server.errors import DetectorError, OptionError

log = logging.getLogger(__name__)

GREY = 0.5


def create(argument: str, options: DetectorOptions) -> Detector:
    """Make the detector for ``--detector onnx:FILE`` or ``onnx:FILE,layout=NAME``.

    The model is run once, on grey: its outputs then have the shapes that count, and one that does not
    run is refused here.

    Raises:
        OptionError: no file named, an unknown layout or execution provider, or no such labels file.
        DetectorError: the model does not load or run, fits no layout, or its labels do not fit it.

    """
    model, wanted = _parse(argument)
    session = open_session(model, options.providers)
    interface = _declared(session)
    labels = find_labels(model, interface.metadata, options.labels_file)
    try:
        image_input = find_image_input(interface)
        check_outputs(interface)
        interface = _tried(session, interface, image_input)
        layout = recognise(interface, image_input.hw, len(labels.names), wanted)
    except DetectorError as error:
        raise DetectorError(f"{model}: {error}") from error
    _log(model, image_input, layout, labels)
    if layout.kind is Kind.SSD:
        anchors = read_anchors(model.with_suffix(".anchors.npy"), layout.count)
        return Ssd(f"onnx:{argument}", session, anchors, labels.names)
    return Yolo(f"onnx:{argument}", session, image_input, layout, labels.names)


def _parse(argument: str) -> tuple[Path, Kind | None]:
    """Part the file from the layout; a comma may be in a file's name."""
    match = re.fullmatch(r"(.*?)(?:,layout=([^,]*))?", argument, re.DOTALL)
    assert match is not None  # noqa: S101 - it matches any text
    file, layout = match.groups()
    if not file:
        raise OptionError("--detector onnx:FILE: found no file, expected the path of an ONNX model")
    try:
        return Path(file), None if layout is None else Kind(layout)
    except ValueError:
        raise OptionError(
            f"--detector onnx:{argument}: found layout {layout!r}, expected one of {', '.join(Kind)}"
        ) from None


def _declared(session: Any) -> Interface:
    return Interface(
        tuple(_port(port) for port in session.get_inputs()),
        tuple(_port(port) for port in session.get_outputs()),
        dict(session.get_modelmeta().custom_metadata_map),
    )


def _port(port: Any) -> Port:
    """Read onnxruntime's description, whose dtypes read ``tensor(float)`` or ``seq(tensor(int64))``."""
    tensor = re.fullmatch(r"tensor\((\w+)\)", port.type)
    dtype = tensor[1] if tensor else port.type
    return Port(port.name, {"float": "float32", "double": "float64"}.get(dtype, dtype), tuple(port.shape))


def _tried(session: Any, interface: Interface, image_input: ImageInput) -> Interface:
    """Run the model once and put the shapes of what came out in place of those declared."""
    names = [port.name for port in interface.outputs]
    tensor = np.full((1, 3, *image_input.hw), GREY, np.float32)
    try:
        outputs = session.run(names, {image_input.name: tensor})
    except Exception as error:
        first_line = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DetectorError(f"onnxruntime cannot run it: {first_line}") from error
    ports = zip(interface.outputs, outputs, strict=True)
    return replace(interface, outputs=tuple(replace(port, shape=output.shape) for port, output in ports))


def read_anchors(path: Path, count: int) -> NDArray[np.float32]:
    """Read an SSD's anchors: (count, 4) ymin, xmin, ymax, xmax in fractions of the image.

    Raises:
        DetectorError: no such file, or no such array in it.

    """
    expected = f"expected an array of ({count}, 4) numbers: ymin, xmin, ymax, xmax of each box"
    if not path.is_file():
        raise DetectorError(f"{path}: no such file, {expected}")
    try:
        # Mapped, so that a forged header cannot claim more than the file holds.
        array = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError) as error:
        raise DetectorError(f"{path}: not a NumPy array on file, {expected}") from error
    if array.dtype.kind != "f":
        raise DetectorError(f"{path}: found {array.dtype}, {expected}")
    if array.shape != (count, 4):
        raise DetectorError(f"{path}: found shape {array.shape}, {expected}")
    anchors = np.array(array, np.float32)
    if not np.isfinite(anchors).all() or not (anchors[:, 2:] > anchors[:, :2]).all():
        raise DetectorError(f"{path}: found anchors without a size, {expected}")
    return anchors


def _log(model: Path, image_input: ImageInput, layout: Layout, labels: Labels) -> None:
    height, width = image_input.hw
    log.info(
        "%s: layout %s, input %dx%d, %d boxes, %d labels from %s",
        model,
        layout.kind,
        width,
        height,
        layout.count,
        len(labels.names),
        labels.source,
    )
