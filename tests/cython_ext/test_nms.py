"""`nms`: the rules of suppression, each with the value that tells it from its neighbours."""

import re
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from cython_ext import reference
from cython_ext.nms import nms

Boxes = Sequence[Sequence[float]]

SQUARE: list[float] = [0, 0, 10, 10]
NAN, INF = np.nan, np.inf


def kept(
    boxes: Boxes,
    scores: list[float] | None = None,
    class_ids: list[int] | None = None,
    iou_threshold: float = 0.5,
    **options: Any,
) -> list[int]:
    """Give the indices that stay; scores are all 0.5 and classes all 0 unless they matter."""
    count = len(boxes)
    result = nms(
        np.array(boxes, np.float32).reshape(count, 4),
        np.array([0.5] * count if scores is None else scores, np.float32),
        np.array([0] * count if class_ids is None else class_ids, np.int32),
        iou_threshold,
        **options,
    )
    assert result.dtype == np.int64
    return [int(index) for index in result]


def test_the_best_of_an_overlap_stays() -> None:
    """Indices come by score descending, whatever the order of the boxes."""
    boxes: Boxes = [[1, 0, 11, 10], SQUARE, [50, 50, 60, 60]]

    assert kept(boxes, [0.7, 0.9, 0.8]) == [1, 2]


def test_equal_scores_keep_the_lower_index() -> None:
    """Of boxes that are alike in all, the first stays; those apart keep their order."""
    assert kept([SQUARE, SQUARE, SQUARE]) == [0]
    assert kept([[20, 0, 30, 10], SQUARE, [40, 0, 50, 10]], [0.5, 0.7, 0.5]) == [1, 0, 2]


@pytest.mark.parametrize(
    ("other", "iou"),
    [([0, 0, 10, 5], 0.5), ([0, 0, 10, 6], 0.6), ([0, 0, 10, 7], 0.7), ([0, 0, 1, 1], 0.01), (SQUARE, 1.0)],
)
def test_equal_to_the_threshold_stays(other: list[float], iou: float) -> None:
    """Only an IoU greater than the threshold suppresses."""
    assert kept([SQUARE, other], iou_threshold=iou) == [0, 1]
    assert kept([SQUARE, other], iou_threshold=np.nextafter(iou, 0)) == [0]


def test_touching_is_no_overlap() -> None:
    """With a threshold of 0 any overlap suppresses, a common edge does not."""
    assert kept([SQUARE, [10, 0, 20, 10], [0, 10, 10, 20]], iou_threshold=0) == [0, 1, 2]
    assert kept([SQUARE, [9.99, 0, 20, 10]], iou_threshold=0) == [0]


def test_a_box_suppresses_its_own_class_only() -> None:
    """Unless it is told to ignore classes."""
    boxes, scores, class_ids = [SQUARE, SQUARE, SQUARE], [0.7, 0.9, 0.8], [1, 2, 1]

    assert kept(boxes, scores, class_ids) == [1, 2]
    assert kept(boxes, scores, class_ids, class_agnostic=True) == [1]


def test_a_suppressed_box_suppresses_nothing() -> None:
    """The middle one of a chain goes, so that the far end stays."""
    assert kept([SQUARE, [3, 0, 13, 10], [6, 0, 16, 10]], [0.9, 0.8, 0.7], iou_threshold=0.4) == [0, 2]


def test_nan_and_infinity_are_dropped() -> None:
    """A NaN score, or a box with NaN or infinity, is not kept and suppresses nothing."""
    boxes: Boxes = [SQUARE, [NAN, 0, 10, 10], [0, 0, INF, 10], [0, -INF, 10, 10], SQUARE, [20, 0, 30, 10]]

    assert kept(boxes, [NAN, 0.9, 0.9, 0.9, 0.5, INF]) == [5, 4]
    assert kept([SQUARE], [NAN]) == []


@pytest.mark.parametrize("degenerate", [[5, 5, 5, 5], [0, 5, 10, 5], [10, 0, 0, 10], [10, 10, 0, 0]], ids=str)
def test_a_box_without_area_overlaps_nothing(degenerate: list[float]) -> None:
    """A point, a line or a reversed box has IoU 0, with itself, too."""
    assert kept([degenerate, SQUARE, degenerate], iou_threshold=0) == [0, 1, 2]


@pytest.mark.parametrize("offset", [0.0, 8000.0, 60_000.0, -1e6, 2.0**23])
@pytest.mark.parametrize("class_id", [0, 90, 2**31 - 1, -(2**31)])
def test_coordinates_and_class_ids_may_be_of_any_size(offset: float, class_id: int) -> None:
    """No box is moved to tell classes apart, so nothing overflows or loses its precision."""
    here, beside = [offset, offset, offset + 8, offset + 8], [offset + 4, offset, offset + 12, offset + 8]

    assert kept([here, beside], class_ids=[class_id, class_id], iou_threshold=0.3) == [0]
    assert kept([here, beside], class_ids=[class_id, class_id], iou_threshold=0.34) == [0, 1]
    assert kept([here, here], class_ids=[class_id, 7]) == [0, 1]


def test_the_largest_float32_has_an_area() -> None:
    """Areas are reckoned where the square of the largest edge does not overflow."""
    huge = float(np.finfo(np.float32).max)

    assert kept([[-huge, -huge, huge, huge], [-huge, -huge, huge, huge]]) == [0]
    assert kept([[-huge, -huge, huge, huge], [-huge, -huge, huge, 0]]) == [0, 1]


def test_the_number_kept_is_bounded() -> None:
    """The best `max_detections` stay; 0 keeps none."""
    boxes = [[20.0 * i, 0, 20.0 * i + 10, 10] for i in range(400)]
    scores = [i / 400 for i in range(400)]

    assert kept(boxes, scores) == list(range(399, 99, -1))
    assert kept(boxes, scores, max_detections=2) == [399, 398]
    assert kept(boxes, scores, max_detections=0) == []


def test_the_number_looked_at_is_bounded() -> None:
    """Only the best `max_candidates` that can be looked at count, dropped ones not among them."""
    boxes: Boxes = [SQUARE, SQUARE, [NAN, 0, 1, 1], [20, 0, 30, 10], [40, 0, 50, 10]]
    scores = [0.9, 0.8, 0.7, 0.6, 0.5]

    assert kept(boxes, scores, max_candidates=2) == [0]
    assert kept(boxes, scores, max_candidates=3) == [0, 3]
    assert kept(boxes, scores, max_candidates=0) == []


def test_no_boxes_give_no_indices() -> None:
    """Nothing in, nothing out."""
    assert kept([]) == []


# Few coordinates, scores and classes, so that ties and equal IoUs are frequent.
EDGES = st.integers(0, 6).map(float) | st.sampled_from([NAN, INF, -INF, 1e6, 3e38])
SCORES = st.sampled_from([0.25, 0.5, 0.75, NAN, INF, -INF, 0.0, -0.0])


@given(
    data=st.data(),
    count=st.integers(0, 20),
    iou_threshold=st.sampled_from([0, 0.25, 1 / 3, 0.5, 0.6, 1]),
    class_agnostic=st.booleans(),
    max_detections=st.integers(0, 20),
    max_candidates=st.integers(0, 20),
)
def test_it_equals_the_reference(
    data: st.DataObject, count: int, iou_threshold: float, **options: Any
) -> None:
    """Ordinary and hard boxes together: the same indices in the same order; inputs are only read."""
    boxes = data.draw(hnp.arrays(np.float32, (count, 4), elements=EDGES))
    scores = data.draw(hnp.arrays(np.float32, count, elements=SCORES))
    class_ids = data.draw(hnp.arrays(np.int32, count, elements=st.integers(0, 2)))
    arrays: tuple[NDArray[Any], ...] = (boxes, scores, class_ids)
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.setflags(write=False)

    found = nms(boxes, scores, class_ids, iou_threshold, **options)

    assert found.tolist() == reference.nms(boxes, scores, class_ids, iou_threshold, **options).tolist()
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("iou_threshold", [0.2, 0.45, 0.7])
@pytest.mark.parametrize("class_agnostic", [True, False])
def test_it_equals_opencv(iou_threshold: float, class_agnostic: bool, rng: np.random.Generator) -> None:
    """Crowds of random boxes, without ties, go as with cv2.dnn.NMSBoxes, for each class or over all."""
    for _ in range(20):
        corners, sizes = rng.uniform(0, 300, (200, 2)), rng.uniform(5, 120, (200, 2))
        boxes = np.concatenate([corners, corners + sizes], axis=1).astype(np.float32)
        scores = rng.permutation(np.linspace(0.1, 1, 200)).astype(np.float32)
        class_ids = rng.integers(0, 3, 200).astype(np.int32)

        found = nms(boxes, scores, class_ids, iou_threshold, class_agnostic=class_agnostic)

        expected: set[int] = set()
        xywh = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1).astype(np.float64)
        for members in [range(200)] if class_agnostic else [np.nonzero(class_ids == c)[0] for c in range(3)]:
            of_class = np.array(members)
            chosen = cv2.dnn.NMSBoxes(xywh[of_class].tolist(), scores[of_class].tolist(), 0.0, iou_threshold)
            expected.update(int(index) for index in of_class[np.array(chosen, int)])
        assert set(found.tolist()) == expected
        assert (np.diff(scores[found]) < 0).all()


GOOD: dict[str, Any] = {
    "boxes_xyxy": np.zeros((2, 4), np.float32),
    "scores": np.zeros(2, np.float32),
    "class_ids": np.zeros(2, np.int32),
    "iou_threshold": 0.5,
}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"boxes_xyxy": np.zeros((4, 2), np.float32)}, ValueError, "shape (n, 4), got float32 (4, 2)"),
        ({"boxes_xyxy": np.zeros((2, 4))}, TypeError, "boxes_xyxy: expected a C-contiguous float32 array"),
        (
            {"boxes_xyxy": np.zeros((4, 4), np.float32)[::2]},
            ValueError,
            "got strides (32, 4) for shape (2, 4)",
        ),
        (
            {"scores": np.zeros(3, np.float32)},
            ValueError,
            "scores: expected a C-contiguous float32 array of shape (2,)",
        ),
        ({"class_ids": np.zeros(2, np.int64)}, TypeError, "class_ids: expected a C-contiguous int32 array"),
        ({"iou_threshold": -0.1}, ValueError, "iou_threshold: expected a number from 0 to 1, got -0.1"),
        ({"iou_threshold": NAN}, ValueError, "iou_threshold: expected a number from 0 to 1, got nan"),
        ({"max_detections": -1}, ValueError, "max_detections: expected at least 0, got -1"),
        ({"max_candidates": 1.5}, TypeError, "max_candidates: expected an integer, got 1.5"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The message says which argument, what was expected and what was found."""
    with pytest.raises(error, match=re.escape(message)):
        nms(**GOOD | change)
