"""Objects followed through a video: greedy, by the overlap of their boxes."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from central_server.detectors.coco_ssd import create
from central_server.detectors.detector import DetectorOptions, Query
from tests import footage

LEAST_IOU = 0.3
LONGEST_GAP_S = 0.5
LEAST_SCORE = 0.6
LEAST_DURATION_S = 1.0


@dataclass(slots=True)
class Track:
    """One object: the times at which it was detected, and its boxes then (left, top, right, bottom)."""

    label: str
    seen_s: list[float]
    boxes: list[NDArray[np.float32]]

    @property
    def duration_s(self) -> float:
        """From the first detection to the last."""
        return self.seen_s[-1] - self.seen_s[0]


Found = tuple[float, Iterable[tuple[str, NDArray[np.float32]]]]


def follow(frames: Iterable[Found]) -> list[Track]:
    """Join detections, frame by frame a time and (label, box) by score descending, to tracks.

    Each detection continues the track of its label that it overlaps most, if that was seen within
    LONGEST_GAP_S and is not taken by a better one; all others begin a track.
    """
    tracks: list[Track] = []
    for at_s, detections in frames:
        open_tracks = [track for track in tracks if at_s - track.seen_s[-1] <= LONGEST_GAP_S]
        for label, box in detections:
            rivals = [track for track in open_tracks if track.label == label]
            best = max(rivals, key=lambda track: iou(track.boxes[-1], box), default=None)
            if best is not None and iou(best.boxes[-1], box) >= LEAST_IOU:
                open_tracks = [track for track in open_tracks if track is not best]
                best.seen_s.append(at_s)
                best.boxes.append(box)
            else:
                tracks.append(Track(label, [at_s], [box]))
    return tracks


def full_rate_tracks(path: Path, frames: int, fps: float) -> list[Track]:
    """Detect in each frame of the footage and follow what is found for over LEAST_DURATION_S.

    Times count from the first frame; detections count from LEAST_SCORE on.
    """
    detector = create("", DetectorOptions())
    found = []
    for number, image in enumerate(islice(footage.frames(path), frames)):
        detections = detector.detect(image, Query(LEAST_SCORE))
        labels = [detector.labels[class_id] for class_id in detections.class_ids]
        found.append((number / fps, list(zip(labels, detections.boxes_xyxy, strict=True))))
    return [track for track in follow(found) if track.duration_s > LEAST_DURATION_S]


def iou(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Divide what two boxes share by what they cover together."""
    width, height = np.maximum(0, np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]))
    areas = [float(np.prod(box[2:] - box[:2])) for box in (one, other)]
    return float(width * height / (areas[0] + areas[1] - width * height))
