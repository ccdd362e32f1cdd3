"""The values that travel through the server: a frame in, an answer out."""

import enum
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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

    # Every frame is counted by it: the enum's own hash is Python code.
    __hash__ = int.__hash__

    @property
    def words(self) -> str:
        """The outcome as people and metrics read it, e.g. ``bad image``."""
        return self.name.lower().replace("_", " ")


class EncodedImage(NamedTuple):
    """A picture as it was sent: bytes, or a view of those in its message, and what is needed to read them.

    `width` and `height` are pixels and count only for raw formats.
    """

    data: bytes | memoryview
    format: ImageFormat = ImageFormat.ENCODED
    width: int = 0
    height: int = 0


class Frame(NamedTuple):
    """One frame of one camera as it arrived.

    `age_ms` is how old it was when it was sent, by the sender's monotonic clock;
    `max_age_ms` is None where the sender leaves it to the server. `sent_ms` is when it was sent, by the same
    clock; 0 where the sender does not say.
    """

    frame_id: int
    image: EncodedImage
    camera_id: str = ""
    capture_time_ns: int = 0
    age_ms: int = 0
    max_age_ms: int | None = None
    sent_ms: int = 0


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


class Answer(NamedTuple):
    """The one answer to a frame; `message` is what goes out, a DetectResponse.

    `work_s` is how long a worker had it, 0 where none has.
    """

    frame_id: int
    outcome: Outcome
    message: bytes
    work_s: float = 0.0
