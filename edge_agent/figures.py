"""What a camera's answers come to: rate, latencies and what is seen, over the last seconds. Pure."""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from edge_agent.result import Result

SPAN_S = 5.0
MOST_SEEN = 5


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one camera, at one moment."""

    fps: float = 0.0
    """Answered frames a second."""
    latency_p50_ms: float | None = None
    """From capture to answer; None where nothing was answered."""
    latency_p99_ms: float | None = None
    sees: dict[str, int] = field(default_factory=dict)
    """Objects in the last answered frame, by label."""


class CameraFigures:
    """Takes a camera's results; gives its figures."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent: deque[tuple[float, Result]] = deque(maxlen=1000)

    def add(self, result: Result) -> None:
        """Note a result."""
        if result.answer.outcome == "detected":
            self._recent.append((self._clock(), result))

    def now(self) -> Figures:
        """Give the figures at this moment."""
        now_s = self._clock()
        while self._recent and now_s - self._recent[0][0] > SPAN_S:
            self._recent.popleft()
        if not self._recent:
            return Figures()
        latencies = sorted(result.latency_ms for _, result in self._recent)
        seen = Counter(item.label for item in self._recent[-1][1].answer.objects)
        return Figures(
            fps=len(latencies) / max(now_s - self._recent[0][0], 1.0),
            latency_p50_ms=percentile(latencies, 0.50),
            latency_p99_ms=percentile(latencies, 0.99),
            sees=dict(seen.most_common(MOST_SEEN)),
        )


def percentile(ascending: list[float], fraction: float) -> float:
    """Give the smallest value that at least this fraction of the values does not exceed."""
    index = max(0, -int(-fraction * len(ascending) // 1) - 1)
    return ascending[index]
