"""`coco-ssd`, the default: the SSDLite MobileNetV2 in the package, trained on COCO."""

from pathlib import Path

import numpy as np

from central_server.detectors.detector import DetectorOptions
from central_server.detectors.labels import read_labels
from central_server.detectors.session import open_session
from central_server.detectors.ssd import Ssd
from central_server.errors import OptionError

MODELS = Path(__file__).parent.parent / "models"
STEM = "ssdlite_mobilenet_v2_coco"


def create(argument: str, options: DetectorOptions) -> Ssd:
    """Make the detector for `--detector coco-ssd`."""
    if argument or options.labels_file:
        raise OptionError(
            "--detector coco-ssd: takes no argument and no --labels; for a model of your own use onnx:FILE"
        )
    session = open_session(MODELS / f"{STEM}.onnx", options.providers)
    anchors = np.load(MODELS / f"{STEM}.anchors.npy").astype(np.float32)
    return Ssd("coco-ssd", session, anchors, read_labels(MODELS / f"{STEM}.labels.txt"))
