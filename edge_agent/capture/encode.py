"""From a decoded picture to a JPEG of the wanted size, without a detour through RGB."""

import math
from dataclasses import dataclass

import av
import numpy as np
import simplejpeg
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from numpy.typing import NDArray

from edge_agent.capture.image_size import image_wh
from edge_agent.capture.planes import planes_of
from edge_agent.wanted import Wanted

LEAST_QUALITY = 40
MOST_TRIES = 8


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """A JPEG and its size in pixels."""

    data: bytes
    width: int
    height: int


class JpegEncoder:
    """Scales, converts and encodes the pictures of one camera. Not for use by two threads at a time.

    libswscale converts to what JFIF wants: 4:2:0, full range, BT.601 (a picture that does not say its matrix
    is taken as BT.601, as FFmpeg does), in one pass with the scaling. Pictures are only made smaller, by
    area, keeping the aspect. JPEG knows odd sizes, so none is rounded. libjpeg-turbo then encodes the three
    planes as they are.
    """

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()

    def encode(self, picture: av.VideoFrame, wanted: Wanted) -> EncodedImage | None:
        """Encode a picture; None when nothing brings it below the limit on bytes."""
        width, height = image_wh(wanted, picture.width, picture.height)
        quality, limit_bytes = wanted.quality, wanted.limit_bytes
        for _ in range(MOST_TRIES):
            data = self._encode(picture, width, height, quality)
            if limit_bytes is None or len(data) <= limit_bytes:
                return EncodedImage(data, width, height)
            if quality > LEAST_QUALITY:
                quality = max(LEAST_QUALITY, quality - 20)
            else:
                factor = min(0.8, 0.95 * math.sqrt(limit_bytes / len(data)))
                width, height = max(1, int(width * factor)), max(1, int(height * factor))
        return None

    def _encode(self, picture: av.VideoFrame, width: int, height: int, quality: int) -> bytes:
        scaled = (width, height) != (picture.width, picture.height)
        planar = self._reformatter.reformat(
            picture,
            width=width,
            height=height,
            format="yuvj420p",
            dst_colorspace=Colorspace.ITU601,
            dst_color_range=ColorRange.JPEG,
            interpolation=Interpolation.AREA if scaled else Interpolation.BILINEAR,
            threads=1,
        )
        luma, *chroma = planes_of(planar)
        data: bytes = simplejpeg.encode_jpeg_yuv_planes(_with_edge(luma), *chroma, quality=quality)
        return data


def _with_edge(luma: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Give a plane behind whose last column and row the same lie once more, where their number is odd.

    libjpeg-turbo reads so far: what lies there by chance, of other pictures perhaps, would be sent.
    """
    height, width = luma.shape
    if height % 2 == 0 and width % 2 == 0:
        return luma
    padded = np.empty((height + height % 2, width + width % 2), np.uint8)
    padded[:height, :width] = luma
    padded[:height, width:] = luma[:, -1:]
    padded[height:] = padded[height - 1]
    return padded[:height, :width]
