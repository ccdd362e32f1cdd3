"""What a server tells at the start of a stream, and what is made of it when it is absurd."""

import pytest

from edge_agent.wire import parse_facts


@pytest.mark.parametrize(
    ("told", "input_wh"),
    [
        ("300x300", (300, 300)),
        ("640x384", (640, 384)),
        ("32x32", (32, 32)),
        ("31x300", None),
        ("1x1", None),
        ("0x300", None),
        ("100000x300", None),
        ("300", None),
        ("300x300x3", None),
        ("-300x300", None),
        ("", None),
    ],
)
def test_the_models_input_size(told: str, input_wh: tuple[int, int] | None) -> None:
    """Is taken where it can be meant; else it is as if nothing had been said."""
    assert parse_facts([("camera-ai-input-wh", told)]).input_wh == input_wh
