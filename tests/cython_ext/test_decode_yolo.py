"""`decode_yolo` and `decode_yolox`: one label an anchor, in the three layouts that YOLO models come in."""

import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from cython_ext import reference
from cython_ext.boxes import decode_yolo, decode_yolox

Floats = NDArray[np.float32]
Found = tuple[Floats, Floats, NDArray[np.int32]]

BOTH_LAYOUTS = pytest.mark.parametrize("channels_first", [True, False])


def decode(rows: Any, channels_first: bool, *, objectness: bool = False, **options: Any) -> Found:
    """Decode anchors given as rows, in either layout."""
    output = np.array(rows, np.float32)
    return decode_yolo(
        np.ascontiguousarray(output.T) if channels_first else output,
        channels_first=channels_first,
        has_objectness=objectness,
        **{"min_score": 0.5, **options},
    )


@BOTH_LAYOUTS
def test_centre_and_size_become_edges(channels_first: bool) -> None:
    """Anchors that reach the score come in their order, with their best class; boxes are not clipped."""
    rows = [[50, 60, 20, 40, 0.1, 0.9], [9, 9, 9, 9, 0.4, 0.2], [0, 0, 10, 10, 0.5, 0.4]]

    boxes_xyxy, scores, class_ids = decode(rows, channels_first)

    assert boxes_xyxy.tolist() == [[40, 40, 60, 80], [-5, -5, 5, 5]]
    assert scores.tolist() == [np.float32(0.9), 0.5]
    assert class_ids.tolist() == [1, 0]


@BOTH_LAYOUTS
def test_objectness_is_a_factor(channels_first: bool) -> None:
    """The score is the product; the label is the class's alone."""
    rows = [[5, 5, 2, 2, 0.75, 0.1, 0.8], [5, 5, 2, 2, 0.5, 0.9, 0.8], [5, 5, 2, 2, np.nan, 1, 1]]

    _, scores, class_ids = decode(rows, channels_first, objectness=True)

    assert scores.tolist() == [np.float32(0.75) * np.float32(0.8)]
    assert class_ids.tolist() == [1]


@BOTH_LAYOUTS
@pytest.mark.parametrize(
    ("class_scores", "expected"),
    [
        ([0.7, 0.9, 0.9], [1]),
        ([0.9, 0.9, 0.9], [0]),
        ([np.nan, 0.6, 0.6], [1]),
        ([0.6, np.nan, 0.7], [2]),
        ([np.nan, np.nan, np.nan], []),
        ([np.nan, 0.4, 0.3], []),
        ([0.5, 0.2, 0.1], [0]),
        ([np.inf, 0.9, 0.1], [0]),
        ([-np.inf, 0.9, -np.inf], [1]),
    ],
    ids=str,
)
def test_the_best_class_is_the_label(
    class_scores: list[float], expected: list[int], channels_first: bool
) -> None:
    """The lowest id among equals, NaN never, equal to the least score is enough."""
    assert decode([[5, 5, 2, 2, *class_scores]], channels_first)[2].tolist() == expected


@BOTH_LAYOUTS
def test_a_mask_drops_anchors_and_never_changes_a_label(channels_first: bool) -> None:
    """An anchor whose best class is not wanted is gone, even if a wanted one reaches the score."""
    rows = [[5, 5, 2, 2, 0.9, 0.8], [5, 5, 2, 2, 0.8, 0.9]]

    found = decode(rows, channels_first, class_mask=np.array([False, True]))

    assert found[1].tolist() == [np.float32(0.9)]
    assert found[2].tolist() == [1]


@BOTH_LAYOUTS
@pytest.mark.parametrize(
    "box",
    [
        [5, 5, 0, 2],
        [5, 5, 2, -1],
        [np.nan, 5, 2, 2],
        [5, 5, 2, np.nan],
        [5, 5, np.inf, 2],
        [-np.inf, 5, 2, 2],
    ],
    ids=str,
)
def test_a_box_without_finite_area_is_dropped(box: list[float], channels_first: bool) -> None:
    """No width, NaN or infinity: such a box says nothing."""
    assert len(decode([[*box, 0.9]], channels_first)[1]) == 0


@BOTH_LAYOUTS
def test_no_anchors_give_no_boxes(channels_first: bool) -> None:
    """An output without anchors is decoded to nothing."""
    boxes_xyxy, scores, class_ids = decode(np.empty((0, 6)), channels_first)

    assert (boxes_xyxy.shape, scores.shape, class_ids.shape) == ((0, 4), (0,), (0,))


VALUES = st.floats(0, 1, width=32) | st.sampled_from([np.nan, np.inf, -np.inf, 3e38, -1.0, 0.5, 1.0])


@given(
    data=st.data(),
    count=st.integers(0, 10),
    classes=st.integers(1, 8),
    channels_first=st.booleans(),
    has_objectness=st.booleans(),
    min_score=st.floats(0, 1),
)
def test_it_equals_the_reference(
    data: st.DataObject,
    count: int,
    classes: int,
    channels_first: bool,
    has_objectness: bool,
    min_score: float,
) -> None:
    """Any layout, ordinary and hard values together: exactly the same detections in the same order."""
    shape = (count, 4 + has_objectness + classes)
    output = data.draw(hnp.arrays(np.float32, shape[::-1] if channels_first else shape, elements=VALUES))
    mask = data.draw(st.none() | hnp.arrays(np.bool_, classes))
    before = output.copy()
    output.setflags(write=False)
    options: dict[str, Any] = {
        "channels_first": channels_first,
        "has_objectness": has_objectness,
        "min_score": min_score,
        "class_mask": mask,
    }

    found = decode_yolo(output, **options)

    for ours, expected in zip(found, reference.decode_yolo(output, **options), strict=True):
        np.testing.assert_array_equal(ours, expected)
        assert ours.dtype == expected.dtype
    np.testing.assert_array_equal(output, before)


def test_a_full_sized_output_equals_the_reference(rng: np.random.Generator) -> None:
    """8,400 anchors and 80 classes, as YOLOv8 and YOLO11 put out at 640."""
    output = rng.random((84, 8400), dtype=np.float32) ** 60
    output[:4] = rng.random((4, 8400)) * 640
    options: dict[str, Any] = {"has_objectness": False, "min_score": 0.25}

    found = decode_yolo(output, channels_first=True, **options)

    assert 1000 < len(found[1]) < 8400
    expected = reference.decode_yolo(output, channels_first=True, **options)
    transposed = decode_yolo(np.ascontiguousarray(output.T), channels_first=False, **options)
    for ours, others, theirs in zip(found, transposed, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(others, theirs)


def test_yolox_boxes_lie_on_its_grids() -> None:
    """Each stride's cells come row by row: their corner is the centre of an empty encoding."""
    output = np.zeros((8 * 4 + 4 * 2 + 2, 7), np.float32)
    output[:, 4:] = [1, 0.25, 0.75]

    boxes_xyxy, scores, class_ids = decode_yolox(output, (32, 64), 0.5)

    centres_and_strides = [
        (x * stride, y * stride, stride)
        for stride in (8, 16, 32)
        for y, x in itertools.product(range(32 // stride), range(64 // stride))
    ]
    expected = [[x - s / 2, y - s / 2, x + s / 2, y + s / 2] for x, y, s in centres_and_strides]
    assert boxes_xyxy.tolist() == expected
    assert set(scores.tolist()) == {0.75}
    assert set(class_ids.tolist()) == {1}


@given(
    input_hw=st.sampled_from([(32, 32), (32, 96), (64, 32), (64, 64)]),
    min_score=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_yolox_equals_the_reference(input_hw: tuple[int, int], min_score: float, seed: int) -> None:
    """Ordinary and hard values together: the same detections, edges to one unit in the last place."""
    rng = np.random.default_rng(seed)
    count = input_hw[0] * input_hw[1] * 21 // 1024
    output = rng.random((count, 5 + 3), dtype=np.float32)
    output[:, :4] = rng.normal(0, 3, (count, 4))
    hard = np.array([np.nan, np.inf, -np.inf, 90, 800, -800, 3e38], np.float32)
    output.flat[rng.integers(0, output.size, 12)] = rng.choice(hard, 12)

    found = decode_yolox(output, input_hw, min_score)

    expected = reference.decode_yolox(output, input_hw, min_score)
    np.testing.assert_array_equal(found[2], expected[2])
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_max_ulp(found[0], expected[0], maxulp=1)


GOOD: dict[str, Any] = {
    "output": np.zeros((6, 9), np.float32),
    "channels_first": True,
    "has_objectness": False,
    "min_score": 0.5,
    "class_mask": None,
}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"output": np.zeros((1, 6, 9), np.float32)},
            ValueError,
            "output: expected a C-contiguous float32 array of shape (4 + classes, n), got float32 (1, 6, 9)",
        ),
        ({"output": np.zeros((6, 9), np.float16)}, TypeError, "got float16 (6, 9)"),
        ({"output": np.zeros((9, 6), np.float32).T}, ValueError, "got strides (4, 24) for shape (6, 9)"),
        (
            {"output": np.zeros((4, 9), np.float32)},
            ValueError,
            "output: expected 4 + classes channels, at least 5, got shape (4, 9)",
        ),
        (
            {"output": np.zeros((9, 5), np.float32), "channels_first": False, "has_objectness": True},
            ValueError,
            "output: expected 5 + classes channels, at least 6, got shape (9, 5)",
        ),
        ({"min_score": -0.1}, ValueError, "min_score: expected a number from 0 to 1, got -0.1"),
        ({"class_mask": np.ones(6, np.bool_)}, ValueError, "bool array of shape (2,), got bool (6,)"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The message says which argument, what was expected and what was found."""
    with pytest.raises(error, match=re.escape(message)):
        decode_yolo(**GOOD | change)


@pytest.mark.parametrize(
    ("shape", "input_hw", "message"),
    [
        ((21, 7), (32, 33), "input_hw: expected multiples of 32, got (32, 33)"),
        ((21, 7), (0, 32), "input_hw: expected two integers of at least 1, got (0, 32)"),
        ((20, 7), (32, 32), "output: expected a C-contiguous float32 array of shape (21, 5 + classes), got"),
        ((21, 5), (32, 32), "output: expected 5 + classes channels, at least 6, got shape (21, 5)"),
    ],
)
def test_yolox_output_that_does_not_fit_its_grids_is_refused(
    shape: tuple[int, int], input_hw: tuple[int, int], message: str
) -> None:
    """The number of anchors follows from the input's size."""
    with pytest.raises(ValueError, match=re.escape(message)):
        decode_yolox(np.zeros(shape, np.float32), input_hw, 0.5)
