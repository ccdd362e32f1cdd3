"""`decode_ssd`: box encodings and class logits against anchors, as TensorFlow's coder makes them."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from cython_ext import reference
from cython_ext.boxes import decode_ssd
from cython_ext.nms import nms
from cython_ext.resize import resize_to_tensor

MODEL = Path(__file__).parents[2] / "central_server" / "models" / "ssdlite_mobilenet_v2_coco"
FRAME_WH = (640, 480)

Floats = NDArray[np.float32]
Found = tuple[Floats, Floats, NDArray[np.int32]]


def assert_same(found: Found, expected: Found) -> None:
    """Require the same detections in the same order; scores and edges to one unit in the last place."""
    np.testing.assert_array_equal(found[2], expected[2])
    np.testing.assert_array_max_ulp(found[1], expected[1], maxulp=1)
    np.testing.assert_array_max_ulp(found[0], expected[0], maxulp=1)
    assert [array.dtype for array in found] == [np.float32, np.float32, np.int32]
    assert found[0].shape == (len(found[1]), 4)


def one(encoding: list[float], logit: float, anchor: tuple[float, ...] = (0.25, 0.25, 0.75, 0.75)) -> Found:
    """Decode one anchor with one class, at a frame of 640 x 480."""
    return decode_ssd(
        np.array([encoding], np.float32),
        np.array([[20, logit]], np.float32),
        np.array([anchor], np.float32),
        FRAME_WH,
        0.5,
    )


def test_an_anchor_without_encoding_is_its_own_box() -> None:
    """Zeros decode to the anchor, in pixels of the frame, x first."""
    boxes_xyxy, scores, class_ids = one([0, 0, 0, 0], 0, anchor=(0.25, 0.5, 0.75, 1.0))

    assert boxes_xyxy.tolist() == [[320, 120, 640, 360]]
    assert scores.tolist() == [0.5]
    assert class_ids.tolist() == [1]


def test_the_encoding_moves_and_grows_the_anchor() -> None:
    """Ten make one anchor size for the centre, five one factor of e for the size."""
    boxes_xyxy, _, _ = one([1, -1, 5 * np.log(0.5), 0], 3)

    np.testing.assert_allclose(boxes_xyxy, [[128, 204, 448, 324]], rtol=1e-6)


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ([0, 0, 1e6, 0], [[160, 0, 480, 480]]),
        ([0, 0, 3e38, 3e38], [[0, 0, 640, 480]]),
        ([0, 0, np.inf, 0], [[160, 0, 480, 480]]),
        ([0, 0, -3e38, 0], []),
        ([0, 100, 0, 0], []),
        ([np.inf, 0, 0, 0], []),
        ([np.nan, 0, 0, 0], []),
        ([0, 0, 0, np.nan], []),
        ([-np.inf, 0, np.inf, 0], []),
    ],
    ids=str,
)
def test_hard_encodings(encoding: list[float], expected: list[list[float]]) -> None:
    """What overflows reaches the frame's edge; what lies outside, has no area or is NaN is dropped."""
    boxes_xyxy, scores, class_ids = one(encoding, 3)

    assert boxes_xyxy.tolist() == expected
    assert len(scores) == len(class_ids) == len(expected)


@pytest.mark.parametrize(("logit", "kept"), [(np.inf, 1), (-np.inf, 0), (np.nan, 0), (0, 1), (-1e-6, 0)])
def test_hard_logits(logit: float, kept: int) -> None:
    """Equal to the least score is enough; NaN is no score."""
    assert len(one([0, 0, 0, 0], logit)[1]) == kept


@pytest.mark.parametrize("min_score", [0.0, 0.1, 0.5, 0.7, 0.9999999, 1.0])
def test_the_threshold_is_the_float32_scores(min_score: float) -> None:
    """Each logit around the threshold falls on the side on which its rounded score lies."""
    centre = np.float32(
        np.log(min_score / (1 - min_score)) if 0 < min_score < 1 else 17 * (2 * min_score - 1)
    )
    logits = np.empty((4000, 2), np.float32)
    logits[:] = centre + np.arange(-2000, 2000, dtype=np.float32)[:, None] * np.spacing(centre)
    logits[:100, 1] = np.linspace(-120, 120, 100)
    anchors = np.tile(np.array([0, 0, 1, 1], np.float32), (4000, 1))

    found = decode_ssd(anchors * 0, logits, anchors, FRAME_WH, min_score)

    assert 0 < len(found[1]) <= 4000
    assert_same(found, reference.decode_ssd(anchors * 0, logits, anchors, FRAME_WH, min_score))
    scores = 1 / (1 + np.exp(-logits[:, 1].astype(np.float64)))
    assert len(found[1]) == (scores.astype(np.float32) >= np.float32(min_score)).sum()


def test_an_anchor_may_carry_several_labels_but_never_the_background() -> None:
    """Each class that reaches the score is a detection of its own, in order of anchor, then class."""
    logits = np.array([[9, 2, -9, 1], [9, -9, -9, -9], [9, -9, 3, -9]], np.float32)
    anchors = np.array([[0, 0, 0.5, 0.5]] * 3, np.float32)

    boxes_xyxy, scores, class_ids = decode_ssd(anchors * 0, logits, anchors, FRAME_WH, 0.5)

    assert class_ids.tolist() == [1, 3, 2]
    np.testing.assert_allclose(scores, 1 / (1 + np.exp([-2.0, -1.0, -3.0])), rtol=1e-6)
    assert boxes_xyxy.tolist() == [[0, 0, 320, 240]] * 3


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
def test_only_the_classes_of_the_mask_are_answered(dtype: type) -> None:
    """A mask of bools or bytes; its entry for the background changes nothing."""
    logits = np.full((1, 4), 3, np.float32)
    anchors = np.array([[0, 0, 1, 1]], np.float32)
    mask: NDArray[Any] = np.array([1, 0, 1, 1], dtype)
    mask.setflags(write=False)

    assert decode_ssd(anchors, logits, anchors, FRAME_WH, 0.5, class_mask=mask)[2].tolist() == [2, 3]


ENCODINGS = st.floats(-8, 8, width=32) | st.sampled_from([np.nan, np.inf, -np.inf, 1e9, -1e9, 3e38])
LOGITS = st.floats(-6, 6, width=32) | st.sampled_from([np.nan, np.inf, -np.inf, 100.0, -100.0])


@given(data=st.data(), count=st.integers(0, 12), classes=st.integers(1, 9), min_score=st.floats(0, 1))
def test_it_equals_the_reference(data: st.DataObject, count: int, classes: int, min_score: float) -> None:
    """Ordinary and hard values together: the same detections in the same order."""
    encodings = data.draw(hnp.arrays(np.float32, (count, 4), elements=ENCODINGS))
    logits = data.draw(hnp.arrays(np.float32, (count, classes), elements=LOGITS))
    anchors = data.draw(hnp.arrays(np.float32, (count, 4), elements=st.floats(0, 1, width=32)))
    mask = data.draw(st.none() | hnp.arrays(np.bool_, classes))
    arguments = (encodings, logits, anchors, FRAME_WH, min_score)

    found = decode_ssd(*arguments, class_mask=mask)

    assert_same(found, reference.decode_ssd(*arguments, class_mask=mask))


def test_inputs_are_only_read() -> None:
    """Read-only arrays will do, and stay as they are."""
    arrays = [np.full(shape, 0.5, np.float32) for shape in ((3, 4), (3, 5), (3, 4))]
    for array in arrays:
        array.setflags(write=False)

    decode_ssd(arrays[0], arrays[1], arrays[2], FRAME_WH, 0.1)

    assert all((array == 0.5).all() for array in arrays)


GOOD: dict[str, Any] = {
    "box_encodings": np.zeros((2, 4), np.float32),
    "class_logits": np.zeros((2, 3), np.float32),
    "anchors": np.zeros((2, 4), np.float32),
    "frame_wh": FRAME_WH,
    "min_score": 0.5,
    "class_mask": None,
}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"box_encodings": np.zeros((3, 4), np.float32)},
            ValueError,
            "box_encodings: expected a C-contiguous float32 array of shape (2, 4), got float32 (3, 4)",
        ),
        (
            {"class_logits": np.zeros((1, 2, 3), np.float32)},
            ValueError,
            "shape (n, classes), got float32 (1, 2, 3)",
        ),
        (
            {"class_logits": np.zeros((2, 3), np.float16)},
            TypeError,
            "class_logits: expected a C-contiguous float32",
        ),
        ({"class_logits": np.zeros((2, 3), ">f4")}, TypeError, "got >f4 (2, 3)"),
        ({"anchors": np.zeros((4, 2), np.float32).T}, ValueError, "anchors: expected a C-contiguous"),
        ({"anchors": None}, TypeError, "got NoneType"),
        ({"frame_wh": (640, 0)}, ValueError, "frame_wh: expected two integers of at least 1, got (640, 0)"),
        ({"min_score": 1.5}, ValueError, "min_score: expected a number from 0 to 1, got 1.5"),
        ({"min_score": float("nan")}, ValueError, "min_score: expected a number from 0 to 1, got nan"),
        (
            {"class_mask": np.ones(4, np.uint8)},
            ValueError,
            "class_mask: expected a C-contiguous uint8 array of",
        ),
        (
            {"class_mask": [True] * 3},
            TypeError,
            "class_mask: expected a C-contiguous uint8 array of shape (3,)",
        ),
        ({"class_mask": np.ones(3, np.int64)}, TypeError, "got int64 (3,)"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The message says which argument, what was expected and what was found."""
    with pytest.raises(error, match=re.escape(message)):
        decode_ssd(**GOOD | change)


def test_misaligned_arrays_are_refused() -> None:
    """Vector code may trap on floats at odd addresses."""
    odd = np.frombuffer(bytes(1 + 2 * 4 * 4), np.uint8)[1:].view(np.float32).reshape(2, 4)

    with pytest.raises(ValueError, match=r"box_encodings: .*, not aligned"):
        decode_ssd(**GOOD | {"box_encodings": odd})


@pytest.fixture(scope="module")
def detect(walkers: Path) -> Callable[[int], tuple[Floats, Floats, Floats]]:
    """Run the packaged model on a frame of the footage; gives encodings, logits, anchors."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(f"{MODEL}.onnx", options)
    anchors = np.load(f"{MODEL}.anchors.npy").astype(np.float32)

    def run(number: int) -> tuple[Floats, Floats, Floats]:
        with av.open(str(walkers)) as footage:
            frame = next(itertools.islice(footage.decode(video=0), number, None))
            image = frame.to_ndarray(format="rgb24").astype(np.uint8, order="C", copy=False)
        tensor = resize_to_tensor(image, (300, 300), 2 / 255, -1)
        encodings, logits = session.run(("box_encodings", "class_logits"), {"images": tensor})
        return encodings[0], logits[0], anchors

    return run


def test_the_model_sees_seven_persons_and_two_cars(
    detect: Callable[[int], tuple[Floats, Floats, Floats]],
) -> None:
    """On frame 300 of the footage, through resize, model, decoding and NMS."""
    found = decode_ssd(*detect(300), (768, 576), 0.5)
    kept = nms(*found, 0.6)

    assert sorted(found[2][kept].tolist()) == [1] * 7 + [3] * 2
    assert 0.66 < found[1][kept].min() < found[1][kept].max() < 0.94


@pytest.mark.parametrize("min_score", [0.0, 0.01, 0.5])
def test_the_models_output_decodes_as_in_the_reference(
    min_score: float, detect: Callable[[int], tuple[Floats, Floats, Floats]]
) -> None:
    """All 172,530 pairs of anchor and class, and fewer."""
    outputs = detect(50)

    found = decode_ssd(*outputs, (768, 576), min_score)

    assert_same(found, reference.decode_ssd(*outputs, (768, 576), min_score))
