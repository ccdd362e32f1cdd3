"""How large a picture is sent. Pure."""

from typing import Final

from edge_agent.wanted import Wanted

USEFUL: Final = 2.0
"""Times the model's input, both ways, is as much as a model that samples without smoothing makes use of."""


def image_wh(wanted: Wanted, width: int, height: int) -> tuple[int, int]:
    """Give the width and height, in pixels, with which a picture of this size is sent: never larger.

    `max_width` decides where there is one. Else the picture is made no smaller than twice the model's input
    in both directions, and no larger than that needs; the aspect stays. `shrink` is on top of either.
    """
    factor = 1.0
    if wanted.max_width is not None:
        factor = wanted.max_width / width
    elif wanted.input_wh is not None:
        factor = USEFUL * max(wanted.input_wh[0] / width, wanted.input_wh[1] / height)
    factor = min(factor, 1.0) * min(wanted.shrink, 1.0)
    return max(1, round(width * factor)), max(1, round(height * factor))
