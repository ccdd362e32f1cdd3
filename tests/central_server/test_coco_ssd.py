"""The detector in the package, on footage of a street."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from central_server.detectors.coco_ssd import create
from central_server.detectors.detector import DetectorOptions, Query
from central_server.detectors.ssd import Ssd
from central_server.errors import OptionError
from central_server.frame import Detections
from tests import footage


@pytest.fixture(scope="module")
def detector() -> Ssd:
    """Load the model once."""
    return create("", DetectorOptions())


@pytest.fixture(scope="module")
def street(walkers: Path) -> NDArray[np.uint8]:
    """Give the frame that shows seven people and two parked cars."""
    return footage.frame(walkers, 300)


def labels_of(detector: Ssd, detections: Detections) -> Counter[str]:
    return Counter(detector.labels[class_id] for class_id in detections.class_ids)


def test_it_sees_seven_people_and_two_cars(detector: Ssd, street: NDArray[np.uint8]) -> None:
    """The original of the footage gives people between .66 and .93; encoded again it moves a little."""
    detections = detector.detect(street, Query(0.5))

    assert labels_of(detector, detections) == {"person": 7, "car": 2}
    people = detections.scores[[detector.labels[i] == "person" for i in detections.class_ids]]
    assert people.min() == pytest.approx(0.66, abs=0.05)
    assert people.max() == pytest.approx(0.93, abs=0.05)


def test_what_it_finds_is_in_order_and_in_the_frame(detector: Ssd, street: NDArray[np.uint8]) -> None:
    """By score descending, boxes with an area, inside the frame, at least the score asked for."""
    detections = detector.detect(street, Query(0.1))
    x1, y1, x2, y2 = detections.boxes_xyxy.T

    assert len(detections.scores) > 9
    assert (np.diff(detections.scores) <= 0).all()
    assert detections.scores.min() >= 0.1
    assert ((x1 >= 0) & (y1 >= 0) & (x2 <= 768) & (y2 <= 576)).all()
    assert ((x2 > x1) & (y2 > y1)).all()


def test_only_the_labels_asked_for(detector: Ssd, street: NDArray[np.uint8]) -> None:
    """Asking for cars gives the same cars and nothing else."""
    everything = detector.detect(street, Query(0.5))
    cars = detector.detect(
        street, Query(0.5, np.array([label == "car" for label in detector.labels], np.uint8))
    )

    chosen = [detector.labels[i] == "car" for i in everything.class_ids]
    np.testing.assert_array_equal(cars.boxes_xyxy, everything.boxes_xyxy[chosen])
    np.testing.assert_array_equal(cars.scores, everything.scores[chosen])


def test_a_higher_score_gives_a_part(detector: Ssd, street: NDArray[np.uint8]) -> None:
    """What is left out is what is below."""
    low, high = detector.detect(street, Query(0.5)), detector.detect(street, Query(0.8))

    np.testing.assert_array_equal(high.scores, low.scores[low.scores >= 0.8])
    assert 0 < len(high.scores) < len(low.scores)


def test_one_frame_leaves_nothing_for_the_next(detector: Ssd, street: NDArray[np.uint8]) -> None:
    """Buffers are used again; what they held is not."""
    first = detector.detect(street, Query(0.5))
    boxes_xyxy = first.boxes_xyxy.copy()
    assert len(detector.detect(np.zeros((1080, 1920, 3), np.uint8), Query(0.5)).scores) == 0
    again = detector.detect(street, Query(0.5))

    np.testing.assert_array_equal(again.boxes_xyxy, boxes_xyxy)
    np.testing.assert_array_equal(first.boxes_xyxy, boxes_xyxy)


@pytest.mark.parametrize("shape", [(8, 8), (8, 4000), (4000, 8), (577, 769)])
def test_every_size_of_picture_is_taken(detector: Ssd, shape: tuple[int, int]) -> None:
    """Boxes stay inside the frame, however narrow."""
    detections = detector.detect(
        np.random.default_rng(3).integers(0, 256, (*shape, 3), np.uint8), Query(0.01)
    )

    assert (detections.boxes_xyxy >= 0).all()
    assert (detections.boxes_xyxy <= [shape[1], shape[0], shape[1], shape[0]]).all()


def test_what_it_says_of_itself(detector: Ssd) -> None:
    """Name, input size, and a label for each class; background and gaps in COCO's ids have none."""
    assert (detector.name, detector.input_wh) == ("coco-ssd", (300, 300))
    assert len(detector.labels) == 91
    assert sum(bool(label) for label in detector.labels) == 80
    assert (detector.labels[0], detector.labels[1], detector.labels[3], detector.labels[12]) == (
        "",
        "person",
        "car",
        "",
    )


def test_a_session_starts_no_threads(street: NDArray[np.uint8]) -> None:
    """One thread in each session: as many work as there are workers, and they do not fight for cores."""
    tasks = Path("/proc/self/task")
    before = len(list(tasks.iterdir()))
    sessions = [create("", DetectorOptions()) for _ in range(2)]
    for session in sessions:
        session.detect(street, Query())

    assert len(list(tasks.iterdir())) == before


def test_it_takes_no_argument_and_no_labels(tmp_path: Path) -> None:
    """They belong to models of the users' own."""
    with pytest.raises(OptionError, match=r"takes no argument and no --labels.*onnx:FILE"):
        create("large", DetectorOptions())
    with pytest.raises(OptionError, match="--labels"):
        create("", DetectorOptions(labels_file=tmp_path / "labels.txt"))


def test_a_provider_that_is_not_installed_is_named() -> None:
    """With those that are."""
    with pytest.raises(OptionError, match=r"--provider: found 'TpuProvider', expected one of .*CPUExecution"):
        create("", DetectorOptions(providers=("TpuProvider",)))
