"""The values that travel through the server: a frame in, an answer out."""

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# The wire's coordinates are int32, and so must be the difference of any two.
MAX_EDGE_PX = 1 << 30
# More objects than anybody can look at are a fault of the detector; the best are answered.
MAX_OBJECTS = 1000


class ImageFormat(enum.IntEnum):
    """How a frame's bytes are coded; the numbers are the wire's, but for UNKNOWN: a later version's."""

    UNKNOWN = -1
    ENCODED = 0
    JPEG = 1
    PNG = 2
    RGB24 = 3
    BGR24 = 4
    GRAY8 = 5


class Outcome(enum.IntEnum):
    """What became of a frame; the numbers are the wire's, but for ABANDONED: nobody is left to be told."""

    ABANDONED = -1
    DETECTED = 1
    STALE = 2
    SUPERSEDED = 3
    BAD_IMAGE = 4
    TOO_LARGE = 5
    OVER_CAPACITY = 6
    INTERNAL_ERROR = 7

    @property
    def words(self) -> str:
        """The outcome as people and metrics read it, e.g. ``bad image``."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """A picture as it was sent: bytes, or a view of those in its message, and what is needed to read them.

    `width` and `height` are pixels and count only for raw formats.
    """

    data: bytes | memoryview
    format: ImageFormat = ImageFormat.ENCODED
    width: int = 0
    height: int = 0


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of one camera as it arrived.

    `age_ms` is how old it was when it was sent, by the sender's monotonic clock;
    `max_age_ms` is None where the sender leaves it to the server.
    """

    frame_id: int
    image: EncodedImage
    camera_id: str = ""
    capture_time_ns: int = 0
    age_ms: int = 0
    max_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Detections:
    """What a detector found in one image, by score descending.

    Attributes:
        boxes_xyxy: (n, 4) float32, pixels of the image, x1 <= x2 and y1 <= y2.
        scores: (n,) float32, 0 to 1.
        class_ids: (n,) integers, indices into the detector's labels.

    """

    boxes_xyxy: NDArray[np.float32]
    scores: NDArray[np.float32]
    class_ids: NDArray[np.int32]

    def __post_init__(self) -> None:
        n = len(self.scores)
        if self.boxes_xyxy.shape != (n, 4) or self.class_ids.shape != (n,):
            raise ValueError(
                f"expected boxes (n, 4), scores (n,) and class ids (n,), found "
                f"{self.boxes_xyxy.shape}, {self.scores.shape} and {self.class_ids.shape}"
            )


class Object(NamedTuple):
    """One detected object at the wire: whole pixels of the image that was sent."""

    label: str
    confidence: float
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The one answer to a frame."""

    frame_id: int
    outcome: Outcome
    objects: tuple[Object, ...] = field(default=())
    detail: str = ""
    queue_ms: float = 0.0
    work_ms: float = 0.0


def to_objects(detections: Detections, labels: tuple[str, ...]) -> tuple[Object, ...]:
    """Round detections to whole pixels, once: x, y = round(x1, y1), width = round(x2) - x, height likewise.

    Of more than MAX_OBJECTS those with the best scores are kept.

    Raises:
        ValueError: a box with NaN, the wrong way round or beyond what the wire can say, a score outside
            0 to 1, or a class id without a label.

    """
    boxes_xyxy, scores, class_ids = detections.boxes_xyxy, detections.scores, detections.class_ids
    if len(scores) > MAX_OBJECTS:
        best = np.argsort(-scores, kind="stable")[:MAX_OBJECTS]
        boxes_xyxy, scores, class_ids = boxes_xyxy[best], scores[best], class_ids[best]
    rows = zip(boxes_xyxy.tolist(), scores.tolist(), class_ids.tolist(), strict=True)
    # Plain numbers: for the few objects of a frame, array operations cost several times as much.
    return tuple(_to_object(*edges, score, class_id, labels) for edges, score, class_id in rows)


def _to_object(
    x1: float, y1: float, x2: float, y2: float, score: float, class_id: int, labels: tuple[str, ...]
) -> Object:
    if not 0 <= score <= 1:
        raise ValueError("found a score that is NaN or outside 0 to 1")
    if not 0 <= class_id < len(labels):
        raise ValueError(f"found a class id outside 0 to {len(labels) - 1}")
    if not all(abs(edge) <= MAX_EDGE_PX for edge in (x1, y1, x2, y2)):
        raise ValueError(f"found a box edge that is NaN or beyond {MAX_EDGE_PX} pixels")
    if not (x1 <= x2 and y1 <= y2):
        raise ValueError("found a box that ends before it begins")
    x, y = round(x1), round(y1)
    return Object(labels[class_id], score, x, y, round(x2) - x, round(y2) - y)
