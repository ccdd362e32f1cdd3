"""When cameras may be tried: one after the other, and soon once what kept several away is over."""

import bisect
import itertools
import math
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

PER_SECOND = 12.0
AT_ONCE = 4
"""Attempts that may begin together after a quiet time."""
HEAD_START_S = 5.0
"""How much earlier a camera that was well seems to have asked."""
SAME_CAUSE_S = 20.0
"""Cameras that cannot be reached since about the same time, this much apart, have one cause."""
PROBE_INTERVAL_S = 2.0
"""From one to the next, cameras with one cause are tried so far apart."""


@dataclass(frozen=True, slots=True)
class _Away:
    since_s: float
    wake: Callable[[], None]


class Attempts:
    """The attempts of all cameras of a gateway; for any number of threads.

    When a network has been away, its cameras come back spread, not all at once, those first that were well
    before. While several are away since about the same time, they are tried in turn, so that one of them
    finds out soon; then all are tried, whatever delay they had come to.
    """

    def __init__(self, per_second: float = PER_SECOND, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = 1.0 / per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int]] = []
        self._next_s = -math.inf
        self._probe_s = -math.inf
        self._away: dict[Hashable, _Away] = {}

    def turn(self, stopping: threading.Event, *, was_well: bool) -> bool:
        """Wait for the turn to begin an attempt; False when `stopping` is set first."""
        with self._lock:
            asked_s = self._clock() - (HEAD_START_S if was_well else 0.0)
            ticket = asked_s, next(self._numbers)
            bisect.insort(self._waiting, ticket)
        while (wait_s := self._taken_or_wait_s(ticket)) > 0.0:
            if stopping.wait(wait_s):
                with self._lock:
                    self._waiting.remove(ticket)
                return False
        return not stopping.is_set()

    def _taken_or_wait_s(self, ticket: tuple[float, int]) -> float:
        """Take the turn and give 0, or say how long to wait before the next look."""
        with self._lock:
            now_s = self._clock()
            ahead = self._waiting.index(ticket)
            wait_s = self._next_s + ahead * self._interval_s - now_s
            if wait_s > 0.0 or ahead:
                # Those ahead may be late themselves, by what a thread takes to wake.
                return max(wait_s, self._interval_s / 4)
            self._waiting.remove(ticket)
            self._next_s = max(self._next_s, now_s - (AT_ONCE - 1) * self._interval_s) + self._interval_s
            return 0.0

    def away(self, camera: Hashable, wake: Callable[[], None]) -> float:
        """Note that a camera cannot be reached; `wake` is called, in any thread, when the cause may be over.

        Returns:
            The longest delay before its next attempt, in seconds; infinite for one that is away alone.

        """
        with self._lock:
            known = self._away.get(camera)
            away = self._away[camera] = _Away(known.since_s if known else self._clock(), wake)
            together = sum(_same_cause(away, other) for other in self._away.values())
            if together == 1:
                return math.inf
            now_s = self._clock()
            self._probe_s = max(now_s, self._probe_s) + PROBE_INTERVAL_S
            if self._probe_s > now_s + together * PROBE_INTERVAL_S:
                self._probe_s = now_s + PROBE_INTERVAL_S
            return self._probe_s - now_s

    def reached(self, camera: Hashable) -> None:
        """Note that a camera answers: those that went away with it are woken."""
        with self._lock:
            back = self._away.pop(camera, None)
            if back is None:
                return
            woken = [away.wake for away in self._away.values() if _same_cause(away, back)]
        for wake in woken:
            wake()

    def forget(self, camera: Hashable) -> None:
        """Leave out a camera that is not tried any more."""
        with self._lock:
            self._away.pop(camera, None)


def _same_cause(one: _Away, other: _Away) -> bool:
    return abs(one.since_s - other.since_s) <= SAME_CAUSE_S
