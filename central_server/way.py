"""How much longer than usual a frame was on its way to the server. Pure."""

import math

# The quickest way is that of the last one to two such spans: clocks drift apart, and a route changes.
SPAN_S = 60.0


class Way:
    """One call's frames, compared by the intervals of two monotonic clocks, which need not agree.

    A frame that was held up, in a queue of the uplink, by lost packets, or by a server that was frozen, comes
    later after the one before it than it was sent after it. The least difference between the two clocks at
    sending and at arrival belongs to the quickest way; by what a frame's difference is above that, it was
    held up.
    """

    def __init__(self) -> None:
        self._span_began_s = -math.inf
        self._least_s = math.inf
        self._least_before_s = math.inf

    def held_up_s(self, sent_s: float, now_s: float) -> float:
        """Give for how many seconds a frame was held up that was sent at `sent_s` of its sender's clock."""
        difference_s = now_s - sent_s
        if now_s - self._span_began_s >= SPAN_S:
            # After a pause the one before is too long ago to be worth anything.
            is_next = now_s - self._span_began_s < 2 * SPAN_S
            self._least_before_s = self._least_s if is_next else math.inf
            self._least_s, self._span_began_s = math.inf, now_s
        self._least_s = min(self._least_s, difference_s)
        return difference_s - min(self._least_s, self._least_before_s)
