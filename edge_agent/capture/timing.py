"""When a picture was taken, by this machine's monotonic clock. Pure."""

import math
from bisect import bisect_left, insort
from collections import deque
from itertools import pairwise

WINDOW_S = 10.0
MOST_PACKETS = 256
EARLY_SHARE = 10
"""One packet in so many may be earlier than usual: a stream's first one often is."""
LONGEST_DELAY_S = 5.0
LONGEST_REORDERING_S = 1.0
PIECE_S = 2.0
PIECES = 5
"""A distance that grows from each piece of time to the next, so many in a row, is a clock that runs slow."""
LEAST_DRIFT = 0.01
"""Seconds a second: less is jitter, and a camera's crystal."""


class PresentationClock:
    """Maps a stream's presentation times to the monotonic clock.

    The distance between the two clocks is what the quickest tenth of the packets of the last ten seconds
    needed from its presentation time to its arrival: what arrives later was under way for longer. So the
    time of a frame follows its presentation time through jitter and reordering, and a frame that the network
    held back is known to be old. A distance that moves by more than 5 s begins a new reckoning, and so do
    timestamps that fall back by more than reordering explains. Cameras that count pictures instead of time
    (25 a second, while the night's exposure leaves 15) have a clock that runs slow: a distance that grows
    steadily is followed. Times never go back and never lie in the future.
    """

    def __init__(self) -> None:
        self._arrivals: deque[tuple[float, float]] = deque()
        self._distances_s: list[float] = []
        """Those of the arrivals, in order of size."""
        self._distance_s = math.inf
        self._latest_presentation_s = -math.inf
        self._latest_s = -math.inf
        # Each (the first arrival in it, the least distance); the last one is going on.
        self._pieces: deque[tuple[float, float]] = deque()
        self._drift = 0.0

    def restart(self) -> None:
        """Forget the presentation times of a connection that has ended."""
        self._reckon_anew()
        self._pieces.clear()
        self._drift = 0.0

    def _reckon_anew(self) -> None:
        self._arrivals.clear()
        self._distances_s.clear()
        self._distance_s = math.inf
        self._latest_presentation_s = -math.inf

    def arrived(self, presentation_s: float | None, arrived_s: float) -> None:
        """Note a packet, in the order of arrival."""
        if presentation_s is None:
            return
        distance_s = arrived_s - presentation_s
        fell_back = presentation_s < self._latest_presentation_s - LONGEST_REORDERING_S
        if fell_back or abs(distance_s - self._distance_s) > LONGEST_DELAY_S:
            self._reckon_anew()
        self._note_drift(distance_s, arrived_s)
        self._latest_presentation_s = max(self._latest_presentation_s, presentation_s)
        while self._arrivals and (
            self._arrivals[0][0] < arrived_s - WINDOW_S or len(self._arrivals) >= MOST_PACKETS
        ):
            _, gone_s = self._arrivals.popleft()
            del self._distances_s[bisect_left(self._distances_s, gone_s)]
        self._arrivals.append((arrived_s, distance_s))
        insort(self._distances_s, distance_s)
        self._distance_s = self._distances_s[len(self._distances_s) // EARLY_SHARE]
        if self._drift:  # the quickest are the oldest then
            self._distance_s += self._drift * (1 - 1 / EARLY_SHARE) * (arrived_s - self._arrivals[0][0])

    def _note_drift(self, distance_s: float, arrived_s: float) -> None:
        """Look whether the distance grows steadily, at each end of a piece."""
        pieces = self._pieces
        if pieces and arrived_s - pieces[-1][0] < PIECE_S:
            pieces[-1] = pieces[-1][0], min(pieces[-1][1], distance_s)
            return
        if len(pieces) > PIECES:
            pieces.popleft()
        growths = [(later[1] - before[1]) / (later[0] - before[0]) for before, later in pairwise(pieces)]
        drift = min(growths) if len(pieces) == PIECES else 0.0
        self._drift = drift if drift >= LEAST_DRIFT else 0.0
        pieces.append((arrived_s, distance_s))

    def captured_s(self, presentation_s: float | None, now_s: float) -> float:
        """Give the time of a picture that is ready now; without a presentation time that is now."""
        time_s = now_s if presentation_s is None else min(now_s, presentation_s + self._distance_s)
        self._latest_s = max(self._latest_s, time_s)
        return self._latest_s
