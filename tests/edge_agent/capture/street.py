"""The footage's street as luma planes: empty, under another light, with noise and a person in it."""

from functools import cache
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.uint8]
Gain = float | NDArray[np.float32]

FPS = 10
NOISE_LEVELS = 4.0
"""Standard deviation of the sensor noise."""
# Where a person walks in the footage's first picture, and how much darker or brighter than the street.
PERSON = (slice(236, 324), slice(636, 690))
LEAST_DIFFERENCE = 12


@cache
def planes(path: Path) -> NDArray[np.uint8]:
    """Decode the footage: uint8 (frames, height, width), not to be written to."""
    with av.open(str(path)) as container:
        pictures = [frame.to_ndarray()[: frame.height] for frame in container.decode(video=0)]
    return np.stack(pictures)


@cache
def empty(path: Path) -> NDArray[np.float32]:
    """Give the median of each pixel over the footage: nobody is there."""
    return np.asarray(np.median(planes(path)[::10], axis=0), np.float32)


class Street:
    """Makes one plane after the other, each with noise of its own."""

    def __init__(self, path: Path, seed: int = 1) -> None:
        self.footage, self.empty = planes(path), empty(path)
        self._rng = np.random.default_rng(seed)
        pool = self._rng.standard_normal(1 << 22, dtype=np.float32) * NOISE_LEVELS
        self._noise = np.rint(pool).astype(np.int16)
        first = self.footage[0][PERSON].astype(np.float32)
        self._person, background = first, self.empty[PERSON]
        self._outline = np.abs(first - background) > LEAST_DIFFERENCE

    def with_person(self, left: int, top: int = 236, *, times: int = 1) -> Plane:
        """Put the person of the first picture, so many times as large, into the empty street; no noise."""
        picture = self.empty.copy()
        enlarged = np.ones((times, times), np.float32)
        person, outline = np.kron(self._person, enlarged), np.kron(self._outline, enlarged) > 0
        height, width = person.shape
        picture[top : top + height, left : left + width][outline] = person[outline]
        return np.asarray(np.rint(picture), np.uint8)

    def seen(
        self, scene: NDArray[np.float32] | Plane | None = None, gain: float = 1, offset: float = 0
    ) -> Plane:
        """Look at a scene, by default the empty street, under another light: clipped, with fresh noise."""
        lit = np.rint(
            (self.empty if scene is None else scene) * np.asarray(gain, np.float32) + np.float32(offset)
        )
        start = int(self._rng.integers(len(self._noise) - lit.size))
        noise = self._noise[start : start + lit.size].reshape(lit.shape)
        return np.clip(lit.astype(np.int16) + noise, 0, 255).astype(np.uint8)
