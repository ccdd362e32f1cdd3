"""Twice the cameras that fit, and one quiet stream beside ten greedy ones."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench import programs
from bench.answers import check_published
from bench.load import offer
from bench.progress import Steps
from bench.report import Report, Target, ratio
from bench.servers.capacity import LIMIT, WORK
from bench.servers.run import BOUND_MS, FPS, PAYLOAD_BYTES
from bench.servers.search import Search
from central_server.capacity.load import LoadResult

ROUNDS = 3
MOST_UNFAIR = 1.2
LEAST_THROUGHPUT = 0.95
GREEDY_STREAMS = 10
QUIET_FPS = 0.2
QUIET = GREEDY_STREAMS
# Where the search for the capacity begins, as parts of what the cores could do alone.
LIKELY = (0.75, 0.9)


def measure(*, quick: bool, capacity: int | None = None, max_age_ms: int = int(BOUND_MS)) -> Iterator[Report]:
    """Find the capacity unless it is given, then offer it and twice as much in turn."""
    rounds, duration_s = (1, 5.0) if quick else (ROUNDS, 20.0)
    report = Report(
        f"overload: simulated:{WORK.work_ms:g}, {PAYLOAD_BYTES:,} bytes a frame, maximum age {max_age_ms} ms",
        ("load", "cameras", "detected/s", "p99 ms", "slowest ms", "max/min of a stream", "outcomes"),
    )
    with Steps() as steps:
        if capacity is None:
            capacity = _find_capacity(steps, quick=quick)
            report.notes.append(f"capacity: {capacity} cameras at {FPS:g} fps, searched in this run")
        else:
            report.notes.append(f"capacity: {capacity} cameras at {FPS:g} fps, as told")
        loads = {"all that fit": (capacity, None), "twice that": (2 * capacity, max_age_ms)}
        results: defaultdict[str, list[LoadResult]] = defaultdict(list)
        for number in range(1, rounds + 1):
            for name, (cameras, age_ms) in loads.items():
                steps.begin(f"round {number} of {rounds}: {name}, {cameras} cameras")
                result = _offer(cameras=cameras, fps=FPS, duration_s=duration_s, max_age_ms=age_ms)
                results[name].append(result)
                report.add(name, cameras, *_cells(result, duration_s))
                report.runs.append({"load": name, **result.summary()})
        _judge_overload(report, results["all that fit"], results["twice that"], duration_s)
    yield report
    yield _measure_quiet(rounds, 15.0 if quick else 25.0)


def _find_capacity(steps: Steps, *, quick: bool) -> int:
    low, high = (round(part * LIMIT) for part in LIKELY)
    search = Search(low, high, runs=1, needed=1) if quick else Search(low, high)
    while (level := search.next_level) is not None:
        steps.begin(f"capacity: {level} cameras")
        # How late the latest would be does not matter here: the first that is late ends the run.
        result = _offer(
            cameras=level, fps=FPS, duration_s=3.0 if quick else 10.0, max_age_ms=None, give_up_ms=BOUND_MS
        )
        search.tell(level, result.holds(BOUND_MS))
        steps.note(f"{level} cameras: {'holds' if result.holds(BOUND_MS) else 'does not hold'}")
    return search.capacity


def _offer(**load: Any) -> LoadResult:
    """Offer a load to a fresh server."""
    with programs.server("--detector", WORK.detector) as server:
        check_published(server.said, PAYLOAD_BYTES)
        return offer(server, payload_bytes=PAYLOAD_BYTES, **load)


def _cells(result: LoadResult, duration_s: float) -> tuple[float | str, ...]:
    outcomes = ", ".join(f"{words} {count}" for words, count in result.counts().most_common())
    return (
        result.detected / duration_s,
        result.p99_ms,
        result.slowest_ms,
        _unfairness(result),
        outcomes,
    )


def _unfairness(result: LoadResult) -> float:
    """Give the most frames of a stream that were detected over the least; infinite if one has none."""
    detected = result.detected_of_cameras()
    return float(detected.max() / detected.min()) if detected.min() else float("inf")


def _judge_overload(
    report: Report, fitting: list[LoadResult], twice: list[LoadResult], duration_s: float
) -> None:
    unfairness = [_unfairness(result) for result in twice]
    p99_ms = [result.p99_ms for result in twice]
    report.targets += [
        _median("max/min detected of a stream, twice the cameras", unfairness, MOST_UNFAIR),
        _median("p99 of detected frames, twice the cameras, ms", p99_ms, BOUND_MS),
        ratio(
            "detected frames a second, twice the cameras / all that fit",
            [result.detected / duration_s for result in twice],
            [result.detected / duration_s for result in fitting],
            ">=",
            LEAST_THROUGHPUT,
        ),
        # Each frame has its answer, and so its place in the counts.
        Target("frames without any answer", sum(result.unanswered for result in twice), "<=", 0),
    ]
    shares = [
        f"{np.median([result.processor_s / result.length_s for result in results]):.2f}"
        for results in (fitting, twice)
    ]
    lag_ms = max(float(result.lag_ms.max()) for result in (*fitting, *twice))
    report.notes.append(
        f"the load generator took {shares[0]} and {shares[1]} cores of the same machine, and its own worst "
        f"lag was {lag_ms:.1f} ms"
    )


def _median(what: str, values: list[float], most: float) -> Target:
    return Target(what, float(np.median(values)), "<=", most, (min(values), max(values)))


def _measure_quiet(rounds: int, duration_s: float) -> Report:
    """Offer twice what the cores can do by ten streams, and a frame in five seconds by an eleventh."""
    greedy_fps = 2 * LIMIT * FPS / GREEDY_STREAMS
    report = Report(
        f"a stream with a frame in {1 / QUIET_FPS:g} s beside {GREEDY_STREAMS} of {greedy_fps:g} fps, "
        f"{duration_s:g} s, maximum age {BOUND_MS:g} ms",
        ("run", "quiet: slowest ms", "quiet: outcomes", "greedy: outcomes"),
    )
    slowest_ms, shares = [], []
    with Steps() as steps:
        for number in range(1, rounds + 1):
            steps.begin(f"round {number} of {rounds}: one quiet stream beside ten greedy ones")
            result = _offer(
                cameras=GREEDY_STREAMS + 1,
                fps_of_camera=(*[greedy_fps] * GREEDY_STREAMS, QUIET_FPS),
                duration_s=duration_s,
                max_age_ms=int(BOUND_MS),
            )
            mine = result.camera == QUIET
            waits_ms = (result.answered_s[mine] - result.due_s[mine]) * 1e3
            counts = result.counts(QUIET)
            slowest_ms.append(float(np.nan_to_num(waits_ms, nan=np.inf).max()))
            shares.append(counts["detected"] / counts.total())
            report.add(number, slowest_ms[-1], _in_words(counts), _in_words(result.counts() - counts))
            report.runs.append({"load": "one quiet stream", **result.summary(), "quiet": dict(counts)})
    report.targets += [
        Target("quiet stream: share of its frames detected, least of the runs", min(shares), ">=", 1.0),
        _median("quiet stream: slowest answer, ms", slowest_ms, BOUND_MS),
    ]
    return report


def _in_words(counts: Counter[str]) -> str:
    return ", ".join(f"{words} {count}" for words, count in counts.most_common())
