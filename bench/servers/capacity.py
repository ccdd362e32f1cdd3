"""How many cameras each server holds, and how slow its slowest answer is on the way there."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.progress import Steps
from bench.report import Report, ratio, spread
from bench.servers.run import BOUND_MS, FPS, PAYLOAD_BYTES, Run, run
from bench.servers.search import NEEDED, RUNS, Search, bracket
from bench.servers.variants import (
    ASYNC_CPP,
    ASYNC_CPP_DOUBLE,
    ASYNCIO_PYTHON,
    CENTRAL,
    CORES,
    Variant,
    Work,
)

WORK = Work(5)
# What the cores could work on if nothing else had to be done.
LIMIT = int(CORES * 1e3 / (WORK.work_ms * FPS))
GRID = (0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
QUICK_GRID = (0.2, 0.4, 0.6, 0.8, 0.9)
# Beyond so many failures one after the other nothing more is learnt.
ENOUGH_FAILURES = 2
# Single runs halve the gap between a level that held and one that did not down to this.
NARROW = 2
ROUNDS = 3
DURATION_S, QUICK_DURATION_S = 10.0, 2.0
# Answers of a run that does not hold are waited for so long after its last frame.
GRACE_S = 3.0
# Those whose ratios are wanted; the others are searched once.
SEARCHED_EVERY_ROUND = (CENTRAL.name, ASYNC_CPP.name, ASYNCIO_PYTHON.name)
DROPS = "slowest of the detected: ours answers at once what it cannot serve in time, the others queue it"
TARGETS = ((ASYNC_CPP, 0.95), (ASYNCIO_PYTHON, 1.9))


@dataclass
class Capacities:
    """What was found: all runs, and each variant's capacity by round."""

    duration_s: float
    runs: list[Run] = field(default_factory=list)
    by_round: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def slowest_ms(self, name: str) -> dict[int, list[float]]:
        """Give a variant's slowest answers by the number of cameras."""
        found: defaultdict[int, list[float]] = defaultdict(list)
        for one in self.runs:
            if one.variant == name:
                found[one.cameras].append(one.slowest_ms)
        return dict(sorted(found.items()))

    def shares_detected(self, name: str) -> dict[int, float]:
        """Give by the number of cameras how many of the due frames were detected, where it was not all."""
        found: defaultdict[int, list[float]] = defaultdict(list)
        for one in self.runs:
            if one.variant == name:
                found[one.cameras].append(one.detected / one.due)
        shares = {level: float(np.mean(of_level)) for level, of_level in sorted(found.items())}
        return {level: share for level, share in shares.items() if share < 1}

    def levels(self, name: str) -> dict[int, bool]:
        """Say of each level that was run whether its first run held."""
        held: dict[int, bool] = {}
        for one in self.runs:
            if one.variant == name:
                held.setdefault(one.cameras, one.holds)
        return held


def measure(variants: Sequence[Variant], steps: Steps, *, quick: bool) -> Capacities:
    """Go up a grid of levels with each variant, halve the gap where it fails, then search there in rounds."""
    capacities = Capacities(QUICK_DURATION_S if quick else DURATION_S)
    if quick:
        variants = [variant for variant in variants if variant.name in SEARCHED_EVERY_ROUND]
    _grid(capacities, variants, steps, QUICK_GRID if quick else GRID)
    if quick:
        for variant in variants:
            capacities.by_round[variant.name].append(bracket(capacities.levels(variant.name))[0])
        return capacities
    while wide := [v for v in variants if _gap(bracket(capacities.levels(v.name))) > NARROW]:
        for variant in wide:
            _run(capacities, variant, sum(bracket(capacities.levels(variant.name))) // 2, steps, "curve")
    brackets = {variant.name: bracket(capacities.levels(variant.name)) for variant in variants}
    for number in range(1, ROUNDS + 1):
        of_round = [variant for variant in variants if number == 1 or variant.name in SEARCHED_EVERY_ROUND]
        searches = {variant.name: Search(*brackets[variant.name]) for variant in of_round}
        _search(capacities, of_round, searches, steps, f"capacity, round {number} of {ROUNDS}")
        for name, search in searches.items():
            capacities.by_round[name].append(search.capacity)
            brackets[name] = (search.capacity, search.capacity + 1)
            steps.note(f"round {number}: {name} holds {search.capacity}")
    return capacities


def _gap(levels: tuple[int, int]) -> int:
    return levels[1] - levels[0]


def _grid(
    capacities: Capacities, variants: Sequence[Variant], steps: Steps, fractions: Sequence[float]
) -> None:
    failures = dict.fromkeys((variant.name for variant in variants), 0)
    for level in sorted({max(1, round(fraction * LIMIT)) for fraction in fractions}):
        for variant in variants:
            if failures[variant.name] < ENOUGH_FAILURES:
                found = _run(capacities, variant, level, steps, "curve")
                failures[variant.name] = 0 if found.holds else failures[variant.name] + 1


def _search(
    capacities: Capacities,
    variants: Sequence[Variant],
    searches: Mapping[str, Search],
    steps: Steps,
    what: str,
) -> None:
    """Let the searches advance in turns, a run each, so that the machine's moods meet all of them."""
    for variant in _in_turns(variants, searches):
        search = searches[variant.name]
        level = search.next_level
        if level is not None:
            search.tell(level, _run(capacities, variant, level, steps, what).holds)


def _in_turns(variants: Sequence[Variant], searches: Mapping[str, Search]) -> Iterator[Variant]:
    while going_on := [variant for variant in variants if searches[variant.name].next_level is not None]:
        yield from going_on


def _run(capacities: Capacities, variant: Variant, level: int, steps: Steps, what: str) -> Run:
    steps.begin(f"{what}: {variant.title}, {level} cameras")
    found = run(variant, WORK, level, capacities.duration_s, grace_s=GRACE_S)
    capacities.runs.append(found)
    steps.note(
        f"{variant.title}, {level}: slowest {found.slowest_ms:,.0f} ms, "
        f"{'holds' if found.holds else 'does not hold'}; generator's lag {found.generator_lag_ms:.1f} ms"
    )
    return found


def report(capacities: Capacities, variants: Sequence[Variant], *, quick: bool) -> Report:
    """Make the table of capacities, with the ratios."""
    table = Report(
        f"capacity: cameras at {FPS:g} fps, {WORK.work_ms:g} ms of processor time and "
        f"{PAYLOAD_BYTES:,} bytes a frame, {capacities.duration_s:g} s",
        ("server", "cameras", "of each round", "slowest ms there", "slowest ms with one more", "runs"),
        notes=[_how_judged(quick), *_about_the_machine(capacities)],
        runs=[one.to_json() for one in capacities.runs],
    )
    for variant in variants:
        if rounds := capacities.by_round[variant.name]:
            capacity = int(np.median(rounds))
            slowest_ms = capacities.slowest_ms(variant.name)
            table.add(
                variant.title,
                capacity,
                ", ".join(map(str, rounds)),
                _runs_in_words(slowest_ms.get(capacity)),
                _runs_in_words(slowest_ms.get(capacity + 1)),
                sum(map(len, slowest_ms.values())),
            )
    ours = capacities.by_round[CENTRAL.name]
    for rival, bound in () if quick else TARGETS:
        if ours and (theirs := capacities.by_round[rival.name]):
            table.targets.append(
                ratio(f"capacity, central server / {rival.title}", ours, theirs, ">=", bound)
            )
    if ours and (theirs := capacities.by_round[ASYNC_CPP_DOUBLE.name]):
        figure = np.median(ours) / np.median(theirs)
        table.notes.append(f"central server / {ASYNC_CPP_DOUBLE.title}: {figure:.3f} (no target)")
    return table


def _how_judged(quick: bool) -> str:
    if quick:
        return "short form: the highest of a few levels that held in one run; no search, and no ratios"
    return (
        f"capacity: the most cameras at which {NEEDED} of {RUNS} runs have every frame answered `detected` "
        f"within {BOUND_MS:g} ms; the median of the rounds, whose runs take turns between the servers"
    )


def _about_the_machine(capacities: Capacities) -> list[str]:
    lags_ms = [one.generator_lag_ms for one in capacities.runs if one.holds]
    shares = [one.generator_processor_s / one.length_s / CORES for one in capacities.runs if one.holds]
    if not lags_ms:
        return ["no run held"]
    return [
        f"{CORES} cores would be used wholly by {LIMIT} cameras, without a wire and without load generator",
        f"the load generator shares them: of their time it used up to {max(shares):.0%} in the runs that "
        f"held, and its own worst lag there was {max(lags_ms):.1f} ms",
    ]


def _runs_in_words(slowest_ms: list[float] | None) -> str:
    return "-" if slowest_ms is None else spread(slowest_ms)


def curve(capacities: Capacities, variants: Sequence[Variant]) -> Report:
    """Make the table of slowest answers by the number of cameras."""
    columns = [variant for variant in variants if capacities.slowest_ms(variant.name)]
    table = Report(
        "slowest answer, ms, by the number of cameras (the median where there are several runs)",
        ("cameras", *(variant.title for variant in columns)),
        notes=[DROPS],
    )
    for variant in columns:
        if shares := capacities.shares_detected(variant.name):
            in_words = ", ".join(f"{level}: {share:.1%}" for level, share in shares.items())
            table.notes.append(f"detected of all due frames, {variant.title}: {in_words}")
    slowest: dict[str, dict[int, list[float]]] = {
        variant.name: capacities.slowest_ms(variant.name) for variant in columns
    }
    for level in sorted({level for levels in slowest.values() for level in levels}):
        cells: list[Any] = [
            float(np.median(slowest[variant.name][level])) if level in slowest[variant.name] else "-"
            for variant in columns
        ]
        table.add(level, *cells)
    return table
