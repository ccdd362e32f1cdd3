"""How long to wait before the next attempt: soon while the trouble is young, never all at once."""

import random
import time
from collections.abc import Callable

FIRST_DELAY_S = 0.25
YOUNG_TROUBLE_S = 60.0
YOUNG_LIMIT_S = 1.0
OLD_LIMIT_S = 30.0
HEALTHY_STRETCH_S = 2.0


class Backoff:
    """Doubling delays with jitter: at most 1 s in the first minute of trouble, at most 30 s later.

    Call `next_delay_s` after a failed attempt and `healthy` at each sign of life. The first failure after a
    stretch of HEALTHY_STRETCH_S seconds of signs of life begins a new trouble, with the shortest delay; a
    connection that comes and goes at once does not. Not for use by two threads at a time.
    """

    def __init__(
        self,
        *,
        uniform: Callable[[float, float], float] = random.uniform,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uniform = uniform
        self._clock = clock
        self._trouble_since_s: float | None = None
        self._healthy_since_s: float | None = None
        self._delay_s = FIRST_DELAY_S

    def healthy(self) -> None:
        """Note a sign of life: a picture or an answer came."""
        now_s = self._clock()
        if self._healthy_since_s is None:
            self._healthy_since_s = now_s
        elif now_s - self._healthy_since_s >= HEALTHY_STRETCH_S:
            self._trouble_since_s = None
            self._delay_s = FIRST_DELAY_S

    def next_delay_s(self) -> float:
        """Seconds to wait now, after a failure: between half the present limit and all of it."""
        now_s = self._clock()
        self._healthy_since_s = None
        if self._trouble_since_s is None:
            self._trouble_since_s = now_s
        young = now_s - self._trouble_since_s < YOUNG_TROUBLE_S
        limit_s = min(self._delay_s, YOUNG_LIMIT_S if young else OLD_LIMIT_S)
        self._delay_s = min(limit_s * 2.0, OLD_LIMIT_S)
        return self._uniform(limit_s / 2.0, limit_s)
