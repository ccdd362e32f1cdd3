"""How many cameras each server holds, and how slow its slowest answer is on the way there."""

import math
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import grpc
import numpy as np

from bench.progress import Steps
from bench.report import Figure, Report, Target, ratio, spread
from bench.servers.run import BOUND_MS, FPS, PAYLOAD_BYTES, START_S, Run, errors_in_words, run
from bench.servers.search import NEEDED, RUNS, Search, bracket
from bench.servers.variants import (
    ASYNC_CPP,
    ASYNC_CPP_DOUBLE,
    ASYNCIO_PYTHON,
    CENTRAL,
    CENTRAL_DOUBLE,
    CORES,
    SYNC_PYTHON,
    Variant,
    Work,
)

WORK = Work(5)
# What the cores could work on if nothing else had to be done.
LIMIT = int(CORES * 1e3 / (WORK.work_ms * FPS))
# These runs go on to their end whatever happens, so that the curve knows their slowest answer.
GRID = (0.3, 0.5, 0.8, 0.9, 1.0)
QUICK_GRID = (0.2, 0.4, 0.6, 0.8, 0.9)
ROUNDS = 3
# A search has about so many runs, half of which end at their first late frame, after this part on average.
LIKELY_RUNS, LIKELY_RUNS_ONCE, LIKELY_PART = 6.0, 4.0, 0.4
DURATION_S, QUICK_DURATION_S = 10.0, 2.0
# Answers of a run that does not hold are waited for so long after its last frame.
GRACE_S = 3.0
# Those whose ratios are wanted; the others are searched once, and one run judges each of their levels.
SEARCHED_EVERY_ROUND = tuple(
    variant.name for variant in (CENTRAL, CENTRAL_DOUBLE, ASYNC_CPP, ASYNC_CPP_DOUBLE, ASYNCIO_PYTHON)
)
DROPS = "slowest of the detected: ours answers at once what it cannot serve in time, the others queue it"
LEAST_OF_CPP, LEAST_OF_PYTHON = 0.95, 1.9


@dataclass
class Capacities:
    """What was found: all runs, and each variant's capacity by round."""

    duration_s: float
    runs: list[Run] = field(default_factory=list)
    by_round: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def slowest_ms(self, name: str) -> dict[int, list[float]]:
        """Give a variant's slowest answers by the number of cameras; infinite where a run gave up."""
        found: defaultdict[int, list[float]] = defaultdict(list)
        for one in self.runs:
            if one.variant == name:
                found[one.cameras].append(math.inf if one.gave_up else one.slowest_ms)
        return dict(sorted(found.items()))

    def curve_ms(self, name: str) -> dict[int, float]:
        """Give the slowest answer of a typical run by the number of cameras.

        That is the median; where most runs were late, it is the median of those late ones that went on to
        their end, and infinite if none did: only known to be beyond the bound.
        """
        typical = {}
        for level, slowest_ms in self.slowest_ms(name).items():
            typical[level] = float(np.median(slowest_ms))
            if math.isinf(typical[level]):
                known = [one for one in slowest_ms if BOUND_MS < one < math.inf]
                typical[level] = float(np.median(known)) if known else math.inf
        return typical

    def shares_detected(self, name: str) -> dict[int, float]:
        """Give by the number of cameras how many of the due frames were detected, where it was not all."""
        found: defaultdict[int, list[float]] = defaultdict(list)
        for one in self.runs:
            if one.variant == name and not one.gave_up:
                found[one.cameras].append(one.detected / one.due)
        shares = {level: float(np.mean(of_level)) for level, of_level in sorted(found.items())}
        return {level: share for level, share in shares.items() if share < 1}

    def levels(self, name: str) -> dict[int, bool]:
        """Say of each level that was run whether one of its runs held."""
        held: dict[int, bool] = {}
        for one in self.runs:
            if one.variant == name:
                held[one.cameras] = held.get(one.cameras, False) or one.holds
        return held


def measure(variants: Sequence[Variant], steps: Steps, *, quick: bool) -> Capacities:
    """Go up a few levels with each variant until it fails, then search there in rounds."""
    capacities = Capacities(QUICK_DURATION_S if quick else DURATION_S)
    if quick:
        variants = [variant for variant in variants if variant.name in SEARCHED_EVERY_ROUND]
    _grid(capacities, variants, steps, QUICK_GRID if quick else GRID)
    if quick:
        for variant in variants:
            capacities.by_round[variant.name].append(bracket(capacities.levels(variant.name))[0])
        return capacities
    brackets = {variant.name: bracket(capacities.levels(variant.name)) for variant in variants}
    for number in range(1, ROUNDS + 1):
        of_round = [variant for variant in variants if number == 1 or variant.name in SEARCHED_EVERY_ROUND]
        searches = {variant.name: _search_of(variant, brackets[variant.name]) for variant in of_round}
        _search(capacities, of_round, searches, steps, f"capacity, round {number} of {ROUNDS}")
        for name, search in searches.items():
            capacities.by_round[name].append(search.capacity)
            brackets[name] = (search.capacity, search.capacity + 1)
            steps.note(f"round {number}: {name} holds {search.capacity}")
    return capacities


def estimate_s(variants: Sequence[Variant], *, quick: bool) -> float:
    """Give about how long it takes."""
    every = sum(variant.name in SEARCHED_EVERY_ROUND for variant in variants)
    if quick:
        return every * len(QUICK_GRID) * (QUICK_DURATION_S + START_S)
    # Python in one process fails at half of what the cores can do; the others hold most levels.
    levels = sum(2 if variant in (SYNC_PYTHON, ASYNCIO_PYTHON) else len(GRID) for variant in variants)
    searches = every * ROUNDS * LIKELY_RUNS + (len(variants) - every) * LIKELY_RUNS_ONCE
    return levels * (DURATION_S + 1 + START_S) + searches * (DURATION_S * (1 + LIKELY_PART) / 2 + START_S)


def _search_of(variant: Variant, levels: tuple[int, int]) -> Search:
    return Search(*levels) if variant.name in SEARCHED_EVERY_ROUND else Search(*levels, runs=1, needed=1)


def _grid(
    capacities: Capacities, variants: Sequence[Variant], steps: Steps, fractions: Sequence[float]
) -> None:
    failed: set[str] = set()
    for level in sorted({max(1, round(fraction * LIMIT)) for fraction in fractions}):
        for variant in variants:
            # Beyond a failure nothing more is learnt; but one alone may be the machine's mood.
            if variant.name not in failed and not (
                _run(capacities, variant, level, steps, "curve").holds
                or _run(capacities, variant, level, steps, "curve, again", give_up_ms=BOUND_MS).holds
            ):
                failed.add(variant.name)


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
            search.tell(level, _run(capacities, variant, level, steps, what, give_up_ms=BOUND_MS).holds)


def _in_turns(variants: Sequence[Variant], searches: Mapping[str, Search]) -> Iterator[Variant]:
    while going_on := [variant for variant in variants if searches[variant.name].next_level is not None]:
        yield from going_on


def _run(
    capacities: Capacities,
    variant: Variant,
    level: int,
    steps: Steps,
    what: str,
    *,
    give_up_ms: float | None = None,
) -> Run:
    steps.begin(f"{what}: {variant.title}, {level} cameras")
    found = run(variant, WORK, level, capacities.duration_s, grace_s=GRACE_S, give_up_ms=give_up_ms)
    capacities.runs.append(found)
    slowest = (
        f"ended after {found.length_s:.1f} s" if found.gave_up else f"slowest {found.slowest_ms:,.0f} ms"
    )
    steps.note(
        f"{variant.title}, {level}: {slowest}, {'holds' if found.holds else 'does not hold'}; "
        f"generator's lag {found.generator_lag_ms:.1f} ms"
    )
    return found


def report(capacities: Capacities, variants: Sequence[Variant], *, quick: bool) -> Report:
    """Make the table of capacities, with the ratios."""
    table = Report(
        f"capacity: cameras at {FPS:g} fps, {WORK.work_ms:g} ms of processor time and "
        f"{PAYLOAD_BYTES:,} bytes a frame, {capacities.duration_s:g} s",
        ("server", "cameras", "of each round", "slowest ms there", "slowest ms with one more", "runs"),
        notes=[
            _how_judged(quick),
            *_about_the_machine(capacities),
            f"gRPC: {grpc.__version__} in the Python servers, {_cpp_grpc_version()} in the C++ ones",
            *errors_in_words(capacities.runs),
        ],
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
    if not quick:
        table.targets += _ratios(capacities.by_round)
    return table


def _ratios(by_round: Mapping[str, list[int]]) -> list[Target]:
    """Give the ratios to the rivals with as many threads, and of the better one to the better one."""
    pairs = [(CENTRAL, ASYNC_CPP, LEAST_OF_CPP), (CENTRAL_DOUBLE, ASYNC_CPP_DOUBLE, LEAST_OF_CPP)]
    ours = [variant for variant in (CENTRAL, CENTRAL_DOUBLE) if by_round.get(variant.name)]
    theirs = [variant for variant in (ASYNC_CPP, ASYNC_CPP_DOUBLE) if by_round.get(variant.name)]
    if ours and theirs:

        def held(variant: Variant) -> float:
            return float(np.median(by_round[variant.name]))

        best = (max(ours, key=held), max(theirs, key=held), LEAST_OF_CPP)
        if best not in pairs:
            pairs.append(best)
    pairs.append((CENTRAL, ASYNCIO_PYTHON, LEAST_OF_PYTHON))
    return [
        ratio(f"capacity, {one.title} / {other.title}", by_round[one.name], by_round[other.name], ">=", least)
        for one, other, least in pairs
        if by_round.get(one.name) and by_round.get(other.name)
    ]


def _cpp_grpc_version() -> str:
    """Give the version that the reference is built with, as Debian's package tells it."""
    try:
        told = subprocess.run(
            ["pkg-config", "--modversion", "grpc++"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "an unknown version"
    return told.stdout.strip()


def _how_judged(quick: bool) -> str:
    if quick:
        return "short form: the highest of a few levels that held in one run; no search, and no ratios"
    return (
        f"capacity: the most cameras at which {NEEDED} of {RUNS} runs have every frame answered `detected` "
        f"within {BOUND_MS:g} ms; the median of the rounds, whose runs take turns between the servers; those "
        f"without several rounds were searched once, with one run a level. A search's run ends at its first "
        f"late frame: its slowest answer is only known to be `late`"
    )


def _about_the_machine(capacities: Capacities) -> list[str]:
    lags_ms = [one.generator_lag_ms for one in capacities.runs if one.holds]
    shares = [one.generator_processor_s / one.length_s / CORES for one in capacities.runs if one.holds]
    if not lags_ms:
        return ["no run held"]
    loop_lag_ms = max(one.generator_loop_lag_ms for one in capacities.runs if one.holds)
    return [
        f"{CORES} cores would be used wholly by {LIMIT} cameras, without a wire and without load generator",
        f"the load generator shares them: of their time it used up to {max(shares):.0%} in the runs that "
        f"held, its own worst lag there was {max(lags_ms):.1f} ms, and its loop came up to "
        f"{loop_lag_ms:.1f} ms late to the answers",
    ]


def _runs_in_words(slowest_ms: list[float] | None) -> str:
    if slowest_ms is None:
        return "-"
    known = [one for one in slowest_ms if math.isfinite(one)]
    late = f"{len(slowest_ms) - len(known)} late" if len(known) < len(slowest_ms) else ""
    return ", ".join(words for words in (spread(known) if known else "", late) if words)


def curve(capacities: Capacities, variants: Sequence[Variant]) -> Report:
    """Make the table of slowest answers by the number of cameras."""
    columns = [variant for variant in variants if capacities.slowest_ms(variant.name)]
    table = Report(
        "slowest answer, ms, by the number of cameras (the median where there are several runs)",
        ("cameras", *(variant.title for variant in columns)),
        notes=[
            DROPS,
            f"late: beyond {BOUND_MS:g} ms in most runs, all of which ended at the first such frame",
        ],
    )
    for variant in columns:
        if shares := capacities.shares_detected(variant.name):
            in_words = ", ".join(f"{level}: {share:.1%}" for level, share in shares.items())
            table.notes.append(f"detected of all due frames, {variant.title}: {in_words}")
    curves = {variant.name: capacities.curve_ms(variant.name) for variant in columns}
    for level in sorted({level for levels in curves.values() for level in levels}):
        table.add(level, *(_cell(curves[variant.name].get(level)) for variant in columns))
    return table


def _cell(slowest_ms: float | None) -> Figure:
    if slowest_ms is None:
        return "-"
    return "late" if math.isinf(slowest_ms) else slowest_ms
