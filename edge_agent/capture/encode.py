"""From a decoded picture to a JPEG of the wanted size, without a detour through RGB."""

import math
from dataclasses import dataclass

import av
import numpy as np
import simplejpeg
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from numpy.typing import NDArray

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
    is taken as BT.601, as FFmpeg does). Only wider pictures are scaled, by area, keeping the aspect. JPEG
    knows odd sizes, so none is rounded. libjpeg-turbo then encodes the three planes as they are.
    """

    def __init__(self, max_width: int | None, quality: int) -> None:
        self.limit_bytes: int | None = None
        """A larger JPEG is encoded again, worse and smaller; another thread may set it."""
        self._max_width = max_width
        self._quality = quality
        self._reformatter = VideoReformatter()

    def target_size(self, width: int, height: int) -> tuple[int, int]:
        """Give the width and height that a picture of this size is sent with."""
        if self._max_width is None or width <= self._max_width:
            return width, height
        return self._max_width, max(1, round(height * self._max_width / width))

    def encode(self, picture: av.VideoFrame) -> EncodedImage | None:
        """Encode a picture; None when nothing brings it below the limit."""
        width, height = self.target_size(picture.width, picture.height)
        quality = self._quality
        for _ in range(MOST_TRIES):
            data = self._encode(picture, width, height, quality)
            if self.limit_bytes is None or len(data) <= self.limit_bytes:
                return EncodedImage(data, width, height)
            if quality > LEAST_QUALITY:
                quality = max(LEAST_QUALITY, quality - 20)
            else:
                factor = min(0.8, 0.95 * math.sqrt(self.limit_bytes / len(data)))
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
        data: bytes = simplejpeg.encode_jpeg_yuv_planes(*_planes(planar), quality=quality)
        return data


def _planes(picture: av.VideoFrame) -> list[NDArray[np.uint8]]:
    """Give views of the Y, Cb and Cr planes of a 4:2:0 picture, rows strided as FFmpeg pads them."""
    half = (picture.height + 1) // 2, (picture.width + 1) // 2
    return [
        np.ndarray(shape, np.uint8, buffer=memoryview(plane), strides=(plane.line_size, 1))
        for plane, shape in zip(picture.planes, ((picture.height, picture.width), half, half), strict=True)
    ]
