"""The data budget: what may be sent now, what was sent, and who gets how much of it. Pure."""

import math
from collections import deque
from collections.abc import Sequence

SPAN_S = 10.0
"""Kilobits a second are those of this long a while."""
HOUR_S = 3600.0
SLOT_S = 60.0
"""The last hour is kept in slots of this length."""
DAY_S = 86_400.0
# HTTP/2, TLS, TCP and IP put so much on top of a message, with segments of 1,400 bytes.
OVERHEAD_SHARE = 0.05
OVERHEAD_BYTES = 40


def cost_bytes(message_bytes: int) -> int:
    """Give what a message costs on the uplink: its own bytes, and what its transport puts around them."""
    return message_bytes + OVERHEAD_BYTES + round(message_bytes * OVERHEAD_SHARE)


class Allowance:
    """Bytes that may be sent at a steady rate; the hard stop of a budget.

    Nothing is saved up: a frame may go as soon as the frames before it are paid for. So whatever the
    window of time, no more is sent in it than its length allows, and one frame.
    """

    def __init__(self, max_kbit: float | None = None) -> None:
        self._bytes_s = math.inf
        self._paid_s = -math.inf
        self.set(max_kbit, -math.inf)

    @property
    def bytes_s(self) -> float:
        """Bytes a second; infinite without a budget."""
        return self._bytes_s

    def set(self, max_kbit: float | None, now_s: float) -> None:
        """Allow so many kilobits a second from now on; None allows everything. What is owed is kept."""
        bytes_s = math.inf if max_kbit is None else max_kbit * 125.0
        if now_s < self._paid_s:
            self._paid_s = now_s + (self._paid_s - now_s) * self._bytes_s / bytes_s
        self._bytes_s = bytes_s

    def wait_s(self, now_s: float) -> float:
        """Give the seconds until a frame may go; 0 for now."""
        return max(0.0, self._paid_s - now_s)

    def spend(self, spent_bytes: int, now_s: float) -> None:
        """Note a frame that goes now."""
        self._paid_s = max(self._paid_s, now_s) + spent_bytes / self._bytes_s


class Meter:
    """Counts what was sent; its memory is bounded, whatever the rate."""

    def __init__(self, now_s: float) -> None:
        self.sent_bytes = 0
        """Since the start."""
        self._began_s = now_s
        # Each (its beginning, its bytes); the last one is being filled.
        self._seconds: deque[tuple[float, int]] = deque()
        self._minutes: deque[tuple[float, int]] = deque()

    def add(self, sent_bytes: int, now_s: float) -> None:
        """Note bytes that are sent now."""
        self.sent_bytes += sent_bytes
        _put(self._seconds, sent_bytes, now_s, 1.0, SPAN_S)
        _put(self._minutes, sent_bytes, now_s, SLOT_S, HOUR_S)

    def kbit_per_s(self, now_s: float) -> float:
        """Give kilobits a second of the last ten seconds, or since the start where that is later."""
        return _rate_bytes_s(self._seconds, now_s, SPAN_S, self._began_s) * 8e-3

    def mb_per_day(self, now_s: float) -> float:
        """Give megabytes a day at the rate of the last hour, or since the start where that is later."""
        return _rate_bytes_s(self._minutes, now_s, HOUR_S, self._began_s) * DAY_S * 1e-6


def _put(
    slots: deque[tuple[float, int]], sent_bytes: int, now_s: float, length_s: float, span_s: float
) -> None:
    begin_s = math.floor(now_s / length_s) * length_s
    if slots and slots[-1][0] == begin_s:
        sent_bytes += slots.pop()[1]
    slots.append((begin_s, sent_bytes))
    while slots[0][0] < begin_s - span_s:
        slots.popleft()


def _rate_bytes_s(slots: deque[tuple[float, int]], now_s: float, span_s: float, began_s: float) -> float:
    total_bytes = sum(sent for begin_s, sent in slots if begin_s > now_s - span_s)
    return total_bytes / max(1.0, min(span_s, now_s - began_s))


def fair_shares(total: float, demands: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Share out a total: nobody gets less than the others per weight while he demands more.

    Args:
        total: what there is; may be infinite.
        demands: what each one wants.
        weights: how much each one counts, above 0.

    Returns:
        What each one may take. Those whose demand is met may take what is left over, too, as far as it goes:
        demands are estimates, and grow.

    """
    if not demands:
        return []
    if math.isinf(total):
        return [math.inf] * len(demands)
    shares = [0.0] * len(demands)
    left, weight_left = total, sum(weights)
    for index in sorted(range(len(demands)), key=lambda at: demands[at] / weights[at]):
        shares[index] = left * weights[index] / weight_left
        left -= min(shares[index], demands[index])
        weight_left -= weights[index]
    return shares
