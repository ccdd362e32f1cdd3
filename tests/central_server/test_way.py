"""How much longer than usual a frame was on its way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from central_server.way import Way

# The sender's clock is another one: it shows so much more, or less.
CLOCKS = st.floats(-1e6, 1e6)


@given(CLOCKS, st.lists(st.tuples(st.floats(0.01, 5), st.floats(0, 20)), min_size=1, max_size=50))
def test_what_a_frame_is_held_up_is_known_but_for_the_quickest_way(
    clock_s: float, frames: list[tuple[float, float]]
) -> None:
    """Whatever the clocks show: each frame's way less the quickest so far of the last minute or two."""
    way, sent_s, arrived_s, ways = Way(), 0.0, 0.0, []
    for pause_s, way_s in frames:
        sent_s += pause_s
        arrived_s = max(arrived_s, sent_s + way_s)  # in their order
        ways.append((arrived_s, arrived_s - sent_s))
        held_up_s = way.held_up_s(sent_s + clock_s, arrived_s)
        last_minute = min(took_s for at_s, took_s in ways if at_s > arrived_s - 60)
        ever = min(took_s for _, took_s in ways)
        assert ways[-1][1] - last_minute - 1e-6 <= held_up_s <= ways[-1][1] - ever + 1e-6


def test_a_freeze_shows_at_the_first_frame_after_it() -> None:
    """Ten frames a second; what was sent into the freeze comes at its end, and is that much older."""
    way = Way()
    for number in range(20):
        assert way.held_up_s(100 + number / 10, 5000.02 + number / 10) == pytest.approx(0)

    assert way.held_up_s(102.0, 5012.0) == pytest.approx(9.98)
    assert way.held_up_s(112.0, 5012.02) == pytest.approx(0)


def test_a_longer_way_is_the_usual_one_after_two_minutes() -> None:
    """A route that takes longer for good, or clocks that drift apart, do not make frames old for ever."""
    way = Way()
    way.held_up_s(0.0, 0.0)
    held_up_s = [way.held_up_s(second, second + 0.5) for second in range(1, 200)]

    assert held_up_s[0] == 0.5
    assert held_up_s[130] == 0


def test_after_a_long_pause_it_begins_anew() -> None:
    """Nothing is compared with a frame of an hour ago."""
    way = Way()
    way.held_up_s(0.0, 0.0)
    assert way.held_up_s(3600.0, 3603.0) == 0
