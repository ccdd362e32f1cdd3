"""Bytes to pixels: only JPEG, PNG and raw frames, checked by their headers before anything is allocated.

The rules for unusual pictures (boxes always refer to the pixels as they were sent):

- An EXIF rotation is ignored.
- Grayscale becomes three equal channels; alpha is dropped; 16 bits become 8 by their high byte.
- CMYK and YCCK JPEGs become RGB without a colour profile, taken as inverted, as Adobe writes them.
- Progressive JPEGs are like others. 12-bit, lossless and arithmetic-coded ones are refused.
- JPEGs of a rare chroma sampling, e.g. 4:1:0, are refused: the strict decoder does not know them.
- A picture that ends early or is damaged is refused, never filled in.
"""

from dataclasses import dataclass

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from central_server.errors import BadImageError, TooLargeError
from central_server.frame import EncodedImage, ImageFormat
from central_server.image_header import ImageHeader, read_jpeg_header
from central_server.png_file import START as PNG_START
from central_server.png_file import PngFile, read_png

JPEG_START = b"\xff\xd8\xff"
MIN_SIDE_PX = 8
CV2_FLAGS = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
RAW_CHANNELS = {ImageFormat.RGB24: 3, ImageFormat.BGR24: 3, ImageFormat.GRAY8: 1}

# A decoder's threads would fight the workers for their cores.
cv2.setNumThreads(1)


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """What a frame may be at most.

    `max_bytes` is the announced limit for image data, `max_pixels` for width x height.
    """

    max_bytes: int = 4 << 20
    max_pixels: int = 4096 * 4096

    def check_bytes(self, image: EncodedImage) -> None:
        """Refuse more bytes than the limit.

        Raises:
            TooLargeError: with both figures.

        """
        if len(image.data) > self.max_bytes:
            raise TooLargeError(f"found {len(image.data)} bytes of image, expected at most {self.max_bytes}")


def decode(image: EncodedImage, limits: ImageLimits) -> NDArray[np.uint8]:
    """Decode a frame to RGB.

    JPEG goes through libjpeg-turbo with the accurate DCT and upsampling. Releases the GIL for all
    but reading the header.

    Returns:
        (height, width, 3) uint8, C-contiguous.

    Raises:
        TooLargeError: more pixels than `limits`; told from the header, before allocating.
        BadImageError: no whole picture of the format it claims.

    """
    if image.format in RAW_CHANNELS:
        return _from_raw(image, limits)
    data = bytes(image.data)
    if data.startswith(JPEG_START) and image.format in (ImageFormat.ENCODED, ImageFormat.JPEG):
        header = read_jpeg_header(data)
        _check_size(header.width, header.height, limits)
        return _decode_jpeg(data, header)
    if data.startswith(PNG_START) and image.format in (ImageFormat.ENCODED, ImageFormat.PNG):
        png = read_png(data)
        _check_size(png.width, png.height, limits)
        return _decode_png(png)
    if image.format is ImageFormat.UNKNOWN:
        raise BadImageError(
            "found an image format that this version does not know, expected JPEG, PNG or raw"
        )
    expected = "JPEG or PNG" if image.format is ImageFormat.ENCODED else image.format.name
    found = f"bytes that begin {data[:8].hex(' ')}" if data else "no bytes"
    raise BadImageError(f"found {found}, expected {expected}")


def _check_size(width: int, height: int, limits: ImageLimits) -> None:
    if width < MIN_SIDE_PX or height < MIN_SIDE_PX:
        raise BadImageError(
            f"found {width} x {height} pixels, expected at least {MIN_SIDE_PX} x {MIN_SIDE_PX}"
        )
    if width * height > limits.max_pixels:
        raise TooLargeError(
            f"found {width} x {height} = {width * height} pixels, expected at most {limits.max_pixels}"
        )


def _from_raw(image: EncodedImage, limits: ImageLimits) -> NDArray[np.uint8]:
    width, height = image.width, image.height
    _check_size(width, height, limits)
    channels = RAW_CHANNELS[image.format]
    expected = width * height * channels
    if len(image.data) != expected:
        raise BadImageError(
            f"found {len(image.data)} bytes of {image.format.name}, "
            f"expected {width} x {height} x {channels} = {expected}"
        )
    pixels = np.frombuffer(image.data, np.uint8).reshape(height, width, channels)
    if image.format is ImageFormat.RGB24:
        return pixels
    to_rgb = cv2.COLOR_BGR2RGB if image.format is ImageFormat.BGR24 else cv2.COLOR_GRAY2RGB
    return np.asarray(cv2.cvtColor(pixels, to_rgb), np.uint8)


def _decode_jpeg(data: bytes, header: ImageHeader) -> NDArray[np.uint8]:
    if header.bits != 8:
        raise BadImageError(f"found a JPEG of {header.bits} bits a sample, expected 8")
    is_cmyk = header.channels == 4
    try:
        # The decoder's own idea of the size, before it allocates by it.
        height, width, *_ = simplejpeg.decode_jpeg_header(data, strict=True)
        if (height, width) != (header.height, header.width):
            raise BadImageError(
                f"found a JPEG of {header.width} x {header.height} that decodes to {width} x {height}"
            )
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(
            data, "CMYK" if is_cmyk else "RGB", fastdct=False, fastupsample=False, strict=True
        )
    except (KeyError, ValueError) as error:
        # Of samplings that TurboJPEG knows and it does not, simplejpeg tells the number by a KeyError.
        if isinstance(error, KeyError) or "subsampling" in str(error):
            raise BadImageError(
                "found a JPEG of a rare chroma sampling, expected 4:4:4, 4:2:2, 4:2:0, 4:4:0, 4:1:1 or gray"
            ) from None
        raise BadImageError(f"found a damaged JPEG of {header.width} x {header.height}: {error}") from None
    return _cmyk_to_rgb(pixels) if is_cmyk else pixels


def _cmyk_to_rgb(inverted_cmyk: NDArray[np.uint8]) -> NDArray[np.uint8]:
    black = cv2.cvtColor(inverted_cmyk[..., 3], cv2.COLOR_GRAY2RGB)
    return np.asarray(cv2.multiply(inverted_cmyk[..., :3], black, scale=1 / 255), np.uint8)


def _decode_png(png: PngFile) -> NDArray[np.uint8]:
    try:
        pixels = cv2.imdecode(np.frombuffer(png.to_plain(), np.uint8), CV2_FLAGS)
    except cv2.error as error:
        raise BadImageError(f"found a PNG that does not decode: {error.err}") from None
    if pixels is None or pixels.shape != (png.height, png.width, 3):
        raise BadImageError(f"found a damaged PNG of {png.width} x {png.height}")
    return np.asarray(pixels, np.uint8)
