"""How long work on a stream's frames takes, by experience."""

# Weights of the newest frame, and how many mean deviations count as still usual: those with which TCP
# estimates its round trips (RFC 6298).
MEAN_GAIN = 1 / 8
DEVIATION_GAIN = 1 / 4
DEVIATIONS = 4
# What each doubt takes off the estimate.
DOUBT = 1 / 8


class WorkTime:
    """An estimate that rises at once with what takes longer, and follows within tens of frames."""

    def __init__(self) -> None:
        self._mean_s = 0.0
        self._deviation_s = 0.0
        self._known = False

    @property
    def usual_s(self) -> float:
        """What nearly every frame stays below, in seconds; 0 before the first."""
        return self._mean_s + DEVIATIONS * self._deviation_s

    def note(self, work_s: float) -> None:
        """Take one frame's time into account."""
        if not self._known:
            self._known = True
            self._mean_s = work_s
            return
        difference_s = work_s - self._mean_s
        self._deviation_s += DEVIATION_GAIN * (abs(difference_s) - self._deviation_s)
        self._mean_s += MEAN_GAIN * difference_s

    def doubt(self) -> None:
        """Lower the estimate, after a frame that was not tried: only trying tells whether it still holds."""
        self._mean_s *= 1 - DOUBT
        self._deviation_s *= 1 - DOUBT
