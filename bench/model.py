"""The packaged model as a bare library call: what every server with it has to do at least."""

from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from central_server.detectors.coco_ssd import MODELS, STEM
from central_server.detectors.ssd import INPUT_OFFSET, INPUT_SCALE
from cython_ext.resize import resize_to_tensor

SIDE = 300


class Model:
    """One session of one thread, as onnxruntime comes."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        file = MODELS / f"{STEM}.onnx"
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self._input_name = self._session.get_inputs()[0].name
        self.anchors = np.load(MODELS / f"{STEM}.anchors.npy").astype(np.float32)

    def run(self, tensor: NDArray[np.float32]) -> tuple[Any, Any]:
        """Give box encodings (1, n, 4) and class logits (1, n, classes) of one prepared input."""
        encodings, logits = self._session.run(("box_encodings", "class_logits"), {self._input_name: tensor})
        return encodings, logits


def prepared(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Give the model's input for an image, (1, 3, 300, 300)."""
    tensor: NDArray[np.float32] = resize_to_tensor(image, (SIDE, SIDE), INPUT_SCALE, INPUT_OFFSET)
    return tensor
