"""The only module of the server that touches protobuf messages and call metadata."""

import math
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from camera_ai import control_pb2, detection_pb2, telemetry_pb2
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from numpy.typing import NDArray

from central_server.errors import BadMessageError
from central_server.frame import Answer, Detections, EncodedImage, Frame, ImageFormat, Outcome
from central_server.record import NewRecord, RecordBatch
from central_server.wish import FrameRate, Viewing, Wish
from cython_ext.messages import read_detect_request, write_detect_response

DETECTION_SERVICE = detection_pb2.DESCRIPTOR.services_by_name["ObjectDetection"].full_name
CONTROL_SERVICE = control_pb2.DESCRIPTOR.services_by_name["Control"].full_name
TELEMETRY_SERVICE = telemetry_pb2.DESCRIPTOR.services_by_name["Telemetry"].full_name

LABELS_KEY = "camera-ai-labels"
MIN_SCORE_KEY = "camera-ai-min-score"

# Names from clients stand in logs and counters: longer ones are cut.
MAX_NAME_CHARS = 128
# Of a bad value a client is told the beginning.
MAX_ECHO_CHARS = 40
# Kept for as long as the agent watches.
MAX_CAMERAS_OF_AGENT = 1000
# So many of an agent's names, of 64 characters at most, take half of it; it is kept for as long, too.
MAX_WATCH_BYTES = 128 << 10
# More objects than anybody can look at are a fault of the detector; the best are answered.
MAX_OBJECTS = 1000
# A batch is read as a whole, and in one go.
MAX_BATCH_BYTES = 256 << 10
MAX_BATCH_RECORDS = 1000
MAX_RECORD_BYTES = 16 << 10
# SQLite's integers have a sign.
MAX_SEQUENCE = 2**63 - 1
RECORD_KINDS = {
    "camera_state": "camera state",
    "motion": "motion",
    "reading": "reading",
    "dropped": "dropped",
}
FORMATS = {int(known): known for known in ImageFormat}

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a call asks for: labels (empty for all) and the least score (None: the default)."""

    labels: tuple[str, ...] = ()
    min_score: float | None = None


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """An agent that listens for wishes."""

    agent_version: str
    camera_ids: tuple[str, ...]
    gateway: str = ""
    """Empty from an agent of a version that does not tell it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the server tells every stream before its first request."""

    version: str
    detector: str
    max_image_bytes: int
    max_image_pixels: int
    window: int
    default_max_age_ms: int
    input_wh: tuple[int, int] | None

    def to_metadata(self) -> Metadata:
        """Give the facts as initial metadata of DetectStream."""
        pairs = [
            ("camera-ai-version", self.version),
            # A model's path may hold what metadata may not.
            ("camera-ai-detector", quote(self.detector, safe=":/,")),
            ("camera-ai-max-image-bytes", str(self.max_image_bytes)),
            ("camera-ai-max-image-pixels", str(self.max_image_pixels)),
            ("camera-ai-window", str(self.window)),
            ("camera-ai-max-age-ms", str(self.default_max_age_ms)),
        ]
        if self.input_wh is not None:
            pairs.append(("camera-ai-input-wh", f"{self.input_wh[0]}x{self.input_wh[1]}"))
        return tuple(pairs)


def parse_request(data: bytes) -> Frame:
    """Read a DetectRequest; its image is not copied.

    Raises:
        BadMessageError: the bytes are no DetectRequest.

    """
    try:
        frame_id, image, width, height, code, camera_id, capture_time_ns, age_ms, max_age_ms, sent_ms = (
            read_detect_request(data)
        )
    except ValueError as error:
        raise BadMessageError(str(error)) from error
    return Frame(
        frame_id,
        EncodedImage(image, FORMATS.get(code, ImageFormat.UNKNOWN), width, height),
        camera_id[:MAX_NAME_CHARS],
        capture_time_ns,
        age_ms,
        max_age_ms,
        sent_ms,
    )


def build_detected(
    frame_id: int, detections: Detections, labels: tuple[str, ...], queue_ms: float, work_ms: float
) -> Answer:
    """Write the answer to a frame that was worked on: whole pixels; of more than MAX_OBJECTS the best.

    Raises:
        ValueError, TypeError: what a detector may not find, e.g. a score above 1 or a class without label.

    """
    boxes_xyxy, scores, class_ids = detections.boxes_xyxy, detections.scores, detections.class_ids
    if len(scores) > MAX_OBJECTS:
        best = np.argsort(-scores, kind="stable")[:MAX_OBJECTS]
        boxes_xyxy, scores, class_ids = boxes_xyxy[best], scores[best], class_ids[best]
    message = write_detect_response(
        frame_id,
        Outcome.DETECTED,
        "",
        queue_ms,
        work_ms,
        np.asarray(boxes_xyxy, np.float32),
        np.asarray(scores, np.float32),
        class_ids if class_ids.dtype == np.int32 else _as_int32(class_ids),
        labels,
    )
    return Answer(frame_id, Outcome.DETECTED, message, work_ms / 1e3)


def build_answer(
    frame_id: int, outcome: Outcome, detail: str = "", queue_ms: float = 0.0, work_ms: float = 0.0
) -> Answer:
    """Write an answer without objects."""
    message = write_detect_response(frame_id, outcome, detail, queue_ms, work_ms, None, None, None, ())
    return Answer(frame_id, outcome, message, work_ms / 1e3)


def _as_int32(class_ids: NDArray[Any]) -> NDArray[np.int32]:
    """Take any integers that fit; detectors from elsewhere have their own types."""
    narrow: NDArray[np.int32] = class_ids.astype(np.int32, casting="same_kind")
    if not (narrow == class_ids).all():
        raise ValueError("found a class id beyond 32 bits")
    return narrow


def parse_wanted(metadata: Iterable[tuple[str, str | bytes]]) -> Wanted:
    """Read what a call asks for.

    Raises:
        ValueError: a value that cannot be read, in words for the client.

    """
    labels: tuple[str, ...] = ()
    min_score: float | None = None
    for key, value in metadata:
        text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
        if key == LABELS_KEY:
            labels = tuple(unquote(part) for part in text.split(",") if part)
        elif key == MIN_SCORE_KEY:
            try:
                min_score = float(text)
            except ValueError:
                min_score = -1.0
            if not 0 <= min_score <= 1:
                raise ValueError(
                    f"{MIN_SCORE_KEY}: found {text[:MAX_ECHO_CHARS]!r}, expected a number from 0 to 1"
                )
    return Wanted(labels, min_score)


def build_drain(reason: str, grace_ms: int) -> bytes:
    """Write the Wish that announces a drain."""
    return control_pb2.Wish(drain=control_pb2.Drain(reason=reason, grace_ms=grace_ms)).SerializeToString()


def build_wish(camera: str, wish: Wish) -> bytes:
    """Write the Wish that tells what is wished of a camera."""
    if isinstance(wish, FrameRate):
        message = control_pb2.Wish(
            frame_rate=control_pb2.FrameRate(camera_id=camera, frames_per_second=wish.frames_per_second)
        )
    elif isinstance(wish, Viewing):
        message = control_pb2.Wish(viewing=control_pb2.Viewing(camera_id=camera, watched=wish.watched))
    else:
        polygons = [
            control_pb2.Polygon(points=[control_pb2.Point(x_norm=x, y_norm=y) for x, y in polygon])
            for polygon in wish.polygons
        ]
        message = control_pb2.Wish(masks=control_pb2.Masks(camera_id=camera, polygons=polygons))
    return message.SerializeToString()


def parse_watch_request(data: bytes) -> WatchRequest:
    """Read a WatchRequest.

    Raises:
        BadMessageError: the bytes are no WatchRequest, or name more cameras than one agent can have.

    """
    if len(data) > MAX_WATCH_BYTES:
        raise BadMessageError(f"found a request of {len(data)} bytes, expected at most {MAX_WATCH_BYTES}")
    try:
        message = control_pb2.WatchRequest.FromString(data)
    except DecodeError as error:
        raise BadMessageError(f"found {len(data)} bytes that are no WatchRequest") from error
    if len(message.camera_ids) > MAX_CAMERAS_OF_AGENT:
        raise BadMessageError(
            f"found {len(message.camera_ids)} camera ids, expected at most {MAX_CAMERAS_OF_AGENT}"
        )
    camera_ids = tuple(camera_id[:MAX_NAME_CHARS] for camera_id in message.camera_ids)
    return WatchRequest(message.agent_version[:MAX_NAME_CHARS], camera_ids, message.gateway[:MAX_NAME_CHARS])


def check_batch_size(data: bytes) -> None:
    """Look at a RecordBatch's size before anything else does.

    Raises:
        BadMessageError: it is too large.

    """
    if len(data) > MAX_BATCH_BYTES:
        raise BadMessageError(f"found a batch of {len(data)} bytes, expected at most {MAX_BATCH_BYTES}")


def parse_batch(data: bytes) -> RecordBatch:
    """Read a RecordBatch.

    Raises:
        BadMessageError: the bytes are none, or its ids are not what the contract says.

    """
    check_batch_size(data)
    try:
        batch = telemetry_pb2.RecordBatch.FromString(data)
    except DecodeError as error:
        raise BadMessageError(f"found {len(data)} bytes that are no RecordBatch") from error
    if not 0 < len(batch.records) <= MAX_BATCH_RECORDS:
        raise BadMessageError(f"found {len(batch.records)} records, expected 1 to {MAX_BATCH_RECORDS}")
    records, refused, before = [], [], 0
    for message in batch.records:
        if not before < message.sequence <= MAX_SEQUENCE:
            raise BadMessageError(f"found sequence {message.sequence} after {before}, expected a greater one")
        before = message.sequence
        try:
            records.append(_new_record(message))
        except ValueError as error:
            refused.append((message.sequence, str(error)))
    return RecordBatch(
        _spool_id(batch.spool_id), batch.gateway[:MAX_NAME_CHARS], tuple(records), tuple(refused), before
    )


def _spool_id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise BadMessageError(f"found spool id {text[:MAX_ECHO_CHARS]!r}, expected a UUID") from None


def _new_record(message: telemetry_pb2.Record) -> NewRecord:
    body = message.SerializeToString()
    if len(body) > MAX_RECORD_BYTES:
        raise ValueError(f"found {len(body)} bytes, expected at most {MAX_RECORD_BYTES}")
    if len(message.camera_id) > MAX_NAME_CHARS:
        raise ValueError(
            f"found a camera id of {len(message.camera_id)} characters, expected at most {MAX_NAME_CHARS}"
        )
    which = message.WhichOneof("body")
    if which is None and not len(UnknownFieldSet(message)):
        raise ValueError("found no body")
    reading, motion = message.reading, message.motion
    if not all(map(math.isfinite, (reading.value, reading.battery_level, motion.peak_share))):
        raise ValueError("found a figure that is no number")
    return NewRecord(
        message.sequence,
        message.camera_id,
        message.time_ns,
        message.clock_trust != telemetry_pb2.CLOCK_TRUST_UNSET,
        which.replace("_", " ") if which in RECORD_KINDS else "unknown",
        body,
    )


def build_ack(through_sequence: int, refused: Iterable[tuple[int, str]]) -> bytes:
    """Write a RecordAck."""
    return telemetry_pb2.RecordAck(
        through_sequence=through_sequence,
        refused=[
            telemetry_pb2.RefusedRecord(sequence=sequence, reason=reason) for sequence, reason in refused
        ],
    ).SerializeToString()


def record_fields(body: bytes) -> dict[str, Any]:
    """Give what a stored record says, by the contract's names; empty for one of a later version."""
    message = telemetry_pb2.Record.FromString(body)
    which = message.WhichOneof("body")
    trust = telemetry_pb2.ClockTrust.Name(message.clock_trust) if message.clock_trust in range(4) else "?"
    fields: dict[str, Any] = {"time_ns": message.time_ns, "clock": trust.removeprefix("CLOCK_TRUST_").lower()}
    if which is None:
        return fields
    part = getattr(message, which)
    return fields | {field.name: getattr(part, field.name) for field in part.DESCRIPTOR.fields}
