"""The bytes of the two messages that every frame costs: DetectRequest read, DetectResponse written.

Fields and rules are those of proto/camera_ai/detection.proto in protobuf's wire format (protobuf.dev,
"Encoding"): unknown fields are skipped, the last of a repeated scalar counts, a field of another wire type is
unknown. What the protobuf library reads and refuses, this reads and refuses, and what it writes this writes,
byte for byte. All other messages go through the library.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.math cimport fabs, rint
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    VARINT = 0
    FIXED64 = 1
    LENGTH = 2
    GROUP_START = 3
    GROUP_END = 4
    FIXED32 = 5
    # As deep as the library follows groups.
    MAX_DEPTH = 100
    # Tags, lengths and numbers of an object, and of all else, at their longest; texts come on top.
    OBJECT_ROOM = 1 + 10 + 1 + 10 + 5 + 1 + 1 + 4 * 11
    FRAME_ID_ROOM = 11
    RESPONSE_ROOM = FRAME_ID_ROOM + 11 + 1 + 10 + 5 + 5

# Any two edges differ by less than what int32 can say.
cdef double EDGE_LIMIT = 1 << 30


cdef int read_varint(Reader* reader, uint64_t* value) noexcept nogil:
    """Read up to ten bytes, of the tenth as much as fits; false when the number has not ended by then."""
    cdef uint64_t result = 0
    cdef int shift = 0
    cdef unsigned char byte
    while reader.at < reader.end and shift < 70:
        byte = reader.at[0]
        reader.at += 1
        result |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = result
            return True
        shift += 7
    return False


cdef int read_tag(Reader* reader, uint32_t* field, int* kind) noexcept nogil:
    """Read a field's number, up to 2^29 - 1, and its wire type, in at most five bytes."""
    cdef const unsigned char* start = reader.at
    cdef uint64_t tag = 0
    if not read_varint(reader, &tag) or tag >> 32 or reader.at - start > 5:
        return False
    field[0] = <uint32_t>(tag >> 3)
    kind[0] = <int>(tag & 7)
    return True


cdef int read_length(Reader* reader, const unsigned char** start, Py_ssize_t* length) noexcept nogil:
    """Read what lies in the message with its length before it."""
    cdef uint64_t found = 0
    if not read_varint(reader, &found) or found > <uint64_t>(reader.end - reader.at):
        return False
    start[0] = reader.at
    length[0] = <Py_ssize_t>found
    reader.at += found
    return True


cdef int skip(Reader* reader, int kind, uint32_t field) noexcept nogil:
    """Pass over a field that nobody here knows; a group ends with its own number."""
    cdef uint32_t[MAX_DEPTH] groups
    cdef int depth = 0
    cdef uint64_t ignored
    cdef const unsigned char* start
    cdef Py_ssize_t length
    while True:
        if kind == VARINT:
            if not read_varint(reader, &ignored):
                return False
        elif kind == FIXED64 or kind == FIXED32:
            length = 8 if kind == FIXED64 else 4
            if reader.end - reader.at < length:
                return False
            reader.at += length
        elif kind == LENGTH:
            if not read_length(reader, &start, &length):
                return False
        elif kind == GROUP_START:
            if depth == MAX_DEPTH:
                return False
            groups[depth] = field
            depth += 1
        elif kind == GROUP_END:
            if depth == 0 or groups[depth - 1] != field:
                return False
            depth -= 1
        else:
            return False
        if depth == 0:
            return True
        if not read_tag(reader, &field, &kind):
            return False


cdef int is_utf8(const unsigned char* text, Py_ssize_t length) noexcept nogil:
    """Tell whether bytes are well-formed UTF-8 (RFC 3629): no surrogates, nothing overlong."""
    cdef Py_ssize_t at = 0, following
    cdef uint32_t code, least
    while at < length:
        code = text[at]
        at += 1
        if code < 0x80:
            continue
        if code < 0xC2 or code > 0xF4:
            return False
        if code < 0xE0:
            following, least, code = 1, 0x80, code & 0x1F
        elif code < 0xF0:
            following, least, code = 2, 0x800, code & 0x0F
        else:
            following, least, code = 3, 0x10000, code & 0x07
        while following:
            if at == length or text[at] & 0xC0 != 0x80:
                return False
            code = code << 6 | text[at] & 0x3F
            at += 1
            following -= 1
        if code < least or code > 0x10FFFF or 0xD800 <= code < 0xE000:
            return False
    return True


cdef int read_request(Reader* reader, Request* request) noexcept nogil:
    """Read all fields; false when the bytes are no DetectRequest. The message must start zeroed."""
    cdef uint32_t field = 0
    cdef int kind = 0
    cdef uint64_t value = 0
    while reader.at < reader.end:
        # No field has the number 0; inside groups the library does not look.
        if not read_tag(reader, &field, &kind) or field == 0:
            return False
        if kind == LENGTH and field == 2:
            if not read_length(reader, &request.image, &request.image_length):
                return False
        elif kind == LENGTH and field == 6:
            if not read_length(reader, &request.camera_id, &request.camera_id_length):
                return False
            if not is_utf8(request.camera_id, request.camera_id_length):
                return False
        elif kind == VARINT and (field == 1 or 3 <= field <= 5 or 7 <= field <= 10):
            if not read_varint(reader, &value):
                return False
            if field == 1:
                request.frame_id = value
            elif field == 3:
                request.width = <uint32_t>value
            elif field == 4:
                request.height = <uint32_t>value
            elif field == 5:
                request.format = <int32_t><uint32_t>value
            elif field == 7:
                request.capture_time_ns = <int64_t>value
            elif field == 8:
                request.age_ms = <uint32_t>value
            elif field == 9:
                request.max_age_ms = <uint32_t>value
                request.has_max_age = True
            else:
                request.sent_ms = value
        elif not skip(reader, kind, field):
            return False
    return True


def read_detect_request(bytes data not None):
    """Read a DetectRequest without copying its image.

    Args:
        data: the message.

    Returns:
        frame_id, image_data (a memoryview into `data`), width, height, format, camera_id, capture_time_ns,
        age_ms, max_age_ms (None when absent), sent_ms.

    Raises:
        ValueError: the bytes are no DetectRequest.
        TypeError: not bytes.

    Holds the GIL: it looks at a few dozen bytes.

    """
    cdef Request request
    cdef Reader reader
    cdef const unsigned char* start = <const unsigned char*>PyBytes_AS_STRING(data)
    reader.at = start
    reader.end = start + PyBytes_GET_SIZE(data)
    memset(&request, 0, sizeof(request))
    request.image = request.camera_id = start
    if not read_request(&reader, &request):
        raise ValueError(f"found {len(data)} bytes that are no DetectRequest")
    cdef Py_ssize_t offset = request.image - start
    camera_id = ""
    if request.camera_id_length:
        camera_id = PyUnicode_DecodeUTF8(<const char*>request.camera_id, request.camera_id_length, NULL)
    return (
        request.frame_id,
        memoryview(data)[offset:offset + request.image_length],
        request.width,
        request.height,
        request.format,
        camera_id,
        request.capture_time_ns,
        request.age_ms,
        request.max_age_ms if request.has_max_age else None,
        request.sent_ms,
    )


cdef inline Py_ssize_t varint_length(uint64_t value) noexcept nogil:
    cdef Py_ssize_t length = 1
    while value > 0x7F:
        value >>= 7
        length += 1
    return length


cdef inline unsigned char* put_varint(unsigned char* at, uint64_t value) noexcept nogil:
    while value > 0x7F:
        at[0] = <unsigned char>(value & 0x7F | 0x80)
        value >>= 7
        at += 1
    at[0] = <unsigned char>value
    return at + 1


cdef inline unsigned char* put_number(unsigned char* at, uint32_t field, uint64_t value) noexcept nogil:
    """Write a number unless it is zero, which goes without saying."""
    if value == 0:
        return at
    return put_varint(put_varint(at, field << 3 | VARINT), value)


cdef inline Py_ssize_t number_length(uint64_t value) noexcept nogil:
    return 0 if value == 0 else 1 + varint_length(value)


cdef inline unsigned char* put_float(unsigned char* at, uint32_t field, float value) noexcept nogil:
    cdef uint32_t bits
    memcpy(&bits, &value, 4)
    if bits == 0:
        return at
    at = put_varint(at, field << 3 | FIXED32)
    cdef int i
    for i in range(4):
        at[i] = <unsigned char>(bits >> 8 * i)
    return at + 4


cdef inline unsigned char* put_text(
    unsigned char* at, uint32_t field, const char* text, Py_ssize_t length
) noexcept nogil:
    if length == 0:
        return at
    at = put_varint(put_varint(at, field << 3 | LENGTH), <uint64_t>length)
    memcpy(at, text, length)
    return at + length


cdef inline uint64_t widened(int32_t value) noexcept nogil:
    """A negative int32 travels as the ten bytes of its int64."""
    return <uint64_t><int64_t>value


cdef unsigned char* put_object(
    unsigned char* at, const char* label, Py_ssize_t label_length, float confidence, const int32_t* box
) noexcept nogil:
    """Write one of the answer's objects; at most OBJECT_ROOM bytes and its label."""
    cdef Py_ssize_t inside = 0, length
    cdef uint32_t bits
    cdef int i
    for i in range(4):
        inside += number_length(widened(box[i]))
    length = 2 + inside
    memcpy(&bits, &confidence, 4)
    if bits != 0:
        length += 5
    if label_length != 0:
        length += 1 + varint_length(<uint64_t>label_length) + label_length
    at = put_varint(put_varint(at, 2 << 3 | LENGTH), <uint64_t>length)
    at = put_text(at, 1, label, label_length)
    at = put_float(at, 2, confidence)
    at = put_varint(put_varint(at, 3 << 3 | LENGTH), <uint64_t>inside)
    for i in range(4):
        at = put_number(at, <uint32_t>(i + 1), widened(box[i]))
    return at



cdef enum Fault:
    NONE, BAD_SCORE, BAD_CLASS, BAD_EDGE, BAD_ORDER


cdef Fault round_box(
    const float[:, :] boxes_xyxy, float score, int class_id, Py_ssize_t classes, Py_ssize_t i, int32_t* box
) noexcept nogil:
    """Check one detection and round its box to x, y, width, height: each edge once, half to even."""
    cdef double[4] edges
    cdef int k
    # Written so that NaN fails, too.
    if not 0 <= score <= 1:
        return BAD_SCORE
    if not 0 <= class_id < classes:
        return BAD_CLASS
    for k in range(4):
        edges[k] = boxes_xyxy[i, k]
        if not fabs(edges[k]) < EDGE_LIMIT:
            return BAD_EDGE
    if edges[2] < edges[0] or edges[3] < edges[1]:
        return BAD_ORDER
    for k in range(4):
        edges[k] = rint(edges[k])
    box[0], box[1] = <int32_t>edges[0], <int32_t>edges[1]
    box[2], box[3] = <int32_t>(edges[2] - edges[0]), <int32_t>(edges[3] - edges[1])
    return NONE


def write_detect_response(
    frame_id,
    outcome,
    detail,
    queue_ms,
    work_ms,
    const float[:, :] boxes_xyxy,
    const float[:] scores,
    const int[:] class_ids,
    tuple labels not None,
):
    """Write a DetectResponse: detections become objects in whole pixels.

    x, y = round(x1, y1), width = round(x2) - x, height likewise; half goes to even.

    Args:
        frame_id: 0 to 2^64 - 1.
        outcome: the wire's number, int32.
        detail: str.
        queue_ms: float, as the next.
        work_ms: rounded to float32.
        boxes_xyxy: float32 (n, 4), edges in pixels between -2^30 and 2^30, or None for an answer without
            objects; as the next two.
        scores: float32 (n,), 0 to 1.
        class_ids: int32 (n,), indices of `labels`.
        labels: a str for each class.

    Returns:
        The message's bytes.

    Raises:
        TypeError, OverflowError, UnicodeEncodeError: a value that the message cannot carry.
        ValueError: arrays of other dtypes or shapes; a score, class id or edge that is NaN or out of range;
            a box that ends before it begins.

    Holds the GIL.

    """
    cdef uint64_t number = frame_id
    cdef int32_t which = outcome
    cdef float queued = queue_ms, worked = work_ms
    cdef Py_ssize_t detail_length = 0, label_length = 0, i, count = 0
    cdef const char* detail_text = PyUnicode_AsUTF8AndSize(detail, &detail_length)
    cdef const char* label
    cdef Py_ssize_t room = RESPONSE_ROOM + detail_length
    cdef int32_t[4] box
    cdef Fault fault
    cdef float score
    cdef int class_id
    if boxes_xyxy is not None:
        count = boxes_xyxy.shape[0]
        if boxes_xyxy.shape[1] != 4 or scores is None or class_ids is None or not (
            count == scores.shape[0] == class_ids.shape[0]
        ):
            raise ValueError("expected boxes (n, 4), scores (n,) and class ids (n,)")
    for i in range(count):
        if 0 <= class_ids[i] < len(labels):
            PyUnicode_AsUTF8AndSize(labels[class_ids[i]], &label_length)
            room += OBJECT_ROOM + label_length
    # As long as it can get at most; what remains is cut off at the end.
    cdef bytes buffer = PyBytes_FromStringAndSize(NULL, room)
    cdef unsigned char* start = <unsigned char*>PyBytes_AS_STRING(buffer)
    cdef const unsigned char* end = start + room
    cdef unsigned char* at = put_number(start, 1, number)
    for i in range(count):
        # Read once: the arrays are the detector's, and its own threads may not have finished with them.
        score, class_id = scores[i], class_ids[i]
        fault = round_box(boxes_xyxy, score, class_id, len(labels), i, box)
        if fault != NONE:
            raise ValueError(in_words(fault, len(labels)))
        label = PyUnicode_AsUTF8AndSize(labels[class_id], &label_length)
        if end - at < OBJECT_ROOM + label_length + RESPONSE_ROOM - FRAME_ID_ROOM + detail_length:
            raise ValueError("found class ids that change while they are read")
        at = put_object(at, label, label_length, score, box)
    at = put_number(at, 3, widened(which))
    at = put_text(at, 4, detail_text, detail_length)
    at = put_float(at, 5, queued)
    at = put_float(at, 6, worked)
    return buffer[:at - start]


cdef in_words(Fault fault, Py_ssize_t classes):
    return {
        BAD_SCORE: "found a score that is NaN or outside 0 to 1",
        BAD_CLASS: f"found a class id outside 0 to {classes - 1}",
        BAD_EDGE: "found a box edge that is NaN or beyond 2^30 pixels",
        BAD_ORDER: "found a box that ends before it begins",
    }[fault]
