"""The published table again: thirty cameras, work by the wall clock, every answer waited for."""

from collections.abc import Sequence

from bench.progress import Steps
from bench.report import Figure, Report
from bench.servers.run import BOUND_MS, FPS, PAYLOAD_BYTES, Run, run
from bench.servers.variants import (
    ASYNC_CPP,
    ASYNCIO_PYTHON,
    CORES,
    SYNC_PYTHON,
    Variant,
    Work,
)

CAMERAS = 30
WORK = Work(5, by_wall_clock=True)
START_PAUSE_MS = 50.0
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
    "frames",
    f"all within {BOUND_MS:g} ms",
    f"published, {PUBLISHED_CORES} cores: avg, min, max",
)


def measure(variants: Sequence[Variant], steps: Steps, *, quick: bool) -> Report:
    """Run the published load once on each server."""
    duration_s, grace_s = (2.0, 10.0) if quick else (10.0, 180.0)
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
            "a spin by the wall clock ends also while others have the core: surplus threads 'hold' more "
            "than the cores can, which is why capacity is measured by processor time",
        ],
    )
    for variant in variants:
        steps.begin(f"as published: {variant.title}")
        found = run(variant, WORK, CAMERAS, duration_s, start_pause_ms=START_PAUSE_MS, grace_s=grace_s)
        report.add(*_row(variant, found))
        report.runs.append(found.to_json())
        steps.note(f"{variant.title}: avg {found.average_ms:,.1f}, max {found.slowest_ms:,.1f} ms")
    lags_ms = ", ".join(f"{one['variant']} {one['generator_lag_ms']:.1f}" for one in report.runs)
    report.notes.append(f"the load generator's own worst lag, ms: {lags_ms}")
    return report


def _row(variant: Variant, found: Run) -> tuple[Figure, ...]:
    published = PUBLISHED.get(variant.name)
    return (
        variant.title,
        found.average_ms,
        found.least_ms,
        found.slowest_ms,
        ", ".join(f"{words} {count}" for words, count in found.outcomes.items()),
        "yes" if found.holds else "no",
        "-" if published is None else ", ".join(f"{figure:,g}" for figure in published),
    )
