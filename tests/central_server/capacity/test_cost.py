"""What the stages of a frame cost, against the thread's own account of it."""

import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from central_server.capacity.cost import measure_stages
from central_server.detectors import registry
from central_server.detectors.detector import Detector, DetectorOptions, Query
from central_server.frame import Detections
from cython_ext.simulated import spin_cpu
from tests import pictures

NOTHING = Detections(np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int32))


class Spinning:
    """A detector from elsewhere that looks at pixels and uses a known time."""

    name = "spinning"
    labels = ("person",)
    input_wh = (64, 64)

    def __init__(self) -> None:
        self.seen: list[tuple[int, ...]] = []

    def detect(self, image: NDArray[np.uint8], query: Query) -> Detections:
        self.seen.append(image.shape)
        spin_cpu(5)
        return NOTHING


def load(name: str, count: int = 1) -> list[Detector]:
    return registry.load(name, DetectorOptions(), count)


def test_the_packaged_model_is_split_into_its_stages() -> None:
    """In the order of the work, and inference is most of it."""
    used_ms = measure_stages(load("coco-ssd"), [pictures.jpeg(576, 768)], 0.2)

    assert list(used_ms) == ["decode", "resize", "inference", "boxes"]
    assert all(0 < stage_ms < 10_000 for stage_ms in used_ms.values())
    assert used_ms["inference"] > used_ms["boxes"]


def test_the_stages_are_what_detect_does() -> None:
    """One after the other they find the same objects, for both families of models."""
    detector = load("coco-ssd")[0]
    image = _walkers()
    tensor, placement = detector.prepare(image)  # type: ignore[attr-defined]
    found = detector.find_boxes(detector.run_model(tensor), placement, Query())  # type: ignore[attr-defined]
    expected = detector.detect(image, Query())

    assert len(expected.scores) >= 3
    np.testing.assert_array_equal(found.boxes_xyxy, expected.boxes_xyxy)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_a_detector_that_looks_at_no_pixels_is_one_figure() -> None:
    """Its time is what it said it would use."""
    used_ms = measure_stages(load("simulated:5"), [b"any bytes"], 0.3)

    assert list(used_ms) == ["detect"]
    assert 5 <= used_ms["detect"] < 20


def test_a_detector_from_elsewhere_is_decoded_for_and_one_figure() -> None:
    """And sees every picture, in turn, however short the time is."""
    detector = Spinning()
    used_ms = measure_stages([detector], [pictures.jpeg(96, 128), pictures.jpeg(48, 64)], 0)

    assert list(used_ms) == ["decode", "detect"]
    assert used_ms["detect"] >= 5
    assert detector.seen == [(96, 128, 3), (48, 64, 3)]


def test_each_detector_works_in_a_thread_of_its_own() -> None:
    """What they use is divided by the frames of all."""
    detectors = [Spinning(), Spinning()]
    begun_s = time.process_time()
    used_ms = measure_stages(detectors, [pictures.jpeg()], 0.2)
    used_s = time.process_time() - begun_s
    frames = sum(len(detector.seen) for detector in detectors)

    assert all(detector.seen for detector in detectors)
    # Nothing is counted that the process has not used.
    assert 5 <= sum(used_ms.values()) <= used_s * 1e3 / frames + 1


def test_a_detector_that_fails_is_heard() -> None:
    """Its own error comes out, and the other threads end."""

    class Failing(Spinning):
        def detect(self, image: NDArray[np.uint8], query: Query) -> Detections:
            raise RuntimeError("no good")

    with pytest.raises(RuntimeError, match="no good"):
        measure_stages([Failing(), Spinning()], [pictures.jpeg()], 0.2)


def _walkers() -> NDArray[np.uint8]:
    from central_server.frame import EncodedImage
    from central_server.image import ImageLimits, decode

    media = Path(registry.__file__).parents[1] / "media"
    return decode(EncodedImage((media / "walkers-150.jpg").read_bytes()), ImageLimits())
