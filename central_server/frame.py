"""The values that travel through the server: a frame in, an answer out."""

import enum
from dataclasses import dataclass, field

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
    """A picture as it was sent: bytes, and what is needed to read them.

    `width` and `height` are pixels and count only for raw formats.
    """

    data: bytes
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


@dataclass(frozen=True, slots=True)
class Object:
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
    if not ((scores >= 0) & (scores <= 1)).all():
        raise ValueError("found a score that is NaN or outside 0 to 1")
    if not ((class_ids >= 0) & (class_ids < len(labels))).all():
        raise ValueError(f"found a class id outside 0 to {len(labels) - 1}")
    if not (np.abs(boxes_xyxy) <= MAX_EDGE_PX).all():
        raise ValueError(f"found a box edge that is NaN or beyond {MAX_EDGE_PX} pixels")
    if not (boxes_xyxy[:, :2] <= boxes_xyxy[:, 2:]).all():
        raise ValueError("found a box that ends before it begins")
    corners = np.rint(boxes_xyxy).astype(np.int64).tolist()
    return tuple(
        Object(labels[class_id], score, x1, y1, x2 - x1, y2 - y1)
        for (x1, y1, x2, y2), score, class_id in zip(
            corners, scores.tolist(), class_ids.tolist(), strict=True
        )
    )
