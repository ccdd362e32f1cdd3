"""The data budget: its hard stop, its figures, its shares."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.uplink.budget import Allowance, Meter, cost_bytes, fair_shares

SIZES = st.integers(1, 200_000)
RATES = st.floats(1, 100_000)


@given(RATES, st.lists(st.tuples(SIZES, st.floats(0, 3)), min_size=1, max_size=60))
def test_no_ten_seconds_hold_more_than_their_budget_and_one_frame(
    max_kbit: float, offers: list[tuple[int, float]]
) -> None:
    """Whatever is offered, whenever: what goes keeps the rate, but for the last frame of a window."""
    allowance, now_s, sent = Allowance(max_kbit), 0.0, []
    for size_bytes, pause_s in offers:
        now_s += pause_s
        if allowance.wait_s(now_s) == 0:
            allowance.spend(size_bytes, now_s)
            sent.append((now_s, size_bytes))

    for begin_s, _ in sent:
        window = [size for at_s, size in sent if begin_s <= at_s < begin_s + 10]
        assert sum(window[:-1]) <= max_kbit * 125 * 10 * (1 + 1e-9) + 1e-6


def test_a_frame_goes_as_soon_as_the_ones_before_are_paid_for() -> None:
    """At 80 kbit/s 10 kB take a second; nothing is saved up in the time between."""
    allowance = Allowance(80)
    allowance.spend(10_000, 0.0)

    assert allowance.wait_s(0.25) == pytest.approx(0.75)
    assert allowance.wait_s(60.0) == 0
    allowance.spend(10_000, 60.0)
    assert allowance.wait_s(60.0) == pytest.approx(1.0)


def test_another_budget_takes_over_what_is_owed() -> None:
    """Bytes that were sent are paid for at the new rate; without a budget nothing is owed."""
    allowance = Allowance(80)
    allowance.spend(20_000, 0.0)
    allowance.set(160, 1.0)
    assert allowance.wait_s(1.0) == pytest.approx(0.5)
    allowance.set(None, 1.0)
    assert allowance.wait_s(1.0) == 0
    assert allowance.bytes_s == math.inf


@given(st.lists(st.tuples(SIZES, st.floats(0, 900)), max_size=80))
def test_the_meter_counts_the_last_ten_seconds_and_the_last_hour(adds: list[tuple[int, float]]) -> None:
    """Against all that was ever sent: within a second, and within a minute, of the spans' edges."""
    meter, now_s, sent = Meter(0.0), 0.0, []
    for size_bytes, pause_s in adds:
        now_s += pause_s
        meter.add(size_bytes, now_s)
        sent.append((now_s, size_bytes))

    def between(span_s: float) -> float:
        return sum(size for at_s, size in sent if at_s > now_s - span_s)

    assert meter.sent_bytes == sum(size for _, size in sent)
    span_s = max(1.0, min(10.0, now_s))
    assert between(9.0) <= meter.kbit_per_s(now_s) * 125 * span_s + 1e-3
    assert meter.kbit_per_s(now_s) * 125 * span_s <= between(11.0) + 1e-3
    hour_s = max(1.0, min(3600.0, now_s))
    assert between(3540.0) <= meter.mb_per_day(now_s) / 86_400 * 1e6 * hour_s + 1e-3
    assert meter.mb_per_day(now_s) / 86_400 * 1e6 * hour_s <= between(3660.0) + 1e-3


def test_megabytes_a_day_are_known_from_the_first_minutes_on() -> None:
    """A kilobyte a second since two minutes is 86.4 MB a day; an hour of silence brings it to nothing."""
    meter = Meter(1000.0)
    for second in range(120):
        meter.add(1000, 1000.0 + second)

    assert meter.mb_per_day(1120.0) == pytest.approx(86.4, rel=0.01)
    assert meter.mb_per_day(1120.0 + 3700) == 0


def test_what_a_message_costs_is_more_than_its_bytes() -> None:
    """The transport's share is counted, too: it is paid for."""
    assert cost_bytes(100_000) == 105_040
    assert cost_bytes(10) > 40


def test_who_takes_little_leaves_the_rest_to_the_others() -> None:
    """Behind closed motion gates cameras use little; what is left is shared by weight."""
    shares = fair_shares(100.0, [5.0, 1000.0, 1000.0], [1.0, 1.0, 1.0])
    assert shares[1:] == [47.5, 47.5]
    assert shares[0] >= 5.0

    assert fair_shares(100.0, [1000.0, 1000.0], [3.0, 1.0]) == [75.0, 25.0]
    assert fair_shares(math.inf, [1.0, 2.0], [1.0, 1.0]) == [math.inf, math.inf]
    assert fair_shares(1.0, [], []) == []


@given(
    st.floats(0, 1e6),
    st.lists(st.tuples(st.floats(0, 1e6), st.sampled_from([1.0, 3.0])), min_size=1, max_size=12),
)
def test_shares_are_fair_and_within_the_total(total: float, cameras: list[tuple[float, float]]) -> None:
    """What is really taken fits; nobody who wants more has less per weight than another takes."""
    demands, weights = [demand for demand, _ in cameras], [weight for _, weight in cameras]
    shares = fair_shares(total, demands, weights)
    taken = [min(share, demand) for share, demand in zip(shares, demands, strict=True)]

    assert sum(taken) <= total * (1 + 1e-9) + 1e-6
    most = max(take / weight for take, weight in zip(taken, weights, strict=True))
    for share, demand, weight in zip(shares, demands, weights, strict=True):
        if demand > share:
            assert share / weight >= most * (1 - 1e-9) - 1e-6
