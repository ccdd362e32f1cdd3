"""What the server may wish of a gateway's camera, as plain frozen values; the latest of each kind counts."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

Point = tuple[float, float]
"""Fractions of the frame's width and height, 0 to 1."""
Polygon = tuple[Point, ...]

LEAST_FPS = 0.1
MOST_FPS = 60.0
# What an agent takes; masks are drawn by people.
MOST_POLYGONS = 32
LEAST_POINTS = 3
MOST_POINTS = 64


@dataclass(frozen=True, slots=True)
class FrameRate:
    """Send so many frames a second; 0 gives the rate back to the agent.

    Raises:
        ValueError: neither 0 nor from LEAST_FPS to MOST_FPS.

    """

    frames_per_second: float

    def __post_init__(self) -> None:
        if self.frames_per_second != 0 and not LEAST_FPS <= self.frames_per_second <= MOST_FPS:
            expected = f"0 or {LEAST_FPS:g} to {MOST_FPS:g}"
            raise ValueError(f"found {self.frames_per_second:g} frames a second, expected {expected}")

    @property
    def stands(self) -> bool:
        """Whether it asks for anything: what does not is forgotten once it is told."""
        return self.frames_per_second != 0


@dataclass(frozen=True, slots=True)
class Viewing:
    """Someone is watching the camera, or nobody is any more."""

    watched: bool

    @property
    def stands(self) -> bool:
        """Whether it asks for anything."""
        return self.watched


@dataclass(frozen=True, slots=True)
class Masks:
    """The regions to ignore, all of them; none clears what the server had set.

    Raises:
        ValueError: too many polygons or points, or a point outside of the frame.

    """

    polygons: tuple[Polygon, ...]

    def __post_init__(self) -> None:
        if len(self.polygons) > MOST_POLYGONS:
            raise ValueError(f"found {len(self.polygons)} polygons, expected at most {MOST_POLYGONS}")
        for polygon in self.polygons:
            _check(polygon)

    @property
    def stands(self) -> bool:
        """Whether it asks for anything."""
        return bool(self.polygons)


Wish = FrameRate | Viewing | Masks


def _check(polygon: Polygon) -> None:
    if not LEAST_POINTS <= len(polygon) <= MOST_POINTS:
        raise ValueError(
            f"found a polygon of {len(polygon)} points, expected {LEAST_POINTS} to {MOST_POINTS}"
        )
    for x_norm, y_norm in polygon:
        if not (_is_fraction(x_norm) and _is_fraction(y_norm)):
            raise ValueError(f"found the point {x_norm:g},{y_norm:g}, expected fractions from 0 to 1")


def _is_fraction(value: float) -> bool:
    return math.isfinite(value) and 0 <= value <= 1


def polygons_from(parts: Iterable[Iterable[Iterable[float]]]) -> tuple[Polygon, ...]:
    """Make polygons of nested lists, such as JSON has.

    Raises:
        ValueError, TypeError: something else than pairs of numbers.

    """
    polygons = []
    for part in parts:
        pairs = [tuple(map(float, pair)) for pair in part]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError("found a point that is no pair of numbers")
        polygons.append(tuple((pair[0], pair[1]) for pair in pairs))
    return tuple(polygons)
