"""Bytes and metadata to values and back, at the one place that knows protobuf."""

import contextlib

import numpy as np
import pytest
from camera_ai import detection_pb2
from hypothesis import given
from hypothesis import strategies as st

from central_server import wire
from central_server.errors import BadMessageError
from central_server.frame import Detections, ImageFormat, Outcome
from central_server.wire import Facts, Wanted
from tests.central_server.answers import objects, told


def test_a_request_of_the_four_messages_alone() -> None:
    """What a client does not say is left to the server."""
    frame = wire.parse_request(detection_pb2.DetectRequest(frame_id=3, image_data=b"abc").SerializeToString())

    assert (frame.frame_id, frame.image.data, frame.image.format) == (3, b"abc", ImageFormat.ENCODED)
    assert (frame.camera_id, frame.age_ms, frame.max_age_ms) == ("", 0, None)


def test_every_field_of_a_request() -> None:
    """Is read; an age of zero is something else than none."""
    message = detection_pb2.DetectRequest(
        frame_id=2**64 - 1,
        image_data=b"abc",
        width=640,
        height=480,
        format=detection_pb2.IMAGE_FORMAT_BGR24,
        camera_id="door",
        capture_time_ns=-5,
        age_ms=2**32 - 1,
        max_age_ms=0,
    )
    frame = wire.parse_request(message.SerializeToString())

    assert frame.frame_id == 2**64 - 1
    assert (frame.image.width, frame.image.height, frame.image.format) == (640, 480, ImageFormat.BGR24)
    assert (frame.camera_id, frame.capture_time_ns) == ("door", -5)
    assert (frame.age_ms, frame.max_age_ms) == (2**32 - 1, 0)


def test_a_format_of_a_later_version_is_told_apart() -> None:
    """It is not taken for one that is known."""
    data = detection_pb2.DetectRequest(format=99).SerializeToString()  # type: ignore[arg-type]

    assert wire.parse_request(data).image.format is ImageFormat.UNKNOWN


def test_names_from_clients_are_cut() -> None:
    """They stand in logs and counters."""
    data = detection_pb2.DetectRequest(camera_id="x" * 5000).SerializeToString()

    assert wire.parse_request(data).camera_id == "x" * 128


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    """There is no third way."""
    with contextlib.suppress(BadMessageError):
        assert wire.parse_request(data).age_ms >= 0


def test_a_refusal_says_how_many_bytes_were_no_request() -> None:
    """And nothing of what was in them."""
    with pytest.raises(BadMessageError, match=r"^found 3 bytes that are no DetectRequest$"):
        wire.parse_request(b"\xffab")


def test_an_agent_names_a_bounded_number_of_cameras() -> None:
    """More than any agent has is refused, longer names are cut."""
    control_request = bytes([10, 3]) + b"1.0"  # agent_version
    camera = bytes([18, 2]) + b"ab"  # camera_ids

    assert wire.parse_watch_request(control_request + camera * 3) == wire.WatchRequest("1.0", ("ab",) * 3)
    with pytest.raises(BadMessageError, match="found 1001 camera ids, expected at most 1000"):
        wire.parse_watch_request(camera * 1001)
    # Before it is parsed: four million empty names hold up everybody's frames.
    with pytest.raises(BadMessageError, match="found a request of 8000000 bytes, expected at most 131072"):
        wire.parse_watch_request(bytes([18, 0]) * 4_000_000)
    with pytest.raises(BadMessageError, match="no WatchRequest"):
        wire.parse_watch_request(b"\xff")


def test_an_answer_with_everything() -> None:
    """Comes out as it went in."""
    detections = Detections(
        np.array([[-1, 2, 29, 42]], np.float32), np.array([0.5], np.float32), np.array([1], np.int32)
    )
    answer = wire.build_detected(9, detections, ("dog", "cat"), 1.5, 2.5)

    assert (answer.frame_id, answer.outcome) == (9, Outcome.DETECTED)
    assert (told(answer).queue_ms, told(answer).work_ms) == (1.5, 2.5)
    assert objects(answer) == [("cat", 0.5, -1, 2, 30, 40)]


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.ABANDONED])
def test_outcomes_have_the_wires_names(outcome: Outcome) -> None:
    """Numbers and names agree on both sides."""
    message = told(wire.build_answer(1, outcome, "why", 1.5))

    assert (message.detail, message.queue_ms) == ("why", 1.5)
    assert detection_pb2.Outcome.Name(message.outcome) == f"OUTCOME_{outcome.name}"


def test_formats_have_the_wires_names() -> None:
    """Numbers and names agree on both sides."""
    known = {f"IMAGE_FORMAT_{f.name}": f.value for f in ImageFormat if f is not ImageFormat.UNKNOWN}

    assert known == dict(detection_pb2.ImageFormat.items())


@pytest.mark.parametrize("detector", ["coco-ssd", "onnx:/srv/modèle 100 %.onnx", "onnx:/srv/ключ\n.onnx"])
def test_facts_are_metadata_whatever_a_model_is_called(detector: str) -> None:
    """Metadata takes printable ASCII only."""
    facts = Facts("0.1.0", detector, 1, 2, 3, 4, (300, 200))

    values = dict(facts.to_metadata())
    assert all(value.isascii() and value.isprintable() for value in values.values())
    assert values["camera-ai-input-wh"] == "300x200"


@pytest.mark.parametrize(
    ("metadata", "wanted"),
    [
        ([], Wanted()),
        ([("user-agent", "x"), ("camera-ai-labels", "")], Wanted()),
        ([("camera-ai-labels", "person,traffic%20light")], Wanted(("person", "traffic light"))),
        ([("camera-ai-labels", "fus%C3%A9e,a%2Cb,")], Wanted(("fusée", "a,b"))),
        ([("camera-ai-min-score", "0.25")], Wanted(min_score=0.25)),
        ([("camera-ai-min-score", b"1")], Wanted(min_score=1.0)),
    ],
)
def test_what_a_call_asks_for(metadata: list[tuple[str, str | bytes]], wanted: Wanted) -> None:
    """Labels are percent-encoded and separated by commas; what is not said is left open."""
    assert wire.parse_wanted(metadata) == wanted


def test_of_a_bad_score_the_beginning_is_told() -> None:
    """A status has to fit into the metadata that clients take."""
    with pytest.raises(ValueError, match="expected a number from 0 to 1") as refused:
        wire.parse_wanted([("camera-ai-min-score", "9" * 7000)])

    assert len(str(refused.value)) < 150
