"""Six kinds of server under one load generator: the published table, the capacities, the costs."""

import importlib
from collections.abc import Iterator
from pathlib import Path

from bench.progress import Steps
from bench.report import Report
from bench.servers import capacity, chart, cost, published
from bench.servers.variants import chosen

PARTS = (published, cost, capacity)


def measure(*, quick: bool, only: str | None = None, chart_file: Path | None = None) -> Iterator[Report]:
    """Measure the variants named in `only`, all without; gives each report once it is known.

    The chart, if it is asked for, is drawn after the last of them.

    Raises:
        ValueError: `only` names a variant that there is not.
        RuntimeError: a server does not start, ends, or answers something else than the others.
        ImportError: there is nothing to draw the chart with.

    """
    variants = chosen(only)
    if chart_file is not None:
        # Before the long measure, and not after it.
        importlib.import_module("matplotlib.pyplot")
    minutes = sum(part.estimate_s(variants, quick=quick) for part in PARTS) / 60
    with Steps() as steps:
        steps.note(f"this takes about {minutes:.0f} minutes on a machine that does nothing else")
        as_published = published.measure(variants, steps, quick=quick)
    yield as_published
    with Steps() as steps:
        costs = cost.measure(variants, steps, quick=quick)
    yield costs
    with Steps() as steps:
        capacities = capacity.measure(variants, steps, quick=quick)
    yield capacity.curve(capacities, variants)
    yield capacity.report(capacities, variants, quick=quick)
    if chart_file is not None:
        chart.draw(capacities, variants, chart_file)
