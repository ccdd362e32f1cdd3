"""The published table again: thirty cameras, work by the wall clock, every answer waited for."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from bench.progress import Steps
from bench.report import Figure, Report, spread
from bench.servers.run import BOUND_MS, FPS, PAYLOAD_BYTES, START_S, Run, errors_in_words, run
from bench.servers.variants import (
    ASYNC_CPP,
    ASYNC_CPP_DOUBLE,
    ASYNCIO_PYTHON,
    CENTRAL,
    CORES,
    SYNC_PYTHON,
    Variant,
    Work,
)

CAMERAS = 30
WORK = Work(5, by_wall_clock=True)
START_PAUSE_MS = 50.0
ROUNDS = 3
# These are compared with each other: they run in every round, the others once.
EVERY_ROUND = (CENTRAL.name, ASYNC_CPP.name, ASYNC_CPP_DOUBLE.name)
DURATION_S, QUICK_DURATION_S = 10.0, 2.0
GRACE_S, QUICK_GRACE_S = 180.0, 10.0
# What a server that falls behind takes beyond the load, where it was seen: less than its length.
BEHIND_S = 8.0
# Average, least and slowest in milliseconds, on this many cores.
PUBLISHED_CORES = 16
PUBLISHED: dict[str, tuple[float, float, float]] = {
    SYNC_PYTHON.name: (63_823, 25, 127_814),
    ASYNCIO_PYTHON.name: (45_679, 15, 90_461),
    ASYNC_CPP.name: (13.2, 5.6, 71.6),
}
COLUMNS = (
    "server",
    "avg ms",
    "min ms",
    "max ms",
    "max of single runs",
    "detected of due",
    f"all within {BOUND_MS:g} ms",
    f"published, {PUBLISHED_CORES} cores: avg, min, max",
)


def estimate_s(variants: Sequence[Variant], *, quick: bool) -> float:
    """Give about how long it takes."""
    if quick:
        return len(variants) * (QUICK_DURATION_S + START_S)
    runs = sum(len(_of_round(variants, number)) for number in range(1, ROUNDS + 1))
    behind = sum(variant in (SYNC_PYTHON, ASYNCIO_PYTHON) for variant in variants)
    return runs * (DURATION_S + START_S) + behind * BEHIND_S


def _of_round(variants: Sequence[Variant], number: int) -> list[Variant]:
    return [variant for variant in variants if number == 1 or variant.name in EVERY_ROUND]


def measure(variants: Sequence[Variant], steps: Steps, *, quick: bool) -> Report:
    """Run the published load on each server, in rounds in which they take turns."""
    rounds, duration_s, grace_s = (
        (1, QUICK_DURATION_S, QUICK_GRACE_S) if quick else (ROUNDS, DURATION_S, GRACE_S)
    )
    report = Report(
        f"as published: {CAMERAS} cameras, {FPS:g} fps, {duration_s:g} s, "
        f"{WORK.work_ms:g} ms by the wall clock",
        COLUMNS,
        notes=[
            f"here {CORES} cores carry server and load generator; the published figures are of "
            f"{PUBLISHED_CORES} cores and 10 s",
            f"frames of {PAYLOAD_BYTES:,} bytes: the published size is not known",
            f"cameras start in tens, {START_PAUSE_MS:g} ms apart; latency from the scheduled instant to the "
            f"answer; answers are waited for up to {grace_s:g} s after the last frame",
            "avg, min and max are of detected frames, medians of the runs of a server; the central server "
            "answers at once what it cannot serve in time (`superseded`, `stale`), and those frames are in "
            "none of the three; the others queue and detect all, so that a frame which waits is in their max",
            "a spin by the wall clock ends also while others have the core: surplus threads 'hold' more "
            "than the cores can, which is why capacity is measured by processor time",
        ],
    )
    runs: defaultdict[str, list[Run]] = defaultdict(list)
    for number in range(1, rounds + 1):
        for variant in _of_round(variants, number):
            steps.begin(f"as published, round {number} of {rounds}: {variant.title}")
            found = run(variant, WORK, CAMERAS, duration_s, start_pause_ms=START_PAUSE_MS, grace_s=grace_s)
            runs[variant.name].append(found)
            steps.note(f"{variant.title}: avg {found.average_ms:,.1f}, max {found.slowest_ms:,.1f} ms")
    every = [one for of_variant in runs.values() for one in of_variant]
    report.runs = [one.to_json() for one in every]
    for variant in variants:
        report.add(*_row(variant, runs[variant.name]))
        report.notes += _lost_in_words(variant, runs[variant.name])
    lags_ms = ", ".join(f"{one.variant} {one.generator_lag_ms:.1f}" for one in every)
    report.notes += [f"the load generator's own worst lag, ms: {lags_ms}", *errors_in_words(every)]
    return report


def _row(variant: Variant, runs: Sequence[Run]) -> tuple[Figure, ...]:
    published = PUBLISHED.get(variant.name)
    slowest_ms = [one.slowest_ms for one in runs]
    return (
        variant.title,
        float(np.median([one.average_ms for one in runs])),
        float(np.median([one.least_ms for one in runs])),
        float(np.median(slowest_ms)),
        spread(slowest_ms) if len(runs) > 1 else "one run",
        f"{sum(one.detected for one in runs) / sum(one.due for one in runs):.1%}",
        f"{sum(one.holds for one in runs)} of {len(runs)}",
        "-" if published is None else ", ".join(f"{figure:,g}" for figure in published),
    )


def _lost_in_words(variant: Variant, runs: Sequence[Run]) -> list[str]:
    lost: Counter[str] = Counter()
    for one in runs:
        lost.update({words: count for words, count in one.outcomes.items() if words != "detected"})
    in_words = ", ".join(f"{words} {count}" for words, count in lost.most_common())
    return [f"not detected, {variant.title}: {in_words}"] if lost else []
