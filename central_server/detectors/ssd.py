"""SSD with anchors: the layout of the model in the package."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from central_server.detectors.detector import Query
from central_server.frame import Detections
from cython_ext.boxes import decode_ssd
from cython_ext.nms import nms
from cython_ext.resize import resize_to_tensor

# As trained: value * 2/255 - 1, and boxes of one class suppressed above this overlap.
INPUT_SCALE = 2.0 / 255.0
INPUT_OFFSET = -1.0
IOU_THRESHOLD = 0.6
MAX_DETECTIONS = 100
OUTPUTS = ("box_encodings", "class_logits")

Output = tuple[NDArray[np.float32], NDArray[np.float32]]


class Ssd:
    """SSD with box encodings (n, 4) and class logits (n, classes) against anchors (n, 4).

    The image is resized to the input without keeping its aspect, as the model was trained.
    """

    def __init__(
        self, name: str, session: Any, anchors: NDArray[np.float32], labels: tuple[str, ...]
    ) -> None:
        self.name = name
        self.labels = labels
        self._session = session
        self.anchors = anchors
        model_input = session.get_inputs()[0]
        self._input_name = model_input.name
        height, width = model_input.shape[2:]
        self.input_wh = (int(width), int(height))
        self._tensor = np.empty((1, 3, height, width), np.float32)
        # Class 0 is the background, and ids that COCO skips have no name: never answered.
        self._named = np.array([bool(label) for label in labels], np.uint8)

    def detect(self, image: NDArray[np.uint8], query: Query) -> Detections:
        """See `Detector.detect`. The GIL is held only between resize, inference, decoding and NMS."""
        tensor, frame_wh = self.prepare(image)
        return self.find_boxes(self.run_model(tensor), frame_wh, query)

    def prepare(self, image: NDArray[np.uint8]) -> tuple[NDArray[np.float32], tuple[int, int]]:
        """Fill the model's input (1, 3, height, width); the frame's size, px, is for the boxes."""
        resize_to_tensor(image, self._tensor.shape[2:], INPUT_SCALE, INPUT_OFFSET, out=self._tensor)
        return self._tensor, (image.shape[1], image.shape[0])

    def run_model(self, tensor: NDArray[np.float32]) -> Output:
        """Infer: (1, 3, height, width) in; box encodings (1, n, 4) and class logits (1, n, classes) out."""
        encodings, logits = self._session.run(OUTPUTS, {self._input_name: tensor})
        return encodings, logits

    def find_boxes(self, output: Output, frame_wh: tuple[int, int], query: Query) -> Detections:
        """Decode what the model said, and keep of overlapping boxes the best."""
        encodings, logits = output
        boxes_xyxy, scores, class_ids = decode_ssd(
            encodings[0],
            logits[0],
            self.anchors,
            frame_wh,
            query.min_score,
            class_mask=self._named if query.class_mask is None else self._named & query.class_mask,
        )
        kept = nms(boxes_xyxy, scores, class_ids, IOU_THRESHOLD, max_detections=MAX_DETECTIONS)
        return Detections(boxes_xyxy[kept], scores[kept], class_ids[kept])
