"""The gateway's clock, and how far to trust it: it may begin in 1970, and be set by a year at any moment.

Records carry the wall clock's time and this judgement of it. Durations, timeouts and ages never come from
here: they are the monotonic clock's.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from edge_agent.record import ClockTrust

# No clock that is right can stand before the day on which this was written; moved on with each release.
RELEASED_NS = int(datetime(2026, 11, 30, tzinfo=UTC).timestamp()) * 10**9
# What a clock is set by while the network's time is merely followed stays far below.
STEP_NS = 10**9


def _uptime_ns() -> int:
    """Monotonic, and counting while the machine sleeps, too: sleep is not a step of the wall clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Clock:
    """Gives the time with how far to trust it.

    Each camera has its own, and looks when a record begins and when it is made: a step between two looks is
    told by the second one. Not for use by two threads at a time.
    """

    def __init__(
        self,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        uptime_ns: Callable[[], int] = _uptime_ns,
    ) -> None:
        self._wall_ns = wall_ns
        self._uptime_ns = uptime_ns
        self._apart_ns = wall_ns() - uptime_ns()

    def look(self) -> tuple[int, ClockTrust]:
        """Read the clock.

        Returns:
            Nanoseconds since the Unix epoch, and whether the clock is unset (whatever else it did), was
            stepped by more than a second since the last look, or is good.

        """
        now_ns = self._wall_ns()
        apart_ns = now_ns - self._uptime_ns()
        moved_ns, self._apart_ns = abs(apart_ns - self._apart_ns), apart_ns
        if now_ns < RELEASED_NS:
            return now_ns, ClockTrust.UNSET
        return now_ns, ClockTrust.STEPPED if moved_ns > STEP_NS else ClockTrust.GOOD
