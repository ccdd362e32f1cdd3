"""A decoded picture's luma plane, as it lies in memory."""

import av
import numpy as np
from numpy.typing import NDArray


def luma_of(picture: av.VideoFrame) -> NDArray[np.uint8]:
    """Give a picture's luma, uint8 (height, width): a view, valid while the picture is, or else converted.

    A view where luma of eight bits has a plane of its own, as in what H.264, H.265 and JPEG decoders usually
    give; rows are strided as FFmpeg pads them. Packed pixels, RGB and more bits are converted to a new array.
    """
    first = picture.format.components[0]
    if (
        first.is_luma
        and first.bits == 8
        and (picture.format.is_planar or len(picture.format.components) == 1)
    ):
        plane = picture.planes[0]
        shape, strides = (picture.height, picture.width), (plane.line_size, 1)
        return np.ndarray(shape, np.uint8, buffer=memoryview(plane), strides=strides)
    return np.asarray(picture.to_ndarray(format="gray"), np.uint8)
