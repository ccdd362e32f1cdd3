"""The walkers as pictures and as JPEG files, for loads with a model."""

from collections.abc import Iterator
from pathlib import Path

import av
import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from bench.programs import WALKERS


def frames(step: int = 1, first: int = 0) -> Iterator[NDArray[np.uint8]]:
    """Give every so many of the clip's 400 frames, from the first wanted: (576, 768, 3) uint8, RGB."""
    with av.open(str(WALKERS)) as container:
        for number, picture in enumerate(container.decode(video=0)):
            if number >= first and (number - first) % step == 0:
                yield np.ascontiguousarray(picture.to_ndarray(format="rgb24"), np.uint8)


def scaled(image: NDArray[np.uint8], frame_wh: tuple[int, int]) -> NDArray[np.uint8]:
    """Scale an image to this size, px."""
    return np.ascontiguousarray(cv2.resize(image, frame_wh, interpolation=cv2.INTER_CUBIC), np.uint8)


def write_jpegs(
    folder: Path, step: int, quality: int, frame_wh: tuple[int, int] | None = None
) -> tuple[Path, ...]:
    """Write every so many frames as JPEGs of 4:2:0, scaled if a size is given; gives the files."""
    files = []
    for number, image in enumerate(frames(step)):
        pixels = image if frame_wh is None else scaled(image, frame_wh)
        files.append(folder / f"{pixels.shape[1]}x{pixels.shape[0]}-{number:03}.jpg")
        files[-1].write_bytes(simplejpeg.encode_jpeg(pixels, quality=quality, colorsubsampling="420"))
    return tuple(files)
