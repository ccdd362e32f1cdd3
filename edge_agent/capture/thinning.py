"""Which frames to keep so that no more than the wanted rate remain. Pure."""

EARLIEST = 0.45
"""Of a period: how long before its tick a frame may come."""


class Thinner:
    """Keeps the frame nearest to each tick of the wanted rate.

    The ticks lie exactly one period apart while frames come, so the average is exact (25 fps thinned to 10
    gives 10.0), and a frame may come a little before its tick, so that a camera which runs at the wanted
    rate loses none to jitter. What a slow or interrupted camera leaves unused is not made up for.
    """

    def __init__(self, wanted_fps: float) -> None:
        self._wanted_fps = wanted_fps
        self._period_s = 1.0 / wanted_fps
        self._tick_s: float | None = None

    def at_rate(self, wanted_fps: float) -> None:
        """Go over to another rate; a higher one holds at once, whatever the pause was before."""
        if wanted_fps == self._wanted_fps:
            return
        before_s, self._period_s = self._period_s, 1.0 / wanted_fps
        self._wanted_fps = wanted_fps
        if self._tick_s is not None:
            self._tick_s += self._period_s - before_s

    def keep(self, captured_s: float) -> bool:
        """Decide on a frame; times are to be monotone."""
        if self._tick_s is None or captured_s > self._tick_s + (1 - EARLIEST) * self._period_s:
            self._tick_s = captured_s
        if captured_s < self._tick_s - EARLIEST * self._period_s:
            return False
        self._tick_s += self._period_s
        return True
