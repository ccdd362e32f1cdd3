"""`simulated:MS`: processor time instead of a model, and one fixed answer.

`simulated:MS,wall` is busy for so long by the clock on the wall, whether or not its thread is running: only
for tables that are labelled as published, where that is how the work was done.
"""

import math

import numpy as np
from numpy.typing import NDArray

from central_server.detectors.detector import DetectorOptions, Query
from central_server.errors import OptionError
from central_server.frame import Detections
from cython_ext.simulated import spin_cpu, spin_wall

WALL = "wall"


class Simulated:
    """Spins for a given processor time and answers the published servers' object, whatever was sent."""

    labels = ("person",)
    input_wh = None

    def __init__(self, work_ms: float, *, by_wall: bool = False) -> None:
        self.name = f"simulated:{work_ms:g}" + (f",{WALL}" if by_wall else "")
        self._work_ms = work_ms
        self._spin = spin_wall if by_wall else spin_cpu
        self._detections = Detections(
            boxes_xyxy=np.array([[100, 100, 150, 300]], np.float32),
            scores=np.array([0.9], np.float32),
            class_ids=np.array([0], np.int32),
        )
        self._nothing = Detections(
            np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int32)
        )

    def detect(self, image: NDArray[np.uint8], query: Query) -> Detections:  # noqa: ARG002 - never looked at
        """Use `work_ms` of the calling thread's processor time without the GIL; then the fixed object."""
        self._spin(self._work_ms)
        unwanted = query.class_mask is not None and not query.class_mask[0]
        return self._nothing if unwanted or query.min_score > self._detections.scores[0] else self._detections


def create(argument: str, options: DetectorOptions) -> Simulated:  # noqa: ARG001 - nothing applies to it
    """Make the detector for `--detector simulated:MS`."""
    duration, comma, clock = argument.partition(",")
    try:
        work_ms = float(duration)
    except ValueError:
        work_ms = math.nan
    if not 0 <= work_ms <= 60_000 or clock != (WALL if comma else ""):
        raise OptionError(
            f"--detector simulated:MS: found {argument!r}, expected milliseconds of work from 0 to 60000 "
            "(with ,wall behind them: by the clock on the wall)"
        )
    return Simulated(work_ms, by_wall=bool(comma))
