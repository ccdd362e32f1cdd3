"""Every kernel on what is hard for it, against the reference: the sanitizers run this file above all.

Sizes about the widths of vectors, single pixels and long lines, nothing at all, the ends of every number's
range, read-only inputs, and results written into the middle of an array whose rest must stay as it is.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cython_ext import reference
from cython_ext.boxes import decode_ssd, decode_yolo, decode_yolox
from cython_ext.letterbox import place_letterbox
from cython_ext.nms import nms
from cython_ext.resize import letterbox_to_tensor, resize_to_tensor, unletterbox
from cython_ext.simulated import spin_cpu, spin_wall

Floats = NDArray[np.float32]
Arrays = Sequence[NDArray[Any]]

MAX = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).smallest_subnormal)
HARD = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        MAX,
        -MAX,
        TINY,
        -TINY,
        0.0,
        -0.0,
        0.5,
        1.0,
        -1.0,
        2.0**24,
        2.0**31,
        -(2.0**63),
    ],
    np.float32,
)
# Below, at and above the widths that compilers unroll loops to.
SIDES = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65])
LONG = 9001
SEEDS = st.integers(0, 2**32 - 1)
MIN_SCORES = st.sampled_from([0.0, 5e-324, 1e-45, 1e-7, 0.5, 1 - 1e-7, 1.0])
CANARY = np.float32(-12345.5)


def hard(rng: np.random.Generator, *shape: int, low: float = -3, high: float = 3) -> Floats:
    """Give ordinary numbers, every fourth in place of one that is hard; read-only."""
    values = rng.uniform(low, high, shape).astype(np.float32)
    chosen = rng.random(shape) < 0.25
    values[chosen] = rng.choice(HARD, int(chosen.sum()))
    values.setflags(write=False)
    return values


def assert_equal(found: Arrays, expected: Arrays, maxulp: int = 0) -> None:
    """Require the same arrays; floats to so many units in the last place."""
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        if maxulp and ours.dtype == np.float32:
            assert ours.shape == theirs.shape
            np.testing.assert_array_max_ulp(ours, theirs, maxulp=maxulp)
        else:
            np.testing.assert_array_equal(ours, theirs)


def image_of(rng: np.random.Generator, height: int, width: int) -> NDArray[np.uint8]:
    """Give an image whose rows begin at any address, of noise or of nothing but the extremes; read-only."""
    start = int(rng.integers(0, 4))
    memory = np.empty(start + height * width * 3, np.uint8)
    memory[:] = rng.choice([0, 255], memory.size) if rng.random() < 0.5 else rng.integers(0, 256, memory.size)
    memory.setflags(write=False)
    return memory[start:].reshape(height, width, 3)


def within(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Callable[[], None]]:
    """Give an array that lies in a longer one, and a check that the rest of that one is as it was."""
    size, before, after = math.prod(shape), int(rng.integers(1, 6)), int(rng.integers(1, 6))
    memory = np.full(before + size + after, CANARY, np.float32)

    def check() -> None:
        assert (memory[:before] == CANARY).all()
        assert (memory[before + size :] == CANARY).all()

    return memory[before : before + size].reshape(shape), check


SCALES = st.sampled_from([0.0, -0.0, TINY, 1 / 255, -1.0, 1e30, MAX])
OFFSETS = st.sampled_from([0.0, TINY, -123.5, 1e30, MAX, -MAX])


@given(
    image_hw=st.tuples(SIDES, SIDES),
    out_hw=st.tuples(SIDES, SIDES),
    scale=st.tuples(SCALES, SCALES, SCALES),
    offset=st.tuples(OFFSETS, OFFSETS, OFFSETS),
    pad_value=st.sampled_from([0.0, 114.0, -1.0, MAX, TINY]),
    bgr=st.booleans(),
    centred=st.booleans(),
    seed=SEEDS,
)
def test_tensors_of_hard_sizes_and_scales(
    image_hw: tuple[int, int],
    out_hw: tuple[int, int],
    scale: tuple[float, ...],
    offset: tuple[float, ...],
    pad_value: float,
    bgr: bool,
    centred: bool,
    seed: int,
) -> None:
    """Resized and letterboxed: the reference's tensor, also where it overflows, and nothing beside it."""
    rng = np.random.default_rng(seed)
    image = image_of(rng, *image_hw)
    out, check = within(rng, (1, 3, *out_hw))
    # Of what is added up, the largest decides what is rounded off.
    rounding = np.max([255 * abs(factor) for factor in scale] + [abs(summand) for summand in offset]) * 4e-7
    with np.errstate(over="ignore", invalid="ignore"):
        resized = reference.resize_to_tensor(image, out_hw, scale, offset, bgr=bgr)
        boxed, _ = reference.letterbox_to_tensor(
            image, out_hw, pad_value, scale, offset, bgr=bgr, centred=centred
        )

    resize_to_tensor(image, out_hw, scale, offset, bgr=bgr, out=out)
    np.testing.assert_allclose(out, resized, rtol=4e-7, atol=min(rounding, MAX))
    letterbox_to_tensor(image, out_hw, pad_value, scale, offset, bgr=bgr, centred=centred, out=out)
    np.testing.assert_allclose(out, boxed, rtol=4e-7, atol=min(rounding, MAX))

    check()


def stretched(image: NDArray[np.uint8], out_hw: tuple[int, int]) -> Floats:
    """Give the reference's tensor, by way of the shorter of the two pictures that may lie in between."""
    (height, width, _), (out_h, out_w) = image.shape, out_hw
    if out_h * width <= height * out_w:
        return reference.resize_to_tensor(image, out_hw, 1, 0)
    turned = reference.resize_to_tensor(image.transpose(1, 0, 2), (out_w, out_h), 1, 0)
    return turned.transpose(0, 1, 3, 2)


@pytest.mark.parametrize("image_hw", [(1, 1), (1, LONG), (LONG, 1), (2, LONG), (3, 5)], ids=str)
@pytest.mark.parametrize("out_hw", [(1, 1), (1, LONG), (LONG, 1), (2, 3), (301, 299)], ids=str)
def test_lines_and_single_pixels(image_hw: tuple[int, int], out_hw: tuple[int, int]) -> None:
    """From and to a line a pixel wide, by a factor of thousands up or down."""
    rng = np.random.default_rng(1)
    image = image_of(rng, *image_hw)
    out, check = within(rng, (1, 3, *out_hw))

    resize_to_tensor(image, out_hw, 1, 0, out=out)
    np.testing.assert_allclose(out, stretched(image, out_hw), rtol=0, atol=0.05)
    letterbox_to_tensor(image, out_hw, 114, 1, 0, out=out)
    expected, _ = reference.letterbox_to_tensor(image, out_hw, 114, 1, 0)
    np.testing.assert_allclose(out, expected, rtol=0, atol=0.05)

    check()


@given(
    count=SIDES,
    frame_wh=st.tuples(*[st.sampled_from([1, 2, 767, 4096, 2**31 - 1, 2**53])] * 2),
    model_wh=st.tuples(*[st.sampled_from([1, 300, 641, 2**31 - 1])] * 2),
    seed=SEEDS,
)
def test_boxes_led_back_to_frames_of_any_size(
    count: int, frame_wh: tuple[int, int], model_wh: tuple[int, int], seed: int
) -> None:
    """Edges at the ends of float32 against letterboxes that shrink or stretch a billionfold."""
    boxes = hard(np.random.default_rng(seed), count, 4, low=-10, high=700)
    placed = place_letterbox(frame_wh, model_wh)

    found = unletterbox(boxes, placed)

    assert_equal([found], [reference.unletterbox(boxes, placed)], maxulp=1)


@given(
    count=SIDES | st.just(0),
    classes=SIDES,
    frame_wh=st.tuples(*[st.sampled_from([1, 2, 767, 2**31 - 1, 2**53])] * 2),
    min_score=MIN_SCORES,
    seed=SEEDS,
)
def test_ssd_outputs_of_any_value(
    count: int, classes: int, frame_wh: tuple[int, int], min_score: float, seed: int
) -> None:
    """Encodings, logits and anchors all hard at once, in frames from one pixel to 2^53."""
    rng = np.random.default_rng(seed)
    arguments = (hard(rng, count, 4), hard(rng, count, classes), hard(rng, count, 4, low=0, high=1))
    mask = rng.random(classes) < 0.7

    found = decode_ssd(*arguments, frame_wh, min_score, class_mask=mask)

    with np.errstate(all="ignore"):
        expected = reference.decode_ssd(*arguments, frame_wh, min_score, class_mask=mask)
    assert_equal(found, expected, maxulp=1)


@given(
    count=SIDES | st.just(0),
    classes=SIDES,
    channels_first=st.booleans(),
    has_objectness=st.booleans(),
    min_score=MIN_SCORES,
    seed=SEEDS,
)
def test_yolo_outputs_of_any_value(
    count: int, classes: int, channels_first: bool, has_objectness: bool, min_score: float, seed: int
) -> None:
    """Boxes, objectness and scores all hard at once, in each layout."""
    rng = np.random.default_rng(seed)
    shape = (count, 4 + has_objectness + classes)
    output = hard(rng, *(shape[::-1] if channels_first else shape), low=0, high=1.5)
    options: dict[str, Any] = {
        "channels_first": channels_first,
        "has_objectness": has_objectness,
        "min_score": min_score,
        "class_mask": rng.random(classes) < 0.7,
    }

    found = decode_yolo(output, **options)

    with np.errstate(all="ignore"):
        assert_equal(found, reference.decode_yolo(output, **options))


@given(
    input_hw=st.tuples(*[st.sampled_from([32, 64, 96])] * 2), classes=SIDES, min_score=MIN_SCORES, seed=SEEDS
)
def test_yolox_outputs_of_any_value(
    input_hw: tuple[int, int], classes: int, min_score: float, seed: int
) -> None:
    """The last cell of the last grid is found for every shape of the input, whatever it holds."""
    output = hard(np.random.default_rng(seed), input_hw[0] * input_hw[1] * 21 // 1024, 5 + classes)

    found = decode_yolox(output, input_hw, min_score)

    with np.errstate(all="ignore"):
        expected = reference.decode_yolox(output, input_hw, min_score)
    assert_equal(found, expected, maxulp=1)


BOUNDS = st.sampled_from([0, 1, 2, 7, 64, 2**31, 2**62, 2**63, 2**70])


@given(
    count=SIDES | st.just(0),
    iou_threshold=st.sampled_from([0.0, 5e-324, 0.5, 1 - 1e-16, 1.0]),
    class_agnostic=st.booleans(),
    max_detections=BOUNDS,
    max_candidates=BOUNDS,
    seed=SEEDS,
)
@settings(max_examples=60)
def test_suppression_at_the_ends_of_every_range(
    count: int,
    iou_threshold: float,
    class_agnostic: bool,
    max_detections: int,
    max_candidates: int,
    seed: int,
) -> None:
    """Boxes as large and as small as float32 goes, the first and the last class, bounds without bound."""
    rng = np.random.default_rng(seed)
    boxes, scores = hard(rng, count, 4, low=0, high=20), hard(rng, count)
    class_ids = rng.choice(np.array([-(2**31), -1, 0, 2**31 - 1], np.int32), count)
    options: dict[str, Any] = {
        "class_agnostic": class_agnostic,
        "max_detections": max_detections,
        "max_candidates": max_candidates,
    }

    found = nms(boxes, scores, class_ids, iou_threshold, **options)

    with np.errstate(all="ignore"):
        expected = reference.nms(boxes, scores, class_ids, iou_threshold, **options)
    assert_equal([found], [expected])


def test_a_crowd_is_suppressed_within_its_bounds() -> None:
    """More boxes than candidates, more survivors than detections: exactly as many as allowed."""
    rng = np.random.default_rng(3)
    corners = rng.uniform(0, 1e4, (20_000, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + 1], axis=1)
    scores, class_ids = rng.random(20_000, dtype=np.float32), np.zeros(20_000, np.int32)

    assert len(nms(boxes, scores, class_ids, 0.5)) == 300
    assert len(nms(boxes, scores, class_ids, 0.5, max_detections=20_000, max_candidates=500)) <= 500


@pytest.mark.parametrize("channels_first", [True, False])
@pytest.mark.parametrize("has_objectness", [True, False])
def test_a_full_sized_output_where_everything_is_found(channels_first: bool, has_objectness: bool) -> None:
    """As many results as anchors, to the last place of each array."""
    shape = (8400, 85 if has_objectness else 84)
    output = np.ones(shape[::-1] if channels_first else shape, np.float32)

    found = decode_yolo(output, channels_first=channels_first, has_objectness=has_objectness, min_score=1.0)

    assert [len(array) for array in found] == [8400] * 3


def test_every_pair_of_a_full_sized_ssd_is_found() -> None:
    """As many results as pairs of anchor and class, to the last place of each array."""
    anchors = np.tile(np.array([0, 0, 1, 1], np.float32), (1917, 1))

    found = decode_ssd(anchors * 0, np.full((1917, 91), MAX, np.float32), anchors, (1, 1), 1.0)

    assert [len(array) for array in found] == [1917 * 90] * 3


def test_nothing_in_nothing_out() -> None:
    """Arrays without rows, and an SSD without classes, or with the background alone."""
    none, ones = np.empty((0, 4), np.float32), np.ones((3, 4), np.float32)
    in_columns, in_rows = np.empty((5, 0), np.float32), np.empty((0, 6), np.float32)
    results: list[Arrays] = [
        [nms(none, none[:, 0].copy(), np.empty(0, np.int32), 0.5)],
        [unletterbox(none, place_letterbox((1, 1), (1, 1)))],
        decode_ssd(none, none[:, :0].copy(), none, (1, 1), 0),
        decode_ssd(ones, ones[:, :0].copy(), ones, (1, 1), 0),
        decode_ssd(ones, ones[:, :1].copy(), ones, (1, 1), 0),
        decode_yolo(in_columns, channels_first=True, has_objectness=False, min_score=0),
        decode_yolo(in_rows, channels_first=False, has_objectness=True, min_score=0),
    ]

    assert [len(array) for array in itertools.chain(*results)] == [0] * 17


@pytest.mark.parametrize("spin", [spin_cpu, spin_wall])
def test_spins_of_no_length_and_of_none(spin: Callable[[float], int]) -> None:
    """The shortest time ends at once; what is no time, or too long by the least bit, is refused."""
    for ms in (0, 0.0, -0.0, 5e-324, 1e-7, False):
        assert spin(ms) >= 0
    for ms in (
        -5e-324,
        math.nextafter(60_000, math.inf),
        2.0**63,
        1e308,
        math.inf,
        -math.inf,
        math.nan,
        10**400,
    ):
        with pytest.raises(ValueError, match="ms: expected 0 to 60000 milliseconds, got"):
            spin(ms)
