"""`colour:RRGGBB`: patches of one colour, as a detector from outside camera-ai.

It shows all that a detector needs: a factory, which the entry point in pyproject.toml names, and an object
with a name, labels, an input size and `detect`.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from central_server.detectors.detector import DetectorOptions, Query
from central_server.errors import OptionError
from central_server.frame import Detections

# A pixel belongs to a patch when none of its channels is further than this from the colour.
TOLERANCE = 40
# Smaller patches are noise.
MIN_AREA_PX = 64
MAX_DETECTIONS = 100


class Colour:
    """Finds patches of pixels near one colour; the score is the part of its box that a patch fills."""

    labels = ("patch",)
    # Any size will do. A size is named so that frames are decoded.
    input_wh = (640, 480)

    def __init__(self, rgb: tuple[int, int, int]) -> None:
        self.name = "colour:" + bytes(rgb).hex()
        self._low = np.clip(np.array(rgb) - TOLERANCE, 0, 255)
        self._high = np.clip(np.array(rgb) + TOLERANCE, 0, 255)

    def detect(self, image: NDArray[np.uint8], query: Query) -> Detections:
        """Find the patches in an RGB image, HWC uint8; OpenCV releases the GIL meanwhile."""
        near = cv2.inRange(image, self._low, self._high)
        _, _, stats, _ = cv2.connectedComponentsWithStats(near, connectivity=8, ltype=cv2.CV_32S)
        x, y, width, height, area = stats[1:].T  # the first component is what is not near
        scores = (area / (width * height)).astype(np.float32)
        unwanted = query.class_mask is not None and not query.class_mask[0]
        kept = np.flatnonzero((area >= MIN_AREA_PX) & (scores >= query.min_score) & (not unwanted))
        kept = kept[np.argsort(-scores[kept], kind="stable")][:MAX_DETECTIONS]
        boxes_xyxy = np.stack([x, y, x + width, y + height], axis=1).astype(np.float32)
        return Detections(boxes_xyxy[kept], scores[kept], np.zeros(len(kept), np.int32))


def create(argument: str, options: DetectorOptions) -> Colour:
    """Make the detector for `--detector colour:RRGGBB`; called once for each worker."""
    if options.labels_file is not None:
        raise OptionError("--detector colour:RRGGBB: takes no --labels")
    try:
        red, green, blue = bytes.fromhex(argument)
    except ValueError:
        raise OptionError(
            f"--detector colour:{argument}: found {argument!r}, expected a colour such as ff8800"
        ) from None
    return Colour((red, green, blue))
