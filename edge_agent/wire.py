"""The only module of the agent that touches protobuf messages and call metadata."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from camera_ai import control_pb2, detection_pb2, telemetry_pb2
from google.protobuf.message import DecodeError

from edge_agent.config import CameraConfig, Polygon
from edge_agent.config.keys import MOST_POINTS, MOST_POLYGONS
from edge_agent.errors import one_line
from edge_agent.frame import Frame
from edge_agent.record import ClockTrust, Dropped, Motion, Reading, Record, StateChange
from edge_agent.result import Answer, Object
from edge_agent.wish import Drain, FrameRate, Masks, Viewing, Wish

DETECT_STREAM = "/camera_ai.ObjectDetection/DetectStream"
WATCH = "/camera_ai.Control/Watch"
REPORT_RECORDS = "/camera_ai.Telemetry/ReportRecords"

# Below it nobody could see anything: whatever a server says, frames are not made as small as that.
LEAST_INPUT_PX = 32
SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")
# The most that an age or a maximum age can say on the wire.
MAX_AGE_MS = 2**32 - 1
# The most masks with the most points take a third of it.
MAX_WISH_BYTES = 1 << 16
LEAST_FPS = 0.1
MOST_FPS = 60.0
LEAST_POINTS = 3


class BadMessageError(Exception):
    """The server sent what is no message of the contract."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the server told at the start of a stream; the defaults are for servers that tell nothing."""

    version: str = ""
    detector: str = ""
    max_image_bytes: int | None = None
    window: int = 1
    input_wh: tuple[int, int] | None = None


def parse_facts(metadata: Iterable[tuple[str, str | bytes]]) -> Facts:
    """Read DetectStream's initial metadata; what is missing or unreadable keeps its default."""
    told = {key: value for key, value in metadata if isinstance(value, str)}

    def number(key: str) -> int | None:
        text = told.get(key, "")
        return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 2**31 else None

    return Facts(
        version=told.get("camera-ai-version", ""),
        detector=told.get("camera-ai-detector", ""),
        max_image_bytes=number("camera-ai-max-image-bytes"),
        window=number("camera-ai-window") or 1,
        input_wh=_size(told.get("camera-ai-input-wh", "")),
    )


def _size(text: str) -> tuple[int, int] | None:
    match = SIZE.fullmatch(text)
    if match is None or min(int(match[1]), int(match[2])) < LEAST_INPUT_PX:
        return None
    return int(match[1]), int(match[2])


def build_wanted(camera: CameraConfig) -> tuple[tuple[str, str], ...]:
    """Write what a camera's stream asks for, as the call's metadata."""
    pairs = []
    if camera.labels:
        pairs.append(("camera-ai-labels", ",".join(quote(label, safe=" ") for label in camera.labels)))
    if camera.min_score is not None:
        pairs.append(("camera-ai-min-score", repr(camera.min_score)))
    return tuple(pairs)


def build_request(frame: Frame, now_s: float, max_age_ms: int) -> bytes:
    """Write a DetectRequest that is sent now, by time.monotonic()."""
    age_ms = int((now_s - frame.captured_s) * 1e3)
    return detection_pb2.DetectRequest(
        frame_id=frame.frame_id,
        image_data=frame.image_data,
        width=frame.width,
        height=frame.height,
        camera_id=frame.camera,
        capture_time_ns=frame.capture_time_ns,
        age_ms=min(max(age_ms, 0), MAX_AGE_MS),
        max_age_ms=min(max_age_ms, MAX_AGE_MS),
        sent_ms=int(now_s * 1e3),
    ).SerializeToString()


OUTCOMES = {
    number: name.removeprefix("OUTCOME_").lower().replace("_", " ")
    for name, number in detection_pb2.Outcome.items()
}


def parse_response(data: bytes) -> Answer:
    """Read a DetectResponse; an outcome of a later version reads as ``unknown``.

    Raises:
        BadMessageError: the bytes are none, or hold figures that are none.

    """
    try:
        message = detection_pb2.DetectResponse.FromString(data)
    except DecodeError as error:
        raise BadMessageError(f"found {len(data)} bytes that are no DetectResponse") from error
    outcome = OUTCOMES.get(message.outcome, "unknown")
    figures = [message.queue_ms, message.work_ms, *(item.confidence for item in message.objects)]
    if not all(map(math.isfinite, figures)):
        raise BadMessageError("found a score or a time that is no number")
    return Answer(
        frame_id=message.frame_id,
        # A server of the four published messages says nothing of the outcome: it has looked at the frame.
        outcome="detected" if outcome == "unspecified" else outcome,
        objects=tuple(
            Object(item.label, item.confidence, item.bbox.x, item.bbox.y, item.bbox.width, item.bbox.height)
            for item in message.objects
        ),
        detail=one_line(message.detail),
        queue_ms=message.queue_ms,
        work_ms=message.work_ms,
    )


def build_watch_request(version: str, cameras: Iterable[str], gateway: str = "") -> bytes:
    """Write a WatchRequest."""
    return control_pb2.WatchRequest(
        agent_version=version, camera_ids=list(cameras), gateway=gateway
    ).SerializeToString()


def parse_wish(data: bytes) -> Wish | None:
    """Read a Wish; None for a kind of a later version.

    Raises:
        BadMessageError: the bytes are none, or hold what cannot be meant: it is taken whole or not at all.

    """
    if len(data) > MAX_WISH_BYTES:
        raise BadMessageError(f"found a wish of {len(data)} bytes, expected at most {MAX_WISH_BYTES}")
    try:
        message = control_pb2.Wish.FromString(data)
    except DecodeError as error:
        raise BadMessageError(f"found {len(data)} bytes that are no Wish") from error
    match message.WhichOneof("wish"):
        case "drain":
            return Drain(message.drain.reason, message.drain.grace_ms)
        case "frame_rate":
            fps = message.frame_rate.frames_per_second
            # A float of 32 bits: 0.1 is a little more, 60 is 60.
            if fps != 0 and not LEAST_FPS <= fps <= MOST_FPS:
                raise BadMessageError(
                    f"found {fps:g} frames a second, expected 0 or {LEAST_FPS:g} to {MOST_FPS:g}"
                )
            return FrameRate(message.frame_rate.camera_id, fps)
        case "viewing":
            return Viewing(message.viewing.camera_id, message.viewing.watched)
        case "masks":
            return Masks(message.masks.camera_id, _polygons(message.masks))
        case _:
            return None


def _polygons(masks: control_pb2.Masks) -> tuple[Polygon, ...]:
    if len(masks.polygons) > MOST_POLYGONS:
        raise BadMessageError(f"found {len(masks.polygons)} masks, expected at most {MOST_POLYGONS}")
    polygons = []
    for polygon in masks.polygons:
        if not LEAST_POINTS <= len(polygon.points) <= MOST_POINTS:
            raise BadMessageError(
                f"found a mask of {len(polygon.points)} points, expected {LEAST_POINTS} to {MOST_POINTS}"
            )
        points = tuple((point.x_norm, point.y_norm) for point in polygon.points)
        if not all(0 <= value <= 1 for point in points for value in point):
            raise BadMessageError("found a mask with a point outside of the frame")
        polygons.append(points)
    return tuple(polygons)


TRUST = {
    ClockTrust.GOOD: telemetry_pb2.CLOCK_TRUST_GOOD,
    ClockTrust.UNSET: telemetry_pb2.CLOCK_TRUST_UNSET,
    ClockTrust.STEPPED: telemetry_pb2.CLOCK_TRUST_STEPPED,
}


def build_record(record: Record) -> bytes:
    """Write a Record, still without its sequence."""
    message = telemetry_pb2.Record(
        camera_id=record.camera, time_ns=record.time_ns, clock_trust=TRUST[record.clock_trust]
    )
    match record.body:
        case StateChange(state, reason, previous_state, previous_ms):
            change = message.camera_state
            change.state, change.reason, change.previous_state = state, one_line(reason), previous_state
            change.previous_ms = previous_ms
        case Motion(duration_ms, peak_share):
            message.motion.duration_ms, message.motion.peak_share = duration_ms, peak_share
        case Dropped(records, first_sequence, last_sequence):
            dropped = message.dropped
            dropped.records, dropped.first_sequence, dropped.last_sequence = (
                records,
                first_sequence,
                last_sequence,
            )
        case Reading() as reading:
            message.reading.CopyFrom(_reading(reading, record.time_ns))
    return message.SerializeToString()


def _reading(reading: Reading, time_ns: int) -> telemetry_pb2.Reading:
    return telemetry_pb2.Reading(
        device_id=reading.device_id,
        value=reading.value,
        timestamp=time_ns // 10**6,
        unit=reading.unit,
        location=reading.location,
        battery_level=reading.battery_percent or 0.0,
        status=reading.status,
        firmware_version=reading.firmware_version,
    )


def build_batch(spool_id: str, gateway: str, records: Iterable[tuple[int, bytes]]) -> bytes:
    """Write a RecordBatch of sequences and what `build_record` wrote for them."""
    batch = telemetry_pb2.RecordBatch(spool_id=spool_id, gateway=gateway)
    for sequence, body in records:
        message = batch.records.add()
        message.MergeFromString(body)
        message.sequence = sequence
    return batch.SerializeToString()


def parse_ack(data: bytes) -> tuple[int, tuple[tuple[int, str], ...]]:
    """Read a RecordAck: the sequence up to which all is durable or refused, and what is refused, with why.

    Raises:
        BadMessageError: the bytes are none.

    """
    try:
        ack = telemetry_pb2.RecordAck.FromString(data)
    except DecodeError as error:
        raise BadMessageError(f"found {len(data)} bytes that are no RecordAck") from error
    return ack.through_sequence, tuple((item.sequence, one_line(item.reason)) for item in ack.refused)
