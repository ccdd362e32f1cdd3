"""The protocol that every detector keeps, built in or from elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from central_server.frame import Detections


@dataclass(frozen=True, slots=True)
class Query:
    """What a stream wants to be told.

    Attributes:
        min_score: objects below it are left out.
        class_mask: (number of labels,) uint8, 1 for the classes wanted; None for all.

    """

    min_score: float = 0.5
    class_mask: NDArray[np.uint8] | None = None


class Detector(Protocol):
    """Finds objects in one image at a time.

    A detector belongs to one worker thread: `detect` is never called from two threads at once, so
    it may keep buffers between calls. It should release the GIL while it computes.
    """

    @property
    def name(self) -> str:
        """As given to ``--detector``."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """One for each class id that `detect` can return."""
        ...

    @property
    def input_wh(self) -> tuple[int, int] | None:
        """The model's input size in pixels, for agents that want to send no more than is useful.

        None says that the detector does not look at pixels: frames are then not even decoded, and
        `detect` gets an image of no rows.
        """
        ...

    def detect(self, image: NDArray[np.uint8], query: Query) -> Detections:
        """Find the objects in an RGB image, HWC uint8; boxes in its pixels, by score descending."""
        ...


@dataclass(frozen=True, slots=True)
class DetectorOptions:
    """What the command line says of the detector besides its name."""

    labels_file: Path | None = None
    providers: Sequence[str] = field(default=("CPUExecutionProvider",))


# An entry point of the group `camera_ai.detectors`: called once for each worker with what follows
# the colon in `--detector NAME:ARGUMENT` (empty without one); raises DetectorError.
DetectorFactory = Callable[[str, DetectorOptions], Detector]
