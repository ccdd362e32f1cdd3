"""What each server costs: processor time a frame, memory, memory a stream."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.answers import check_published
from bench.load import offer
from bench.progress import Steps
from bench.report import Report, ratio, spread
from bench.servers.run import FPS, PAYLOAD_BYTES, START_S, Run, errors_in_words, run
from bench.servers.variants import ASYNC_CPP, CENTRAL, Variant, Work

NO_WORK = Work(0)
# A load that all of them hold.
CAMERAS = 10
ROUNDS = 3
DURATION_S, QUICK_DURATION_S = 4.0, 2.0
MOST_RATIO = 2.2
AIMED_RATIO = 1.5
FEW_STREAMS, MANY_STREAMS = 10, 100
SLOW_FPS, SLOW_DURATION_S = 1.0, 3.0


@dataclass
class Costs:
    """Figures of each variant, one a round."""

    processor_ms: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    peak_mb: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    proportional_mb: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    once_mb: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    stream_kb: dict[str, str] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)


def estimate_s(variants: Sequence[Variant], *, quick: bool) -> float:
    """Give about how long it takes."""
    if quick:
        return len(variants) * (QUICK_DURATION_S + START_S)
    # Slow streams begin spread over their period.
    streams_s = SLOW_DURATION_S + 1 / SLOW_FPS + START_S
    return len(variants) * (ROUNDS * (DURATION_S + START_S) + 2 * streams_s)


def measure(variants: Sequence[Variant], steps: Steps, *, quick: bool) -> Report:
    """Measure in rounds in which the servers take turns."""
    rounds, duration_s = (1, QUICK_DURATION_S) if quick else (ROUNDS, DURATION_S)
    costs = Costs()
    for number in range(1, rounds + 1):
        for variant in variants:
            steps.begin(f"cost, round {number} of {rounds}: {variant.title}")
            _measure_frames(costs, variant, duration_s)
    if not quick:
        for variant in variants:
            steps.begin(f"memory a stream: {variant.title}")
            costs.stream_kb[variant.name] = _measure_streams(variant)
    return _report(costs, variants, duration_s, rounds)


def _measure_frames(costs: Costs, variant: Variant, duration_s: float) -> None:
    found = run(variant, NO_WORK, CAMERAS, duration_s)
    if not found.answered:
        raise RuntimeError(f"{variant.title}: found no answer to {found.due} frames: {found.errors}")
    costs.processor_ms[variant.name].append(found.server_processor_s * 1e3 / found.answered)
    costs.peak_mb[variant.name].append(found.peak_bytes / 1e6)
    costs.proportional_mb[variant.name].append(found.proportional_bytes / 1e6)
    costs.once_mb[variant.name].append(found.once_bytes / 1e6)
    costs.runs.append(found)


def _measure_streams(variant: Variant) -> str:
    """Give the kilobytes of resident memory that a stream adds to a server."""
    many = min(MANY_STREAMS, variant.most_streams)
    before, after = (_size_with_streams(variant, streams) for streams in (FEW_STREAMS, many))
    return f"{(after - before) / (many - FEW_STREAMS) / 1e3:,.0f} (of {many})"


def _size_with_streams(variant: Variant, streams: int) -> int:
    """Give the most resident memory of a fresh server that has so many slow streams."""
    with variant.start(NO_WORK) as server:
        check_published(server.said, PAYLOAD_BYTES)
        offer(server, streams, fps=SLOW_FPS, duration_s=SLOW_DURATION_S, payload_bytes=PAYLOAD_BYTES)
        return server.usage.peak_bytes()


def _report(costs: Costs, variants: Sequence[Variant], duration_s: float, rounds: int) -> Report:
    table = Report(
        f"cost of a frame without work: {CAMERAS} cameras, {FPS:g} fps, {PAYLOAD_BYTES:,} bytes, "
        f"{duration_s:g} s",
        (
            "server",
            "processor ms a frame",
            "of single runs",
            "peak MB (RSS)",
            "MB (PSS)",
            "MB, shared once",
            "kB a stream",
        ),
        notes=[
            "processor time: user and system of the server, with the processes it started, over frames "
            f"answered; medians of {rounds}, runs take turns between the servers",
            "memory is the sum over its processes. RSS counts a page in each process that has it; PSS in "
            "parts, also of what bench and load generator share, which are Python, too; the last counts "
            "once what the server's own processes share",
            f"kB a stream: most RSS, from {FEW_STREAMS} to {MANY_STREAMS} streams with a frame of "
            f"{PAYLOAD_BYTES:,} bytes a second, each stream on a connection of its own, each time a fresh "
            "server (sync Python: as many as its pool serves)",
        ],
        runs=[one.to_json() for one in costs.runs],
    )
    lost: Counter[str] = Counter()
    for one in costs.runs:
        lost.update({f"{one.variant} {words}": n for words, n in one.outcomes.items() if words != "detected"})
    table.notes += [f"frames that were not detected: {dict(lost) or 'none'}", *errors_in_words(costs.runs)]
    for variant in variants:
        processor_ms = costs.processor_ms[variant.name]
        table.add(
            variant.title,
            float(np.median(processor_ms)),
            spread(processor_ms),
            float(np.median(costs.peak_mb[variant.name])),
            float(np.median(costs.proportional_mb[variant.name])),
            float(np.median(costs.once_mb[variant.name])),
            costs.stream_kb.get(variant.name, "-"),
        )
    ours, theirs = costs.processor_ms[CENTRAL.name], costs.processor_ms[ASYNC_CPP.name]
    if ours and theirs:
        what = f"processor time a frame, central server / {ASYNC_CPP.title}"
        table.targets.append(ratio(what, ours, theirs, "<=", MOST_RATIO))
        table.targets.append(ratio(f"{what} (the aim)", ours, theirs, "<=", AIMED_RATIO))
    return table
