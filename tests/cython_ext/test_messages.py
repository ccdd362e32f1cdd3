"""The two messages of every frame, byte for byte as the protobuf library reads and writes them."""

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from camera_ai.detection_pb2 import OUTCOME_BAD_IMAGE, DetectRequest, DetectResponse
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cython_ext.messages import read_detect_request, write_detect_response

UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
FLOAT32 = st.floats(width=32)
# What UTF-8 can say.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def by_library(data: bytes) -> tuple[Any, ...] | None:
    """Read a request with the library; None when it refuses."""
    try:
        message = DetectRequest.FromString(data)
    except DecodeError:
        return None
    return (
        message.frame_id,
        message.image_data,
        message.width,
        message.height,
        message.format,
        message.camera_id,
        message.capture_time_ns,
        message.age_ms,
        message.max_age_ms if message.HasField("max_age_ms") else None,
        message.sent_ms,
    )


def by_kernel(data: bytes) -> tuple[Any, ...] | None:
    """Read a request with the kernel; None when it refuses."""
    with contextlib.suppress(ValueError):
        return read_detect_request(data)
    return None


def varint(value: int) -> bytes:
    """Write a number as the wire does."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def group(field: int, inside: bytes, end: int | None = None) -> bytes:
    """Write a group, closed by its own number or another."""
    return varint(field << 3 | 3) + inside + varint((end or field) << 3 | 4)


FIELDS = st.one_of(
    st.tuples(st.integers(0, 12), st.one_of(UINT64, st.integers(0, 300))).map(
        lambda pair: varint(pair[0] << 3) + varint(pair[1])
    ),
    st.tuples(st.integers(1, 12), st.binary(max_size=40)).map(
        lambda pair: varint(pair[0] << 3 | 2) + varint(len(pair[1])) + pair[1]
    ),
    st.tuples(st.integers(1, 12), st.binary(min_size=8, max_size=8)).map(
        lambda pair: varint(pair[0] << 3 | 1) + pair[1]
    ),
    st.tuples(st.integers(1, 12), st.binary(min_size=4, max_size=4)).map(
        lambda pair: varint(pair[0] << 3 | 5) + pair[1]
    ),
    st.tuples(st.integers(1, 12), st.binary(max_size=6)).map(lambda pair: group(pair[0], pair[1])),
    st.binary(max_size=5),
)


@given(
    st.builds(
        DetectRequest,
        frame_id=UINT64,
        image_data=st.binary(max_size=300),
        width=UINT32,
        height=UINT32,
        format=st.integers(0, 5),
        camera_id=TEXT,
        capture_time_ns=st.integers(-(2**63), 2**63 - 1),
        age_ms=UINT32,
        max_age_ms=st.none() | UINT32,
        sent_ms=UINT64,
    )
)
def test_every_request_is_read_as_it_was_meant(message: DetectRequest) -> None:
    """Whatever its fields hold."""
    data = message.SerializeToString()

    assert by_kernel(data) == by_library(data) != None  # noqa: E711 - a request was read at all


NESTED = group(20, b"")
for _ in range(98):
    NESTED = group(20, NESTED)


@settings(max_examples=1000)
@given(st.lists(FIELDS, max_size=8).map(b"".join))
@example(b"")
@example(b"\x08")
@example(b"\x00\x01")
@example(b"\x12\x05abc")
@example(b"\x12\xff\xff\xff\xff\x0fabc")
@example(b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
@example(b"\x08" + b"\xff" * 9 + b"\x01")
@example(b"\x08" + b"\xff" * 9 + b"\x02")
@example(b"\x08" + b"\xff" * 10 + b"\x01")
@example(b"\x88\x80\x80\x80\x00\x05")
@example(b"\x88\x80\x80\x80\x80\x00\x05")
@example(b"\xf8\xff\xff\xff\x0f\x05")
@example(b"\xf8\xff\xff\xff\x1f\x05")
@example(b"\x18" + varint(2**40 + 5) + b"\x28" + varint(2**64 - 1))
@example(b"\x32\x02\xff\xfe")
@example(b"\x32\x03\xed\xa0\x80")
@example(b"\x32\x02\xff\xfe\x32\x01a")
@example(b"\x0a\x01a\x10\x05\x33\x34")
@example(group(20, b"\x08\x05"))
@example(group(20, b"", end=21))
@example(b"\xa4\x01")
@example(b"\xa3\x01")
@example(b"\x0e\x0f")
@example(NESTED)
@example(group(20, NESTED))
@example(group(20, group(20, NESTED)))
def test_what_the_library_reads_and_refuses_the_kernel_reads_and_refuses(data: bytes) -> None:
    """Unknown fields, other wire types, groups, fields that end early, names that are no UTF-8."""
    assert by_kernel(data) == by_library(data)


@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    """Are read or refused as the library does."""
    assert by_kernel(data) == by_library(data)


def test_the_image_is_not_copied() -> None:
    """It is a view into the message, and read-only."""
    data = DetectRequest(frame_id=1, image_data=bytes(range(100))).SerializeToString()
    image = read_detect_request(data)[1]

    assert image.obj is data
    assert image.readonly


@given(st.one_of(st.binary(max_size=8), TEXT.map(str.encode), TEXT.map(lambda text: text.encode()[:-1])))
@example(b"\xc1\xbf")
@example(b"\xe0\x9f\xbf")
@example(b"\xe0\xa0\x80")
@example(b"\xed\x9f\xbf")
@example(b"\xed\xa0\x80")
@example(b"\xee\x80\x80")
@example(b"\xf0\x8f\xbf\xbf")
@example(b"\xf0\x90\x80\x80")
@example(b"\xf4\x8f\xbf\xbf")
@example(b"\xf4\x90\x80\x80")
@example(b"\xf5\x80\x80\x80")
def test_a_name_is_utf8(name: bytes) -> None:
    """At each of its edges."""
    data = b"\x32" + varint(len(name)) + name

    assert by_kernel(data) == by_library(data)


BOXES = st.tuples(*[st.floats(-1000, 5000, width=32)] * 4).map(
    lambda edges: (
        min(edges[0], edges[2]),
        min(edges[1], edges[3]),
        max(edges[0], edges[2]),
        max(edges[1], edges[3]),
    )
)
FOUND = st.tuples(BOXES, st.floats(0, 1, width=32), st.integers(0, 2))
FAR = 2.0**30 - 64


def written(
    detections: Sequence[tuple[Sequence[float], float, int]],
    labels: tuple[str, ...],
    frame_id: int = 1,
    outcome: int = 1,
    detail: str = "",
    queue_ms: float = 0.0,
    work_ms: float = 0.0,
) -> bytes:
    """Let the kernel write an answer with these boxes, scores and class ids."""
    boxes = np.array([box for box, _, _ in detections], np.float32).reshape(-1, 4)
    scores = np.array([score for _, score, _ in detections], np.float32)
    class_ids = np.array([class_id for _, _, class_id in detections], np.int32)
    return write_detect_response(
        frame_id, outcome, detail, queue_ms, work_ms, boxes, scores, class_ids, labels
    )


@given(
    st.lists(FOUND, max_size=5),
    st.tuples(TEXT, TEXT, TEXT),
    UINT64,
    st.integers(-1, 7),
    TEXT,
    FLOAT32,
    FLOAT32,
)
@example([], ("", "", ""), 0, 0, "", 0.0, 0.0)
@example([((0, 0, 0, 0), 0.0, 0)], ("", "", ""), 1, 1, "", -0.0, 0.0)
@example([((0.5, 1.5, 2.5, 3.5), 1.0, 2)], ("a", "b", "c"), 1, 1, "", 0.0, 0.0)
@example([((-FAR, -FAR, FAR, FAR), 0.5, 1)] * 3, ("", "ключ" * 40, ""), 2**64 - 1, 7, "x" * 300, 1e-40, 3e38)
def test_every_answer_is_written_as_the_library_writes_it(
    detections: list[tuple[tuple[float, float, float, float], float, int]],
    labels: tuple[str, str, str],
    frame_id: int,
    outcome: int,
    detail: str,
    queue_ms: float,
    work_ms: float,
) -> None:
    """Byte for byte, boxes as Python rounds them."""
    message = DetectResponse(
        frame_id=frame_id,
        outcome=outcome,  # type: ignore[arg-type]
        detail=detail,
        queue_ms=queue_ms,
        work_ms=work_ms,
    )
    for (x1, y1, x2, y2), score, class_id in detections:
        found = message.objects.add(label=labels[class_id], confidence=score)
        found.bbox.x, found.bbox.y = round(x1), round(y1)
        found.bbox.width, found.bbox.height = round(x2) - round(x1), round(y2) - round(y1)

    data = written(detections, labels, frame_id, outcome, detail, queue_ms, work_ms)

    assert data == message.SerializeToString(deterministic=True)


def test_an_answer_without_objects() -> None:
    """Needs no arrays."""
    data = write_detect_response(7, 4, "found nothing", 1.5, 2.5, None, None, None, ())

    assert DetectResponse.FromString(data) == DetectResponse(
        frame_id=7, outcome=OUTCOME_BAD_IMAGE, detail="found nothing", queue_ms=1.5, work_ms=2.5
    )


def test_arrays_may_be_views_of_others() -> None:
    """Columns of a table are read where they lie, and nothing is written to them."""
    table = np.array([[1, 2, 3, 4, 0.5], [5, 6, 9, 8, 0.25]], np.float32)
    table.flags.writeable = False
    class_ids = np.array([0, 9, 1, 9], np.int32)[::2]

    data = write_detect_response(1, 1, "", 0.0, 0.0, table[:, :4], table[:, 4], class_ids, ("a", "b"))

    assert data == written([((1, 2, 3, 4), 0.5, 0), ((5, 6, 9, 8), 0.25, 1)], ("a", "b"))


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("box", "score", "class_id", "message"),
    [
        ((0, 0, 1, 1), 1.01, 0, "score"),
        ((0, 0, 1, 1), -0.01, 0, "score"),
        ((0, 0, 1, 1), NAN, 0, "score"),
        ((0, 0, 1, 1), INF, 0, "score"),
        ((0, 0, 1, 1), 0.5, -1, "class id outside 0 to 1"),
        ((0, 0, 1, 1), 0.5, 2, "class id outside 0 to 1"),
        ((0, 0, 1, 1), 0.5, 2**31 - 1, "class id outside 0 to 1"),
        ((NAN, 0, 1, 1), 0.5, 0, "edge"),
        ((0, 0, 1, INF), 0.5, 0, "edge"),
        ((0, 0, 2.0**30, 1), 0.5, 0, "edge"),
        ((0, -(2.0**30), 1, 1), 0.5, 0, "edge"),
        ((2, 0, 1, 1), 0.5, 0, "ends before it begins"),
        ((0, 2, 1, 1), 0.5, 0, "ends before it begins"),
    ],
)
def test_what_no_detector_may_find(box: tuple[float, ...], score: float, class_id: int, message: str) -> None:
    """Fails the whole answer, in words, wherever it stands."""
    good = ((0, 0, 1, 1), 0.5, 1)
    for detections in (
        [(box, score, class_id)],
        [good, (box, score, class_id)],
        [(box, score, class_id), good],
    ):
        with pytest.raises(ValueError, match=message):
            written(detections, ("a", "b"))


ONE_BOX, ONE_SCORE, ONE_ID = np.zeros((1, 4), np.float32), np.ones(1, np.float32), np.zeros(1, np.int32)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"frame_id": -1}, OverflowError),
        ({"frame_id": 2**64}, OverflowError),
        ({"frame_id": None}, TypeError),
        ({"outcome": 2**31}, OverflowError),
        ({"detail": None}, TypeError),
        ({"detail": "\ud800"}, UnicodeEncodeError),
        ({"queue_ms": "long"}, TypeError),
        ({"labels": ("\ud800",)}, UnicodeEncodeError),
        ({"labels": (b"a",)}, TypeError),
        ({"labels": (None,)}, TypeError),
        ({"labels": ["a"]}, TypeError),
        ({"labels": None}, TypeError),
        ({"labels": ()}, ValueError),
        ({"boxes_xyxy": np.zeros((1, 5), np.float32)}, ValueError),
        ({"boxes_xyxy": np.zeros((2, 4), np.float32)}, ValueError),
        ({"boxes_xyxy": np.zeros((1, 4))}, ValueError),
        ({"boxes_xyxy": np.zeros(4, np.float32)}, ValueError),
        ({"scores": np.ones(2, np.float32)}, ValueError),
        ({"scores": None}, ValueError),
        ({"class_ids": np.zeros(0, np.int32)}, ValueError),
        ({"class_ids": None}, ValueError),
        ({"class_ids": np.zeros(1, np.int64)}, ValueError),
    ],
)
def test_what_an_answer_cannot_carry(changes: dict[str, Any], error: type[Exception]) -> None:
    """Is refused before anything goes out."""
    values: dict[str, Any] = {
        "frame_id": 1,
        "outcome": 1,
        "detail": "",
        "queue_ms": 0.0,
        "work_ms": 0.0,
        "boxes_xyxy": ONE_BOX,
        "scores": ONE_SCORE,
        "class_ids": ONE_ID,
        "labels": ("a",),
    }
    assert write_detect_response(**values)

    with pytest.raises(error):
        write_detect_response(**values | changes)


@pytest.mark.parametrize("data", [None, "text", bytearray(b"\x08\x01")])
def test_a_request_is_bytes(data: Any) -> None:
    """Nothing else comes from the wire."""
    with pytest.raises(TypeError):
        read_detect_request(data)
