"""What is read of a request to the agent, and what is told of one that fails."""

from typing import Any

import pytest

from edge_agent.config.rules import BadValueError
from edge_agent.control.handler import reading_from
from edge_agent.errors import MOST_CALLS, without_text
from edge_agent.record import Reading


def test_a_reading_is_read() -> None:
    """Whole numbers, too."""
    assert reading_from({"device": "d", "value": 21, "unit": "C"}) == Reading("d", 21.0, "C")


@pytest.mark.parametrize("value", [None, True, "21", float("nan"), float("inf"), 10**400], ids=repr)
def test_a_value_that_is_no_number_is_refused(value: object) -> None:
    """JSON has numbers of any size."""
    with pytest.raises(BadValueError) as raised:
        reading_from({"device": "d", "value": value})
    assert raised.value.key == "value"


def test_endless_recursion_fills_no_log() -> None:
    """Its last calls are told; no text."""

    def endless(depth: int) -> Any:
        return endless(depth + 1)

    with pytest.raises(RecursionError) as raised:
        endless(0)
    told = without_text(raised.value)

    assert told.startswith("RecursionError\n")
    assert told.count("in endless") <= MOST_CALLS
