"""Which frame is worked on next: one waiting slot a stream, in fair turns, the earliest deadline first.

Pure: no clock, thread or loop of its own. Times are seconds on one monotonic clock.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from central_server.detectors.detector import Query
from central_server.frame import Answer, Frame, Outcome
from central_server.work_time import WorkTime


@dataclass(slots=True, eq=False)
class Waiting:
    """A frame that waits for a worker; from `deadline_s` on it is too late to begin work on it."""

    stream: "Stream"
    frame: Frame
    arrived_s: float
    deadline_s: float


@dataclass(slots=True, eq=False)
class Stream:
    """One call's ordered frames of one camera, and its waiting slot.

    `on_answer` gets the answers of frames that were worked on; `on_drop` each frame that leaves
    without work, with the reason. `turn` is the turn in which its next frame is due, `counts` what
    became of its frames so far, `work_time` how long work on them takes: cameras differ in size.
    """

    camera_id: str
    query: Query
    on_answer: Callable[[Answer], None]
    on_drop: "Callable[[Waiting, Outcome], None]"
    waiting: Waiting | None = None
    left: bool = False
    turn: int = 0
    counts: Counter[Outcome] = field(default_factory=Counter)
    work_time: WorkTime = field(default_factory=WorkTime)


class Scheduler:
    """One waiting slot a stream; `take` gives the frame whose stream's turn it is.

    A stream that was served is due in the next turn, so that no stream that waits sees another one
    served twice before it; within a turn the earliest deadline comes first, by the frame that the
    stream began to wait with. Deadlines alone would not do under overload: a stream whose frames
    always arrive a little after another's would wait for ever, and one that asks for a short
    maximum age would take what belongs to the others. Once nothing waits, all start the next turn
    together.
    """

    def __init__(self) -> None:
        self._places: list[tuple[int, float, int, Stream]] = []
        self._numbers = itertools.count()
        self._turn = 0

    @property
    def is_empty(self) -> bool:
        """Whether no frame waits."""
        return not self._places

    def offer(self, stream: Stream, frame: Frame, arrived_s: float, deadline_s: float) -> None:
        """Put a frame into its stream's slot; a frame that waits there is dropped as superseded.

        A frame that is too old already is dropped as stale and takes nobody's place.
        """
        waiting = Waiting(stream, frame, arrived_s, deadline_s)
        if arrived_s >= deadline_s:
            stream.on_drop(waiting, Outcome.STALE)
            return
        older, stream.waiting = stream.waiting, waiting
        if older is not None:
            stream.on_drop(older, Outcome.SUPERSEDED)
            return
        stream.turn = max(stream.turn, self._turn)
        heapq.heappush(self._places, (stream.turn, deadline_s, next(self._numbers), stream))

    def take(self, now_s: float) -> Waiting | None:
        """Give the next frame to work on, and drop as stale those on the way that are too old.

        Returns:
            None when nothing waits.

        """
        while self._places:
            turn, _, _, stream = heapq.heappop(self._places)
            waiting, stream.waiting = stream.waiting, None
            assert waiting is not None, "a place is held only while a frame waits"  # noqa: S101
            self._turn = turn
            if now_s < waiting.deadline_s:
                stream.turn = turn + 1
                return waiting
            stream.on_drop(waiting, Outcome.STALE)
        self._turn += 1
        return None

    def expire(self, now_s: float) -> None:
        """Drop as stale all frames that are too old by now; none is to wait for a worker that hangs."""
        expired = [
            place[-1].waiting
            for place in self._places
            if place[-1].waiting is not None and now_s >= place[-1].waiting.deadline_s
        ]
        if not expired:
            return
        for waiting in expired:
            waiting.stream.waiting = None
        self._places = [place for place in self._places if place[-1].waiting is not None]
        heapq.heapify(self._places)
        for waiting in expired:
            waiting.stream.on_drop(waiting, Outcome.STALE)

    def leave(self, stream: Stream) -> None:
        """Forget a stream whose client has gone; a frame that waits is dropped as abandoned."""
        stream.left = True
        waiting, stream.waiting = stream.waiting, None
        if waiting is not None:
            self._places = [place for place in self._places if place[-1] is not stream]
            heapq.heapify(self._places)
            stream.on_drop(waiting, Outcome.ABANDONED)
