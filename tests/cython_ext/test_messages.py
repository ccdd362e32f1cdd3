"""The two messages of every frame, byte for byte as the protobuf library reads and writes them."""

import contextlib
from typing import Any

import pytest
from camera_ai.detection_pb2 import DetectRequest, DetectResponse
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cython_ext.messages import read_detect_request, write_detect_response

UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
FLOAT32 = st.floats(width=32)
# What UTF-8 can say.
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=200)


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
    )
)
def test_every_request_is_read_as_it_was_meant(message: DetectRequest) -> None:
    """Whatever its fields hold."""
    data = message.SerializeToString()

    assert by_kernel(data) == by_library(data) != None  # noqa: E711 - a request was read at all


NESTED = group(20, b"")
for _ in range(98):
    NESTED = group(20, NESTED)


@settings(max_examples=3000)
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


OBJECT = st.tuples(TEXT, FLOAT32, INT32, INT32, INT32, INT32)


@given(UINT64, st.integers(0, 7), st.lists(OBJECT, max_size=5).map(tuple), TEXT, FLOAT32, FLOAT32)
@example(0, 0, (), "", 0.0, 0.0)
@example(1, 1, (("", 0.0, 0, 0, 0, 0),), "", -0.0, 0.0)
@example(2**64 - 1, 7, (("ключ" * 40, 0.5, -1, -(2**31), 2**31 - 1, 128),) * 3, "x" * 300, 1e-40, 3e38)
def test_every_answer_is_written_as_the_library_writes_it(
    frame_id: int, outcome: int, objects: Any, detail: str, queue_ms: float, work_ms: float
) -> None:
    """Byte for byte."""
    message = DetectResponse(
        frame_id=frame_id,
        outcome=outcome,  # type: ignore[arg-type]
        detail=detail,
        queue_ms=queue_ms,
        work_ms=work_ms,
    )
    for label, confidence, x, y, width, height in objects:
        found = message.objects.add(label=label, confidence=confidence)
        found.bbox.x, found.bbox.y, found.bbox.width, found.bbox.height = x, y, width, height

    written = write_detect_response(frame_id, outcome, objects, detail, queue_ms, work_ms)

    assert written == message.SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ((-1, 1, (), "", 0.0, 0.0), OverflowError),
        ((2**64, 1, (), "", 0.0, 0.0), OverflowError),
        ((1, 2**31, (), "", 0.0, 0.0), OverflowError),
        ((1, 1, (("a", 0.5, 2**31, 0, 0, 0),), "", 0.0, 0.0), OverflowError),
        ((1, 1, (("\ud800", 0.5, 0, 0, 0, 0),), "", 0.0, 0.0), UnicodeEncodeError),
        ((1, 1, ((b"a", 0.5, 0, 0, 0, 0),), "", 0.0, 0.0), TypeError),
        ((1, 1, (("a", "b", 0, 0, 0, 0),), "", 0.0, 0.0), TypeError),
        ((1, 1, (("a", 0.5, 0, 0),), "", 0.0, 0.0), ValueError),
        ((1, 1, [], "", 0.0, 0.0), TypeError),
        ((1, 1, (None,), "", 0.0, 0.0), TypeError),
        ((1, 1, (), None, 0.0, 0.0), TypeError),
        ((1, 1, (), "", "long", 0.0), TypeError),
        ((None, 1, (), "", 0.0, 0.0), TypeError),
    ],
)
def test_what_an_answer_cannot_carry(values: Any, error: type[Exception]) -> None:
    """Is refused before anything goes out."""
    with pytest.raises(error):
        write_detect_response(*values)


@pytest.mark.parametrize("data", [None, "text", bytearray(b"\x08\x01")])
def test_a_request_is_bytes(data: Any) -> None:
    """Nothing else comes from the wire."""
    with pytest.raises(TypeError):
        read_detect_request(data)
