"""A camera's frames between capture and answer: one waiting, a few in flight. Pure."""

from dataclasses import dataclass

from edge_agent.frame import Frame


@dataclass(frozen=True, slots=True)
class InFlight:
    """A frame that was sent and is not answered; its image is not kept."""

    capture_time_ns: int
    captured_s: float
    sent_s: float
    width: int
    height: int


class Window:
    """At most one frame waiting, the latest; at most `size` in flight."""

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self._waiting: Frame | None = None
        self._in_flight: dict[int, InFlight] = {}

    @property
    def waiting(self) -> Frame | None:
        """The frame that waits."""
        return self._waiting

    @property
    def has_room(self) -> bool:
        """Whether one more may be in flight."""
        return len(self._in_flight) < self.size

    @property
    def in_flight(self) -> int:
        """How many frames are sent and not answered."""
        return len(self._in_flight)

    @property
    def in_flight_ids(self) -> tuple[int, ...]:
        """Which frames are sent and not answered."""
        return tuple(self._in_flight)

    def offer(self, frame: Frame) -> Frame | None:
        """Put in the latest frame; gives back the one whose place it took."""
        older, self._waiting = self._waiting, frame
        return older

    def take(self, now_s: float) -> Frame | None:
        """Give the waiting frame for sending, if there is one and the window has room."""
        frame = self._waiting
        if frame is None or not self.has_room:
            return None
        self._waiting = None
        self._in_flight[frame.frame_id] = InFlight(
            frame.capture_time_ns, frame.captured_s, now_s, frame.width, frame.height
        )
        return frame

    def discard(self) -> None:
        """Let the waiting frame go unsent."""
        self._waiting = None

    def answered(self, frame_id: int) -> InFlight | None:
        """Note an answer; None for a frame that is not in flight."""
        return self._in_flight.pop(frame_id, None)

    def oldest_sent_s(self) -> float | None:
        """When the longest unanswered frame was sent."""
        return min((sent.sent_s for sent in self._in_flight.values()), default=None)

    def lose(self) -> int:
        """Forget what is in flight, when its call has ended; gives back how many that were."""
        lost = len(self._in_flight)
        self._in_flight.clear()
        return lost
