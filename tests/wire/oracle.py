"""What the model in the package finds in a picture, computed once more: OpenCV, onnxruntime and plain NumPy.

Nothing here is shared with the server but the model's files.
"""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
from numpy.typing import NDArray

MODELS = Path(__file__).parents[2] / "central_server" / "models"
STEM = "ssdlite_mobilenet_v2_coco"
IOU_THRESHOLD = 0.6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A box that passed the threshold; edges in pixels of the picture: left, top, right, bottom."""

    label: str
    score: float
    edges: tuple[float, float, float, float]

    @property
    def width(self) -> float:
        """From left to right."""
        return self.edges[2] - self.edges[0]

    @property
    def height(self) -> float:
        """From top to bottom."""
        return self.edges[3] - self.edges[1]


def iou(one: Candidate, other: Candidate) -> float:
    """Divide what two boxes share by what they cover together."""
    left, top = (max(one.edges[i], other.edges[i]) for i in (0, 1))
    right, bottom = (min(one.edges[i], other.edges[i]) for i in (2, 3))
    shared = max(0.0, right - left) * max(0.0, bottom - top)
    return shared / (one.width * one.height + other.width * other.height - shared)


class Oracle:
    """The model, loaded once more."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(MODELS / f"{STEM}.onnx", options)
        self._anchors = np.load(MODELS / f"{STEM}.anchors.npy").astype(np.float64)
        self._labels = (MODELS / f"{STEM}.labels.txt").read_text().splitlines()

    def candidates(self, jpeg: bytes, min_score: float) -> list[Candidate]:
        """Give every box of every class from a score on, the best first."""
        decoded = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
        assert decoded is not None
        pixels = cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)
        height, width = pixels.shape[:2]
        resized = cv2.resize(pixels.astype(np.float32), (300, 300), interpolation=cv2.INTER_LINEAR)
        tensor = np.ascontiguousarray((resized * (2 / 255) - 1).transpose(2, 0, 1)[None], np.float32)
        encodings, logits = self._session.run(["box_encodings", "class_logits"], {"images": tensor})
        edges = self._edges(encodings[0].astype(np.float64), width, height)
        scores = 1 / (1 + np.exp(-logits[0].astype(np.float64)))
        found = [
            Candidate(self._labels[class_id], float(scores[anchor, class_id]), tuple(edges[anchor]))
            for anchor, class_id in zip(*np.nonzero(scores >= min_score), strict=True)
            if class_id > 0 and self._labels[class_id]
        ]
        return sorted(found, key=lambda candidate: -candidate.score)

    def _edges(self, encodings: NDArray[np.float64], width: int, height: int) -> NDArray[np.float64]:
        sizes = self._anchors[:, 2:] - self._anchors[:, :2]
        centres = encodings[:, :2] / 10 * sizes + (self._anchors[:, :2] + self._anchors[:, 2:]) / 2
        halves = np.exp(encodings[:, 2:] / 5) * sizes / 2
        top_left, bottom_right = centres - halves, centres + halves
        yxyx = np.concatenate([top_left, bottom_right], axis=1) * [height, width, height, width]
        clipped: NDArray[np.float64] = np.clip(yxyx, 0, [height, width, height, width])[:, [1, 0, 3, 2]]
        return clipped


def suppress(candidates: list[Candidate]) -> list[Candidate]:
    """Keep the best of boxes of one label that overlap by more than the threshold."""
    kept: list[Candidate] = []
    for candidate in candidates:
        if all(rival.label != candidate.label or iou(rival, candidate) <= IOU_THRESHOLD for rival in kept):
            kept.append(candidate)
    return kept


def nms_margin(one: Candidate, candidates: list[Candidate]) -> float:
    """Tell by how little the suppression of a box, or of its rivals, was decided.

    Either an overlap close to the threshold, or two overlapping boxes of nearly the same score.
    """
    margins = [float("inf")]
    for other in candidates:
        if other.label == one.label and other != one:
            overlap = iou(one, other)
            margins.append(abs(overlap - IOU_THRESHOLD))
            if overlap > IOU_THRESHOLD:
                margins.append(abs(one.score - other.score))
    return min(margins)
