"""Six kinds of server under one load generator: the published table, the capacities, the costs."""

from pathlib import Path

from bench.progress import Steps
from bench.report import Report
from bench.servers import capacity, chart, cost, published
from bench.servers.variants import chosen


def measure(*, quick: bool, only: str | None = None, chart_file: Path | None = None) -> list[Report]:
    """Measure the variants named in `only`, all without; draws the chart if asked to.

    Raises:
        ValueError: `only` names a variant that there is not.
        RuntimeError: a server does not start, or answers something else than the others.

    """
    variants = chosen(only)
    with Steps() as steps:
        as_published = published.measure(variants, steps, quick=quick)
        costs = cost.measure(variants, steps, quick=quick)
        capacities = capacity.measure(variants, steps, quick=quick)
        minutes = steps.length_s / 60
    table = capacity.report(capacities, variants, quick=quick)
    table.notes.append(f"the whole measure took {minutes:.1f} minutes")
    if chart_file is not None:
        chart.draw(capacities, variants, chart_file)
    return [as_published, capacity.curve(capacities, variants), table, costs]
