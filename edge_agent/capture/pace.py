"""Playing a file at its own pace."""

from collections.abc import Callable

LATEST_S = 0.5
USUAL_INTERVAL_S = 0.04
"""For pictures without a presentation time."""


class FilePace:
    """Holds each picture back until it is due, by presentation times and the monotonic clock.

    A reader that falls behind by more than half a second goes on from there instead of hurrying. Played again
    from its start, a file goes on one picture's interval after its last. `wait` sleeps the seconds it is
    given, or less when the capture is to stop.
    """

    def __init__(self, wait: Callable[[float], object]) -> None:
        self._wait = wait
        self._zero_s: float | None = None
        self._latest_s: float | None = None
        self._interval_s = USUAL_INTERVAL_S

    def restart(self) -> None:
        """Begin the file again."""
        self._zero_s = None

    def arrived(self, presentation_s: float | None, arrived_s: float) -> None:
        """Take no notice: a file's packets are there before they are due."""

    def captured_s(self, presentation_s: float | None, now_s: float) -> float:
        """Wait until the picture is due, and give that instant."""
        next_s = now_s if self._latest_s is None else self._latest_s + self._interval_s
        if presentation_s is None:
            due_s = next_s
        else:
            if self._zero_s is None:
                self._zero_s = next_s - presentation_s
            due_s = self._zero_s + presentation_s
        if now_s - due_s > LATEST_S:
            self._zero_s = None if presentation_s is None else now_s - presentation_s
            due_s = now_s
        if self._latest_s is not None:
            due_s = max(due_s, self._latest_s)
            self._interval_s = due_s - self._latest_s or self._interval_s
        self._latest_s = due_s
        if due_s > now_s:
            self._wait(due_s - now_s)
        return due_s
