"""The generator's bytes against protobuf's own."""

import pytest
from camera_ai.detection_pb2 import DetectRequest, DetectResponse
from hypothesis import given
from hypothesis import strategies as st

from central_server.capacity.messages import read_answer, request_end, request_start, varint

UINT64 = st.integers(0, 2**64 - 1)
UINT32 = st.integers(0, 2**32 - 1)


@given(st.text(max_size=200), UINT64, st.binary(max_size=300), st.none() | UINT32)
def test_a_request_reads_as_it_was_meant(
    camera_id: str, frame_id: int, image: bytes, max_age_ms: int | None
) -> None:
    """All four fields, a maximum age of 0 and an absent one apart."""
    data = request_start(camera_id) + varint(frame_id) + request_end(image, max_age_ms)
    read = DetectRequest.FromString(data)

    assert (read.frame_id, read.image_data, read.camera_id) == (frame_id, image, camera_id)
    assert (read.max_age_ms if read.HasField("max_age_ms") else None) == max_age_ms
    assert read.age_ms == 0


@given(UINT64, st.integers(1, 7), st.text(max_size=200), st.integers(0, 200), st.floats(0, 1e6))
def test_an_answer_is_read_past_what_does_not_count(
    frame_id: int, outcome: int, detail: str, objects: int, work_ms: float
) -> None:
    """Number and outcome, however much there is beside them."""
    answer = DetectResponse(frame_id=frame_id, outcome=outcome, detail=detail, work_ms=work_ms)  # type: ignore[arg-type]
    for number in range(objects):
        found = answer.objects.add(label="person", confidence=0.5)
        found.bbox.x = -number

    assert read_answer(answer.SerializeToString()) == (frame_id, outcome)


@pytest.mark.parametrize("objects", [0, 1])
def test_an_answer_of_the_published_messages_tells_by_its_objects(objects: int) -> None:
    """With objects somebody has looked; without them nobody knows."""
    answer = DetectResponse(frame_id=7)
    for _ in range(objects):
        answer.objects.add(label="person")

    assert read_answer(answer.SerializeToString()) == (7, 1 if objects else 0)


def test_fields_of_a_later_version_are_passed_over() -> None:
    """Of every wire type."""
    later = b"\xa0\x06\x05" + b"\xa1\x06" + bytes(8) + b"\xa2\x06\x03abc" + b"\xa5\x06" + bytes(4)

    assert read_answer(later + b"\x08\x09\x18\x03") == (9, 3)


@pytest.mark.parametrize(
    "data", [b"\x08", b"\x08\xff", b"\x12\x05ab", b"\x0b", b"\x0f", b"\x2d\x00"], ids=repr
)
def test_bytes_that_are_no_answer_are_refused(data: bytes) -> None:
    """Cut short, or of a wire type that there is not."""
    with pytest.raises(ValueError, match=f"found {len(data)} bytes that are no DetectResponse"):
        read_answer(data)
