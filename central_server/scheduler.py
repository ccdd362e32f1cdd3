"""Which frame is worked on next: one waiting slot a stream, the earliest deadline first.

Pure: no clock, thread or loop of its own. Times are seconds on one monotonic clock.
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from central_server.detectors.detector import Query
from central_server.frame import Answer, Frame, Outcome


@dataclass(slots=True, eq=False)
class Waiting:
    """A frame that waits for a worker, or is with one.

    `deadline_s` is when it becomes worthless; `place_s` is its stream's turn: the earliest deadline
    among the frames that waited in the slot since the stream was last served.
    """

    stream: "Stream"
    frame: Frame
    arrived_s: float
    deadline_s: float
    place_s: float


@dataclass(slots=True, eq=False)
class Stream:
    """One call's ordered frames of one camera, and its waiting slot.

    `on_answer` gets the answers of frames that were worked on; `on_drop` each frame that leaves
    the slot without work, with the reason.
    """

    camera_id: str
    query: Query
    on_answer: Callable[[Answer], None]
    on_drop: "Callable[[Waiting, Outcome], None]"
    waiting: Waiting | None = None
    left: bool = False
    place_number: int = -1


class Scheduler:
    """One waiting slot a stream; `take` gives the frame whose stream's turn it is.

    A frame that is superseded passes its place on to the newer frame. Without that, a stream whose
    frames always arrive a little after another's would wait for ever under overload: the other's
    deadline would always be the earlier one. With it, streams of equal maximum age are served in turn.
    """

    def __init__(self) -> None:
        self._turns: list[tuple[float, int, Stream]] = []
        self._numbers = itertools.count()

    def offer(self, stream: Stream, frame: Frame, arrived_s: float, deadline_s: float) -> None:
        """Put a frame into its stream's slot; a frame that waits there is dropped as superseded."""
        older = stream.waiting
        if older is None:
            stream.waiting = Waiting(stream, frame, arrived_s, deadline_s, place_s=deadline_s)
            stream.place_number = next(self._numbers)
            heapq.heappush(self._turns, (deadline_s, stream.place_number, stream))
            return
        stream.waiting = Waiting(stream, frame, arrived_s, deadline_s, place_s=older.place_s)
        stream.on_drop(older, Outcome.SUPERSEDED)

    def take(self, now_s: float) -> Waiting | None:
        """Give the next frame to work on, and drop as stale those on the way that are too old.

        Returns:
            None when nothing waits.

        """
        while self._turns:
            _, number, stream = heapq.heappop(self._turns)
            waiting = stream.waiting
            if waiting is None or number != stream.place_number:
                continue
            stream.waiting = None
            if now_s >= waiting.deadline_s:
                stream.on_drop(waiting, Outcome.STALE)
                continue
            return waiting
        return None

    def leave(self, stream: Stream) -> None:
        """Forget a stream whose client has gone; its waiting frame is dropped without an answer."""
        stream.left = True
        stream.waiting = None

    @property
    def waiting_streams(self) -> int:
        """How many streams have a frame waiting."""
        return sum(1 for _, number, stream in self._turns if stream.waiting and number == stream.place_number)
