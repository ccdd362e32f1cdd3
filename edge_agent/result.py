"""What comes back for a frame."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Object:
    """One detected object; x, y, width and height are pixels of the image that was sent."""

    label: str
    confidence: float
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer to one frame."""

    frame_id: int
    outcome: str
    objects: tuple[Object, ...]
    detail: str = ""
    queue_ms: float = 0.0
    work_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """An answered frame.

    `latency_ms` runs from the arrival of the picture's packet at the agent to the answer's.
    """

    camera: str
    capture_time_ns: int
    width: int
    height: int
    latency_ms: float
    answer: Answer
