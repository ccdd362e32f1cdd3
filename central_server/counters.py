"""Frames counted by camera and outcome, bounded however many names clients make up."""

from collections import Counter

from central_server.frame import Outcome

MAX_CAMERAS = 10_000
OTHERS = "(others)"


class FrameCounters:
    """How many frames of each camera had which outcome, since the start."""

    def __init__(self) -> None:
        self._cameras: dict[str, Counter[Outcome]] = {}

    def count(self, camera_id: str, outcome: Outcome) -> None:
        """Count one frame; cameras beyond MAX_CAMERAS are counted together."""
        counts = self._cameras.get(camera_id)
        if counts is None:
            name = camera_id if len(self._cameras) < MAX_CAMERAS else OTHERS
            counts = self._cameras.setdefault(name, Counter())
        counts[outcome] += 1

    def of_camera(self, camera_id: str) -> Counter[Outcome]:
        """Give one camera's counts."""
        return Counter(self._cameras.get(camera_id, Counter()))

    def total(self) -> Counter[Outcome]:
        """Give the counts of all cameras together."""
        return sum(self._cameras.values(), Counter())


def in_words(counts: Counter[Outcome]) -> str:
    """Write counts for a log line, e.g. ``detected 40, stale 2``; ``no frames`` when empty."""
    return (
        ", ".join(f"{outcome.words} {counts[outcome]}" for outcome in Outcome if counts[outcome])
        or "no frames"
    )
