"""When a picture was taken, by this machine's monotonic clock. Pure."""

import math

WINDOW_S = 10.0
LONGEST_DELAY_S = 5.0


class PresentationClock:
    """Maps a stream's presentation times to the monotonic clock.

    The distance between the two clocks is the least that any packet of the last 10 to 20 seconds needed
    from its presentation time to its arrival: what arrives later than that was under way for longer. So the
    time of a frame follows its presentation time through jitter and reordering, and a frame that the
    network held back is known to be old. A distance that moves by more than 5 s, or timestamps that start
    again, begin a new reckoning. Times never go back and never lie in the future.
    """

    def __init__(self) -> None:
        self._distance_s = math.inf
        self._distance_before_s = math.inf
        self._window_ends_s = -math.inf
        self._latest_s = -math.inf

    def restart(self) -> None:
        """Forget the presentation times of a connection that has ended."""
        self._distance_s = self._distance_before_s = math.inf
        self._window_ends_s = -math.inf

    def arrived(self, presentation_s: float | None, arrived_s: float) -> None:
        """Note a packet, in the order of arrival."""
        if presentation_s is None:
            return
        distance_s = arrived_s - presentation_s
        if arrived_s >= self._window_ends_s:
            self._distance_before_s, self._distance_s = self._distance_s, math.inf
            self._window_ends_s = arrived_s + WINDOW_S
        if abs(distance_s - self._least_s()) > LONGEST_DELAY_S:
            self._distance_before_s = math.inf
            self._distance_s = distance_s
        self._distance_s = min(self._distance_s, distance_s)

    def captured_s(self, presentation_s: float | None, now_s: float) -> float:
        """Give the time of a picture that is ready now; without a presentation time that is now."""
        time_s = now_s
        if presentation_s is not None and math.isfinite(self._least_s()):
            time_s = min(now_s, presentation_s + self._least_s())
        self._latest_s = max(self._latest_s, time_s)
        return self._latest_s

    def _least_s(self) -> float:
        return min(self._distance_s, self._distance_before_s)
