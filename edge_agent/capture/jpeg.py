"""What the header of a JPEG says, so that a camera's own JPEG can be sent on as it is. Pure."""

from dataclasses import dataclass

SOI = b"\xff\xd8"
EOI = b"\xff\xd9"
SOS = 0xDA
DHT = 0xC4
FRAME_HEADERS = frozenset({0xC0, 0xC1, 0xC2})
"""Baseline, extended sequential and progressive Huffman; the other SOF markers are not to be met in video."""
OTHER_FRAME_HEADERS = frozenset(range(0xC3, 0xD0)) - {DHT, 0xC8, 0xCC}
WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD8)})
MOST_SEGMENTS = 256
"""A real header has a dozen; the search ends here, whatever it was given."""


@dataclass(frozen=True, slots=True)
class JpegHeader:
    """What counts of a JPEG's header."""

    width: int
    height: int
    has_huffman_tables: bool
    """Motion JPEG may leave the standard tables out: then it is no JPEG that stands by itself."""


def read_header(data: bytes | memoryview) -> JpegHeader | None:
    """Read the header of a whole JPEG of 8 bits and one or three components; None for anything else.

    Whole means that it begins with SOI and ends with EOI (as `trimmed` leaves it). The picture itself is not
    looked at.
    """
    if bytes(data[:2]) != SOI or bytes(data[-2:]) != EOI:
        return None
    size: tuple[int, int] | None = None
    has_huffman_tables = False
    position = 2
    for _ in range(MOST_SEGMENTS):
        segment = _segment(data, position)
        if segment is None:
            return None
        marker, body, position = segment
        if marker == SOS:
            return JpegHeader(*size, has_huffman_tables) if size else None
        if marker == DHT:
            has_huffman_tables = True
        elif marker in FRAME_HEADERS and size is None:
            size = _frame_size(body)
            if size is None:
                return None
        elif marker in FRAME_HEADERS or marker in OTHER_FRAME_HEADERS:
            return None
    return None


def trimmed(data: bytes) -> bytes:
    """Cut off what follows the end of the JPEG: drivers pad their buffers."""
    if data.endswith(EOI):
        return data
    end = data.rfind(EOI)
    return data if end < 0 else data[: end + 2]


def _segment(data: bytes | memoryview, position: int) -> tuple[int, bytes, int] | None:
    """Give marker, body and the position behind a segment; None where there is none."""
    while position + 1 < len(data) and data[position] == 0xFF and data[position + 1] == 0xFF:
        position += 1  # fill bytes
    if position + 4 > len(data) or data[position] != 0xFF:
        return None
    marker = data[position + 1]
    if marker in WITHOUT_LENGTH:
        return marker, b"", position + 2
    length = int.from_bytes(data[position + 2 : position + 4])
    end = position + 2 + length
    if length < 2 or end > len(data):
        return None
    return marker, bytes(data[position + 4 : end]), end


def _frame_size(body: bytes) -> tuple[int, int] | None:
    """Give width and height of a frame header; None where the picture is not an ordinary one."""
    if len(body) < 6 or body[0] != 8 or body[5] not in (1, 3) or len(body) != 6 + 3 * body[5]:
        return None
    height, width = int.from_bytes(body[1:3]), int.from_bytes(body[3:5])
    return (width, height) if width and height else None
