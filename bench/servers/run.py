"""One run: a fresh server, a checked answer, a load, and what became of both."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.answers import check_published
from bench.load import offer
from bench.servers.variants import Variant, Work
from bench.usage import Usage
from central_server.capacity.load import LoadResult

BOUND_MS = 100.0
FPS = 10.0
PAYLOAD_BYTES = 60_000
# What a run takes beside its load, about: server and load generator start and end.
START_S = 0.9


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of a run.

    Latencies are those of detected frames, from the scheduled instant; `slowest_ms` counts a frame that
    was never answered with the time that it had waited when the run ended. A run that `gave_up` ended with
    its first late or lost frame, and does not know its slowest.
    """

    variant: str
    cameras: int
    due: int
    answered: int
    detected: int
    unanswered: int
    outcomes: Mapping[str, int]
    holds: bool
    average_ms: float
    least_ms: float
    p99_ms: float
    slowest_ms: float
    generator_lag_p99_ms: float
    generator_lag_ms: float
    generator_loop_lag_ms: float
    generator_processor_s: float
    server_processor_s: float
    peak_bytes: int
    proportional_bytes: int
    once_bytes: int
    length_s: float
    errors: tuple[str, ...]
    gave_up: bool

    def to_json(self) -> dict[str, Any]:
        """Give all figures."""
        return asdict(self)


def run(variant: Variant, work: Work, cameras: int, duration_s: float, **load: Any) -> Run:
    """Start a server, see that it answers what all answer, offer it a load, and end it.

    The connections are one a camera, for every variant alike.

    Raises:
        LoadError: the load could not be run.
        RuntimeError: the server does not start, answers something else, or has ended under the load.

    """
    with variant.start(work) as server:
        check_published(server.said, PAYLOAD_BYTES)
        usage = server.usage
        before_s = usage.processor_s()
        result = offer(server, cameras, fps=FPS, duration_s=duration_s, payload_bytes=PAYLOAD_BYTES, **load)
        used_s = usage.processor_s() - before_s
        return summed_up(variant, result, used_s, usage)


def summed_up(variant: Variant, result: LoadResult, used_s: float, usage: Usage) -> Run:
    """Take from a load's result, and from what the server uses at its end, what the tables need."""
    latencies_ms = result.latencies_ms
    lag_ms = result.lag_ms
    return Run(
        variant=variant.name,
        cameras=result.cameras,
        due=result.due,
        answered=result.answered,
        detected=result.detected,
        unanswered=result.unanswered,
        outcomes=dict(result.counts()),
        holds=result.holds(BOUND_MS),
        average_ms=float(latencies_ms.mean()) if len(latencies_ms) else float("nan"),
        least_ms=float(latencies_ms.min()) if len(latencies_ms) else float("nan"),
        p99_ms=result.p99_ms,
        slowest_ms=slowest_ms(result),
        generator_lag_p99_ms=float(np.quantile(lag_ms, 0.99)) if len(lag_ms) else float("nan"),
        generator_lag_ms=float(lag_ms.max()) if len(lag_ms) else float("nan"),
        generator_loop_lag_ms=float(result.loop_lag_ms.max(initial=0.0)),
        generator_processor_s=result.processor_s,
        server_processor_s=used_s,
        peak_bytes=usage.peak_bytes(),
        proportional_bytes=usage.proportional_bytes(),
        once_bytes=usage.once_bytes(),
        length_s=result.length_s,
        errors=tuple(sorted(set(result.errors.values()))),
        gave_up=result.gave_up,
    )


def errors_in_words(runs: Iterable[Run]) -> list[str]:
    """Give a note for each way in which calls ended early, with the runs in which they did."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for one in runs:
        for error in one.errors:
            found[f"calls to {one.variant} ended: {error}"].append(str(one.cameras))
    return [f"{words} (in runs of {', '.join(cameras)} cameras)" for words, cameras in found.items()]


def slowest_ms(result: LoadResult) -> float:
    """Give the longest latency, or the longest that an unanswered frame has waited by the run's end."""
    unanswered = ~np.isfinite(result.answered_s)
    waited_ms = (result.length_s - result.due_s[unanswered]) * 1e3
    return float(max(result.slowest_ms if result.detected else 0.0, waited_ms.max(initial=0.0)))
