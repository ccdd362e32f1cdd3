"""What the uplink carries, learned from frames and their answers. Pure."""

import math
from collections.abc import Hashable
from dataclasses import dataclass

LATE_S = 0.2
"""A frame that was this much longer on its way than a short message has waited in a queue of the uplink."""
# An answer is overdue after so many times the usual, and so long.
OVERDUE = 3.0
OVERDUE_S = 0.03
# Silence for longer is an outage, from which nothing is learned of the throughput before and after.
OUTAGE_S = 3.0
# The weight of what was seen before, at each answer, and for each such period without one.
BEFORE = 0.6
BEFORE_PERIOD_S = 0.5
# Without a queue for so long there may be room for more than was seen: so much more a second, at most.
PATIENCE_S = 2.0
GROWTH_A_S = 1.2
MOST_GROWTH = 2.0
BOUNDLESS_BYTES_S = 125e6
LEAST_SERVICE_S = 1e-3


@dataclass(slots=True)
class _Sent:
    size_bytes: int
    sent_s: float
    is_overtaken: bool = False


class Throughput:
    """Estimates the bytes a second of the uplink, for all cameras of one channel together.

    A frame's way takes the time of the uplink for its bytes, after those before it, and what a short message
    takes there and back. So the uplink was busy with it from when the one before had arrived, or when it was
    sent, until its answer came, less the server's own time, which answers tell. Bytes over busy time are the
    throughput, in whatever order frames of several calls share the uplink. A frame that was overtaken by a
    later one's answer is with the server, which is why it counts as arrived.
    """

    def __init__(self) -> None:
        self._in_flight: dict[Hashable, _Sent] = {}
        self.bytes_in_flight = 0
        """On the way, as far as is known."""
        self._round_trip_s: float | None = None
        self._server_s = 0.0
        self._service_s = 0.0
        self._arrived_s = self._answered_s = -math.inf
        self._bytes = 0.0
        self._busy_s = 0.0
        self._limit_bytes_s: float | None = None
        self._late_s = -math.inf
        self._grown_s = -math.inf

    @property
    def round_trip_s(self) -> float:
        """What a short message takes there and back; 0 while unknown."""
        return self._round_trip_s or 0.0

    def short_message(self, took_s: float) -> None:
        """Note how long a message of few bytes took there and back."""
        if self._round_trip_s is None or took_s < self._round_trip_s:
            self._round_trip_s = took_s

    def sent(self, key: Hashable, size_bytes: int, now_s: float, *, is_doubtful: bool = False) -> None:
        """Note a frame that goes on its way; from one that may never be answered nothing is learned."""
        self._in_flight[key] = _Sent(size_bytes, now_s, is_doubtful)
        if not is_doubtful:
            self.bytes_in_flight += size_bytes

    def lost(self, key: Hashable) -> None:
        """Note that there will be no answer to a frame."""
        sent = self._in_flight.pop(key, None)
        if sent is not None and not sent.is_overtaken:
            self.bytes_in_flight -= sent.size_bytes

    def answered(self, key: Hashable, server_s: float, now_s: float) -> None:
        """Note an answer, and how long the server had the frame; one that was never sent is ignored."""
        sent = self._in_flight.pop(key, None)
        if sent is None:
            return
        self._server_s = max(server_s, 0.9 * self._server_s)
        arrived_s = max(now_s - server_s, sent.sent_s)
        self.short_message(arrived_s - sent.sent_s)
        arrived_bytes = self._overtake(sent)
        busy_from_s = max(self._arrived_s, sent.sent_s + self.round_trip_s)
        if arrived_bytes:
            service_s = min(max(arrived_s - busy_from_s, LEAST_SERVICE_S), OUTAGE_S)
            before = BEFORE ** max(1.0, (now_s - self._answered_s) / BEFORE_PERIOD_S)
            self._bytes = before * self._bytes + arrived_bytes
            self._busy_s = before * self._busy_s + service_s
            self._answered_s = now_s
            self._service_s = max(service_s, 0.9 * self._service_s)
        self._arrived_s = max(self._arrived_s, arrived_s)
        if self._busy_s:
            self._judge(arrived_s - sent.sent_s - self.round_trip_s >= LATE_S, now_s)

    def bytes_s(self, now_s: float) -> float | None:
        """Give what the uplink carries at this moment, or None while nothing is known."""
        if not self._busy_s:
            return None
        return min(self._limit_bytes_s or self._bytes / self._busy_s, self._at_most_bytes_s(now_s))

    def limit_bytes_s(self, now_s: float) -> float:
        """Give the bytes a second beyond which a queue builds up; infinite while none was seen."""
        at_most = self._at_most_bytes_s(now_s)
        if at_most < (self._limit_bytes_s or math.inf):
            return at_most
        return self._limit_bytes_s or math.inf

    def way_s(self, more_bytes: int, now_s: float) -> float | None:
        """Give how long so many bytes more would take to arrive; None while nothing is known.

        Where no queue was seen, bytes wait for no others.

        Nothing is, either, when the next answer is longer in coming than is usual: whatever the uplink
        carried so far, it may be another one now, and what is sent meanwhile would queue up.
        """
        bytes_s = self.bytes_s(now_s)
        if bytes_s is None or self._silent_s(now_s) > OVERDUE * self._service_s + OVERDUE_S:
            return None
        queue_s = (self.bytes_in_flight + more_bytes) / bytes_s if self._limit_bytes_s else 0.0
        return queue_s + self.round_trip_s / 2

    def _overtake(self, answered: _Sent) -> int:
        """Take what was sent before an answered frame for arrived; gives the bytes, with its own."""
        arrived_bytes = 0 if answered.is_overtaken else answered.size_bytes
        for other in self._in_flight.values():
            if other.sent_s >= answered.sent_s:
                break
            if not other.is_overtaken:
                other.is_overtaken = True
                arrived_bytes += other.size_bytes
        self.bytes_in_flight -= arrived_bytes
        return arrived_bytes

    def _judge(self, is_late: bool, now_s: float) -> None:
        seen_bytes_s = self._bytes / self._busy_s
        if is_late:
            self._limit_bytes_s = seen_bytes_s
            self._late_s = self._grown_s = now_s
        elif self._limit_bytes_s is not None:
            limit_bytes_s = self._limit_bytes_s
            if now_s - self._late_s >= PATIENCE_S:
                limit_bytes_s *= GROWTH_A_S ** (now_s - max(self._grown_s, self._late_s + PATIENCE_S))
                self._grown_s = now_s
            limit_bytes_s = max(min(limit_bytes_s, MOST_GROWTH * seen_bytes_s), seen_bytes_s)
            self._limit_bytes_s = limit_bytes_s if limit_bytes_s < BOUNDLESS_BYTES_S else None

    def _at_most_bytes_s(self, now_s: float) -> float:
        """Give what the uplink can carry at most, seeing how long nothing has come: infinite if not long."""
        silent_s = self._silent_s(now_s)
        return self.bytes_in_flight / min(silent_s, OUTAGE_S) if silent_s >= LATE_S else math.inf

    def _silent_s(self, now_s: float) -> float:
        """Give for how long the uplink has been busy with nothing heard; below 0 where it need not be."""
        first_s = next((sent.sent_s for sent in self._in_flight.values() if not sent.is_overtaken), None)
        if first_s is None:
            return -math.inf
        return now_s - max(self._arrived_s, first_s + self.round_trip_s) - self._server_s
