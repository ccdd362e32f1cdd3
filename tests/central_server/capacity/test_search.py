"""The search among numbers of cameras, for machines of every size and mood."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from central_server.capacity.search import (
    RESOLUTION,
    is_confirmed,
    largest_held,
    next_cameras,
    smallest_not_held,
)

MOST = 4096


def search(holds: Callable[[int, int], bool], most: int = MOST) -> dict[int, list[bool]]:
    """Run to the end; `holds` is asked with a number of cameras and how many runs there were before."""
    runs: dict[int, list[bool]] = {}
    steps = 0
    while (cameras := next_cameras(runs, most)) is not None:
        assert 1 <= cameras <= most
        assert len(runs.get(cameras, [])) < 3, "two runs of three decide"
        runs.setdefault(cameras, []).append(holds(cameras, steps))
        steps += 1
    return runs


def allowed_gap(low: int) -> int:
    return max(1, low // RESOLUTION)


@given(st.integers(0, MOST))
def test_the_answer_is_found_and_confirmed_from_both_sides(limit: int) -> None:
    """What holds has held twice, and what does not, close above it, has failed twice."""
    runs = search(lambda cameras, _: cameras <= limit)
    low, high = largest_held(runs), smallest_not_held(runs)

    assert limit - allowed_gap(low) < low <= limit
    assert not low or is_confirmed(runs, low)
    if limit == MOST:
        assert high is None
    else:
        assert high is not None
        assert high - low <= allowed_gap(low)
        assert runs[high] == [False, False]
    # Doubling, halving, and two more.
    assert sum(map(len, runs.values())) <= 2 * 13 + 4


@given(st.integers(1, 200), st.integers(0, 30))
def test_one_hiccup_does_not_spoil_the_answer(limit: int, hiccup: int) -> None:
    """A run that fails, or holds, once against its kind is outvoted."""
    runs = search(lambda cameras, step: (cameras <= limit) != (step == hiccup))
    low = largest_held(runs)

    assert abs(low - limit) <= 2 * allowed_gap(limit)
    assert is_confirmed(runs, low)


@given(st.integers(1, 60), st.lists(st.booleans(), min_size=200, max_size=200))
def test_a_machine_without_sense_still_ends_the_search(most: int, moods: list[bool]) -> None:
    """No number is tried more than three times, whatever comes of it."""
    runs = search(lambda _, step: moods[step], most)

    assert sum(map(len, runs.values())) <= 3 * most


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ({}, 1),
        ({1: [True]}, 2),
        ({1: [True], 2: [True], 4: [True]}, 8),
        ({1: [True], 2: [True], 4: [False]}, 3),
        ({1: [False]}, 1),
        ({1: [False, False]}, None),
        ({1: [True], 2: [False]}, 1),
        ({1: [True, True], 2: [False]}, 2),
        ({1: [True, True], 2: [False, True]}, 2),
        ({1: [True, True], 2: [False, True, True]}, 4),
        ({1: [True, False], 2: [False]}, 1),
        ({1: [True, False, False], 2: [False]}, None),
    ],
    ids=str,
)
def test_the_next_step(runs: dict[int, list[bool]], expected: int | None) -> None:
    """By hand."""
    assert next_cameras(runs, MOST) == expected
