"""The planes of a picture as arrays, as they lie in memory."""

from types import MappingProxyType
from typing import Final

import av
import numpy as np
from numpy.typing import NDArray

SUBSAMPLING_WH: Final = MappingProxyType(
    {
        name: subsampling_wh
        for digits, subsampling_wh in {
            "420": (2, 2),
            "422": (2, 1),
            "444": (1, 1),
            "440": (1, 2),
            "411": (4, 1),
            "410": (4, 4),
        }.items()
        for name in (f"yuv{digits}p", f"yuvj{digits}p")
    }
    | {"gray": (1, 1)}
)
"""The formats of eight bits with luma and chroma in planes of their own: how many pixels, across and down,
share a sample of chroma."""


def planes_of(picture: av.VideoFrame) -> list[NDArray[np.uint8]]:
    """Give views of the planes of a picture in one of the formats above: uint8 (rows, columns).

    Luma first, at the picture's size; then Cb and Cr, rounded up. Rows are strided as FFmpeg pads them. The
    views are valid while the picture is, and until it is made writable.
    """
    across, down = SUBSAMPLING_WH[picture.format.name]
    luma = picture.height, picture.width
    chroma = -(-picture.height // down), -(-picture.width // across)
    return [
        np.ndarray(
            chroma if number else luma, np.uint8, buffer=memoryview(plane), strides=(plane.line_size, 1)
        )
        for number, plane in enumerate(picture.planes)
    ]
