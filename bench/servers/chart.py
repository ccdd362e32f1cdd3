"""The curve as a picture: the slowest answer against the number of cameras."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.servers.capacity import DROPS, LIMIT, WORK, Capacities
from bench.servers.run import BOUND_MS, FPS, PAYLOAD_BYTES
from bench.servers.variants import CORES, Variant

# Told apart without colour, too.
MARKERS = "osD^vPX"


def draw(capacities: Capacities, variants: Sequence[Variant], file: Path) -> None:
    """Write the chart; the file's ending says which kind.

    Raises:
        ValueError: matplotlib cannot write such a file.

    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5.5), layout="constrained")
    for number, variant in enumerate(variants):
        levels = capacities.slowest_ms(variant.name)
        if not levels:
            continue
        colour, marker = f"C{number}", MARKERS[number % len(MARKERS)]
        # What is only known to be late has no point: the line goes past it.
        curve = [(level, one) for level, one in capacities.curve_ms(variant.name).items() if np.isfinite(one)]
        if not curve:
            continue
        label = _label(capacities, variant)
        axes.plot(*np.transpose(curve), color=colour, marker=marker, markersize=5, label=label)
        points = [(level, one) for level, of_level in levels.items() for one in of_level if np.isfinite(one)]
        axes.plot(*np.transpose(points), marker, color=colour, markersize=3, alpha=0.4)
    axes.axhline(BOUND_MS, color="black", linewidth=1, linestyle="--")
    axes.annotate(f"{BOUND_MS:g} ms", (0, BOUND_MS), textcoords="offset points", xytext=(2, 3), fontsize=8)
    axes.axvline(LIMIT, color="grey", linewidth=1, linestyle=":")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlim(left=0)
    axes.set_ylim(1, 10 ** np.ceil(np.log10(max(axes.get_ylim()[1], 1000))))
    axes.set_xlabel(f"cameras, {FPS:g} frames a second each\n({DROPS})")
    axes.set_ylabel("slowest answer, ms")
    axes.set_title(
        f"{WORK.work_ms:g} ms of processor time and {PAYLOAD_BYTES:,} bytes a frame, "
        f"{capacities.duration_s:g} s, {CORES} cores (dotted: all they could do)",
        fontsize=10,
    )
    axes.legend(fontsize=8)
    figure.savefig(file)
    pyplot.close(figure)


def _label(capacities: Capacities, variant: Variant) -> str:
    rounds = capacities.by_round[variant.name]
    return f"{variant.title}: {int(np.median(rounds))} cameras" if rounds else variant.title
