"""Anchor-free detectors of the YOLO family: YOLOv8 and 11, YOLOX, and those that select by themselves."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from central_server.detectors.detector import Query
from central_server.detectors.layouts import ImageInput, Kind, Layout
from central_server.errors import DetectorError
from central_server.frame import Detections
from cython_ext.boxes import decode_yolo, decode_yolox
from cython_ext.letterbox import Letterbox
from cython_ext.nms import nms
from cython_ext.resize import letterbox_to_tensor, unletterbox

PAD_VALUE = 114.0
MAX_DETECTIONS = 300

Boxes = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int32]]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a family was trained: what the tensor holds, and above which overlap a class counts twice."""

    scale: float
    bgr: bool
    centred: bool
    iou_threshold: float


# Ultralytics' predictor: RGB, 0 to 1, letterbox in the middle, IoU 0.7.
ULTRALYTICS = Recipe(scale=1 / 255, bgr=False, centred=True, iou_threshold=0.7)
# YOLOX's demo for onnxruntime: BGR, 0 to 255, letterbox at the top left, IoU 0.45.
YOLOX = Recipe(scale=1.0, bgr=True, centred=False, iou_threshold=0.45)


class Yolo:
    """A model with one output of boxes in pixels of its letterboxed input; see `Detector`.

    Each box has one class, the best one; boxes of different classes never suppress each other.
    """

    def __init__(
        self, name: str, session: Any, image_input: ImageInput, layout: Layout, labels: tuple[str, ...]
    ) -> None:
        self.name = name
        self.labels = labels
        height, width = image_input.hw
        self.input_wh = (width, height)
        self._session = session
        self._input_name = image_input.name
        self._output_names = (session.get_outputs()[0].name,)
        self._kind = layout.kind
        self._recipe = YOLOX if layout.kind is Kind.YOLOX else ULTRALYTICS
        self._tensor = np.empty((1, 3, height, width), np.float32)
        # A class without a name is never answered.
        self._named = np.array([bool(label) for label in labels], np.uint8)

    def detect(self, image: NDArray[np.uint8], query: Query) -> Detections:
        """See `Detector.detect`. The GIL is held only between letterbox, inference, decoding and NMS."""
        tensor, letterbox = self.prepare(image)
        return self.find_boxes(self.run_model(tensor), letterbox, query)

    def prepare(self, image: NDArray[np.uint8]) -> tuple[NDArray[np.float32], Letterbox]:
        """Fill the model's input (1, 3, height, width), and say where the frame lies in it."""
        recipe = self._recipe
        return letterbox_to_tensor(
            image,
            self._tensor.shape[2:],
            PAD_VALUE,
            recipe.scale,
            0.0,
            bgr=recipe.bgr,
            centred=recipe.centred,
            out=self._tensor,
        )

    def run_model(self, tensor: NDArray[np.float32]) -> NDArray[np.float32]:
        """Infer: (1, 3, height, width) in; what the layout says out, without the batch."""
        (batch,) = self._session.run(self._output_names, {self._input_name: tensor})
        output: NDArray[np.float32] = batch[0]
        return output

    def find_boxes(self, output: NDArray[np.float32], letterbox: Letterbox, query: Query) -> Detections:
        """Decode what the model said, keep of overlapping boxes the best, and lead them back to the frame."""
        wanted = self._named if query.class_mask is None else self._named & query.class_mask
        boxes_xyxy, scores, class_ids = self._select(output, query.min_score, wanted)
        boxes_xyxy = unletterbox(boxes_xyxy, letterbox)
        # Clipping to the frame leaves nothing of a box that lay in the padding.
        seen = (boxes_xyxy[:, 2] > boxes_xyxy[:, 0]) & (boxes_xyxy[:, 3] > boxes_xyxy[:, 1])
        return Detections(boxes_xyxy[seen], scores[seen], class_ids[seen])

    def _select(self, output: NDArray[np.float32], min_score: float, wanted: NDArray[np.uint8]) -> Boxes:
        """Boxes of the model's input that count, by score descending, at most `MAX_DETECTIONS`."""
        if self._kind is Kind.END_TO_END:
            return _read_selection(output, min_score, wanted)
        if self._kind is Kind.YOLOX:
            boxes_xyxy, scores, class_ids = decode_yolox(
                output, self._tensor.shape[2:], min_score, class_mask=wanted
            )
        else:
            boxes_xyxy, scores, class_ids = decode_yolo(
                output,
                channels_first=self._kind is Kind.YOLOV8,
                has_objectness=False,
                min_score=min_score,
                class_mask=wanted,
            )
        kept = nms(boxes_xyxy, scores, class_ids, self._recipe.iou_threshold, max_detections=MAX_DETECTIONS)
        return boxes_xyxy[kept], scores[kept], class_ids[kept]


def _read_selection(output: NDArray[np.float32], min_score: float, wanted: NDArray[np.uint8]) -> Boxes:
    """Read (n, 6) rows of x1, y1, x2, y2, score and class, which the model has selected by itself.

    Rows that fill up the number hold no score or no area; NaN is never answered.

    Raises:
        DetectorError: a row's class has no label, so the labels are another model's.

    """
    has_area = (output[:, 2] > output[:, 0]) & (output[:, 3] > output[:, 1])
    rows = output[has_area & (output[:, 4] >= np.float32(min_score)) & np.isfinite(output[:, :4]).all(axis=1)]
    rows = rows[np.argsort(-rows[:, 4], kind="stable")]
    if not ((rows[:, 5] >= 0) & (rows[:, 5] < len(wanted))).all():
        raise DetectorError(
            f"the model answered class {rows[:, 5].max():g}, expected 0 to {len(wanted) - 1}: a labelled one"
        )
    class_ids = rows[:, 5].astype(np.int32)
    chosen = np.flatnonzero(wanted[class_ids])[:MAX_DETECTIONS]
    return np.ascontiguousarray(rows[chosen, :4]), rows[chosen, 4], class_ids[chosen]
