"""The search for a capacity."""

import random
from collections.abc import Callable

import pytest

from bench.servers.search import Search, bracket


def find(search: Search, run: Callable[[int], bool], most_runs: int = 200) -> tuple[int, list[int]]:
    """Search until the end; gives the capacity and the levels that were run."""
    levels: list[int] = []
    while (level := search.next_level) is not None:
        levels.append(level)
        assert len(levels) <= most_runs
        search.tell(level, run(level))
    return search.capacity, levels


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 40), (10, 12), (30, 31), (39, 200)])
def test_it_finds_every_edge_from_everywhere(low: int, high: int) -> None:
    for edge in range(61):
        capacity, _ = find(Search(low, high), lambda level, edge=edge: level <= edge)

        assert capacity == edge


def test_it_runs_nothing_that_is_decided() -> None:
    """Two runs that agree decide a level; a right guess takes no more than two levels."""
    capacity, levels = find(Search(34, 35), lambda level: level <= 34)

    assert capacity == 34
    assert sorted(levels) == [34, 34, 35, 35]


def test_no_cameras_need_no_run() -> None:
    capacity, levels = find(Search(0, 1), lambda _: False)

    assert capacity == 0
    assert set(levels) == {1}


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ((), None),
        ((True,), None),
        ((False,), None),
        ((True, False), None),
        ((True, True), True),
        ((False, False), False),
        ((False, True, True), True),
        ((True, False, False), False),
    ],
)
def test_two_of_three_runs_judge_a_level(told: tuple[bool, ...], verdict: bool | None) -> None:
    search = Search(5, 9)
    for held in told:
        search.tell(7, held)

    assert search.holds(7) is verdict


def test_runs_that_differ_end_with_two_judged_neighbours() -> None:
    """Whatever the runs say, the capacity was judged to hold, and one more not to."""
    for seed in range(200):
        luck = random.Random(seed)
        search = Search(20, 40)
        capacity, _ = find(search, lambda level, luck=luck: luck.random() < 1 / (1 + 2.0 ** (level - 30)))

        assert search.holds(capacity) is True
        assert search.holds(capacity + 1) is False


def test_a_search_that_has_not_ended_has_no_capacity() -> None:
    with pytest.raises(ValueError, match="not ended"):
        _ = Search(5, 9).capacity


def test_a_search_between_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="between 9 and 9"):
        Search(9, 9)


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        ({}, (0, 1)),
        ({8: True, 16: True, 24: False}, (16, 24)),
        ({8: False, 16: False}, (0, 8)),
        ({8: True, 16: True}, (16, 17)),
        # A level above one that failed says nothing.
        ({8: True, 16: False, 24: True, 32: False}, (8, 16)),
    ],
)
def test_a_search_begins_below_the_first_failure(levels: dict[int, bool], found: tuple[int, int]) -> None:
    assert bracket(levels) == found
