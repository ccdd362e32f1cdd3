"""The client's side of DetectStream as bytes.

A request is put together from parts that are made once, for the image is nearly all of it; of an answer
no more is read than the generator counts. Protobuf objects would cost it several times as much.
"""

from central_server.frame import Outcome

# Wire types, and how long the two are whose length is fixed.
VARINT, LENGTH = 0, 2
FIXED_BYTES = {1: 8, 5: 4}

# Tags: field number * 8 + wire type.
FRAME_ID = b"\x08"
IMAGE_DATA = b"\x12"
CAMERA_ID = b"\x32"
AGE_MS = b"\x40"
MAX_AGE_MS = b"\x48"

ANSWER_FRAME_ID, ANSWER_OBJECTS, ANSWER_OUTCOME = 1, 2, 3


def varint(value: int) -> bytes:
    """Write a number, 0 or more, as protobuf does."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def request_start(camera_id: str) -> bytes:
    """Write what precedes the frame's number in each request of a camera."""
    name = camera_id.encode()
    return CAMERA_ID + varint(len(name)) + name + FRAME_ID


def request_age(age_ms: int) -> bytes:
    """Write how old the frame is when it is sent."""
    return AGE_MS + varint(age_ms) if age_ms > 0 else b""


def request_end(image: bytes, max_age_ms: int | None) -> bytes:
    """Write what follows the frame's number: the image and, if one is asked for, its maximum age."""
    age = b"" if max_age_ms is None else MAX_AGE_MS + varint(max_age_ms)
    return b"".join((age, IMAGE_DATA, varint(len(image)), image))


def read_answer(data: bytes) -> tuple[int, int]:
    """Read a DetectResponse's frame id and outcome.

    A server that knows only the published fields tells no outcome: an answer with objects counts as
    detected, one without keeps outcome 0.

    Raises:
        ValueError: the bytes are no DetectResponse.

    """
    frame_id = outcome = position = 0
    has_objects = False
    try:
        while position < len(data):
            tag, position = _read_varint(data, position)
            field, kind = tag >> 3, tag & 7
            if kind in (VARINT, LENGTH):
                value, position = _read_varint(data, position)
                if kind == LENGTH:
                    position += value
                    has_objects |= field == ANSWER_OBJECTS
                elif field == ANSWER_FRAME_ID:
                    frame_id = value
                elif field == ANSWER_OUTCOME:
                    outcome = value
            else:
                position += FIXED_BYTES[kind]
        whole = position == len(data)
    except (IndexError, KeyError):
        whole = False
    if not whole:
        raise ValueError(f"found {len(data)} bytes that are no DetectResponse")
    return frame_id, Outcome.DETECTED if has_objects and not outcome else outcome


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Give a number and where it ends."""
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, position + 1
