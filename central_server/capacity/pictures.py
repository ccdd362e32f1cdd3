"""The frames of a load: pictures in the package, or the user's own."""

import re
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from central_server.errors import BadImageError, OptionError
from central_server.frame import EncodedImage
from central_server.image import MIN_SIDE_PX, ImageLimits, decode

MEDIA = Path(__file__).parent.parent / "media"
MAX_PICTURES = 100
SIZE = re.compile(r"(\d{1,5})x(\d{1,5})")
LIMITS = ImageLimits()


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """Which pictures, and how large.

    Attributes:
        files: the user's own JPEGs or PNGs; empty for those in the package.
        size_wh: pixels; None leaves the user's own as they are, byte for byte.
        quality: of the JPEGs that are made, 1 to 100.

    """

    files: tuple[Path, ...] = ()
    size_wh: tuple[int, int] | None = None
    quality: int = 80


@dataclass(frozen=True, slots=True)
class Picture:
    """One frame's bytes as they are sent, its size in pixels, and where they are for the generator."""

    data: bytes
    size_wh: tuple[int, int]
    file: Path


def parse_size(text: str) -> tuple[int, int]:
    """Read WIDTHxHEIGHT.

    Raises:
        OptionError: no such thing, or not a size that the server takes.

    """
    match = SIZE.fullmatch(text)
    if match is None:
        raise OptionError(f"--size: found {text!r}, expected WIDTHxHEIGHT in pixels, e.g. 1920x1080")
    width, height = int(match[1]), int(match[2])
    if min(width, height) < MIN_SIDE_PX or width * height > LIMITS.max_pixels:
        raise OptionError(
            f"--size: found {text!r}, expected sides of at least {MIN_SIDE_PX} and at most "
            f"{LIMITS.max_pixels} pixels in all"
        )
    return width, height


def prepare(options: PictureOptions, folder: Path) -> tuple[Picture, ...]:
    """Read the pictures, scale and encode them where that is asked for, and write them to a folder.

    Raises:
        OptionError: a file that cannot be read, is no picture, or is more than the server takes.

    """
    files = options.files or tuple(sorted(MEDIA.glob("walkers-*.jpg")))
    if len(files) > MAX_PICTURES:
        raise OptionError(f"--picture: found {len(files)} files, expected at most {MAX_PICTURES}")
    return tuple(_prepare(file, folder / f"{number}.image", options) for number, file in enumerate(files))


def _prepare(file: Path, target: Path, options: PictureOptions) -> Picture:
    try:
        with file.open("rb") as opened:
            data = opened.read(LIMITS.max_bytes + 1)
        pixels = _decode(data)
        if options.size_wh is not None:
            pixels = _scale(pixels, options.size_wh)
            data = simplejpeg.encode_jpeg(pixels, options.quality, "RGB", "420")
            _decode(data)
    except OSError as error:
        raise OptionError(f"--picture {file}: cannot be read: {error.strerror}") from error
    except BadImageError as error:
        raise OptionError(f"--picture {file}: {error}") from error
    target.write_bytes(data)
    return Picture(data, (pixels.shape[1], pixels.shape[0]), target)


def _decode(data: bytes) -> NDArray[np.uint8]:
    image = EncodedImage(data)
    LIMITS.check_bytes(image)
    return decode(image, LIMITS)


def _scale(pixels: NDArray[np.uint8], size_wh: tuple[int, int]) -> NDArray[np.uint8]:
    if size_wh == (pixels.shape[1], pixels.shape[0]):
        return pixels
    smaller = size_wh[0] < pixels.shape[1]
    scaled = cv2.resize(pixels, size_wh, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_CUBIC)
    return np.ascontiguousarray(scaled, np.uint8)
