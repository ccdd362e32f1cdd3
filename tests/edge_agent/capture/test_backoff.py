"""The delay before the next attempt."""

import random

import pytest

from edge_agent.backoff import HEALTHY_STRETCH_S, Backoff


class Clock:
    """A monotonic clock that moves when told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def longest(_low: float, high: float) -> float:
    return high


def delays_over(clock: Clock, backoff: Backoff, duration_s: float) -> list[tuple[float, float]]:
    """(seconds since the trouble began, delay) of each attempt when every attempt fails at once."""
    begin_s = clock.now_s
    seen = []
    while clock.now_s - begin_s < duration_s:
        delay_s = backoff.next_delay_s()
        seen.append((clock.now_s - begin_s, delay_s))
        clock.now_s += delay_s
    return seen


@pytest.mark.parametrize("seed", range(20))
def test_at_most_one_second_in_the_first_minute_and_at_most_thirty_later(seed: int) -> None:
    """Whatever the jitter, the first minute sees delays of at most 1 s, and no delay ever passes 30 s."""
    clock = Clock()
    seen = delays_over(clock, Backoff(uniform=random.Random(seed).uniform, clock=clock), 600.0)

    assert max(delay_s for at_s, delay_s in seen if at_s < 60.0) <= 1.0
    assert max(delay_s for at_s, delay_s in seen) <= 30.0
    assert min(delay_s for at_s, delay_s in seen) > 0.1


def test_grows_to_its_limits() -> None:
    """Delays double to 1 s, stay there for the rest of the minute, then double to 30 s."""
    clock = Clock()
    seen = [delay_s for _, delay_s in delays_over(clock, Backoff(uniform=longest, clock=clock), 600.0)]

    assert seen[:4] == [0.25, 0.5, 1.0, 1.0]
    after = seen[seen.index(2.0) :]
    assert after[:6] == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_two_agents_do_not_march_in_step() -> None:
    """The delay is drawn between half the limit and the limit."""
    drawn = []
    clock = Clock()

    def uniform(low: float, high: float) -> float:
        drawn.append((low, high))
        return low

    Backoff(uniform=uniform, clock=clock).next_delay_s()

    assert drawn == [(0.125, 0.25)]
    assert len({Backoff().next_delay_s() for _ in range(20)}) > 1


def test_a_healthy_stretch_begins_anew() -> None:
    """After signs of life over the whole stretch, the next failure counts as the first."""
    clock = Clock()
    backoff = Backoff(uniform=longest, clock=clock)
    delays_over(clock, backoff, 300.0)

    backoff.healthy()
    clock.now_s += HEALTHY_STRETCH_S
    backoff.healthy()

    assert backoff.next_delay_s() == 0.25
    clock.now_s += 59.0
    assert backoff.next_delay_s() == 0.5


def test_coming_and_going_is_no_health() -> None:
    """A peer that shows one sign of life and fails again keeps the long delays."""
    clock = Clock()
    backoff = Backoff(uniform=longest, clock=clock)
    delays_over(clock, backoff, 300.0)

    for _ in range(5):
        backoff.healthy()
        clock.now_s += HEALTHY_STRETCH_S / 2

        assert backoff.next_delay_s() == 30.0
