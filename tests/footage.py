"""The footage's frames, as pixels."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray


def frames(path: Path) -> Iterator[NDArray[np.uint8]]:
    """Decode a video, frame by frame: RGB, HWC."""
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)


def frame(path: Path, number: int) -> NDArray[np.uint8]:
    """Decode one frame, counted from 0."""
    return next(islice(frames(path), number, None))
