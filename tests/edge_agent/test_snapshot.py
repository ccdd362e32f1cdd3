"""What the agent's status says of instants."""

import time
from datetime import UTC, datetime

import pytest

from edge_agent.snapshot import since


@pytest.mark.parametrize(
    "told_unix_s", [1000.0, time.time() - 3600.0, time.time() + 86_400.0], ids=["1970", "slow", "fast"]
)
def test_since_is_told_by_the_clock_as_it_is_now(told_unix_s: float) -> None:
    """A clock that stood in 1970, or was an hour off, when it happened, and was set since."""
    expected_unix_s = time.time() - 60.0
    told = datetime.fromisoformat(since(time.monotonic() - 60.0, told_unix_s))

    assert told.tzinfo == UTC
    assert told.timestamp() == pytest.approx(expected_unix_s, abs=3.0)


def test_since_stays_the_same_while_the_clock_is_kept() -> None:
    """Slewed by a part of a second."""
    then_s, then_unix_s = time.monotonic() - 60.0, time.time() - 59.3

    assert datetime.fromisoformat(since(then_s, then_unix_s)).timestamp() == int(then_unix_s)
