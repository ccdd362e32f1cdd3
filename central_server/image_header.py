"""Sizes from the headers of JPEG files (ITU-T T.81 annex B), without decoding."""

import struct
from dataclasses import dataclass

from central_server.errors import BadImageError
from cython_ext.jpeg_markers import count_markers

# Start-of-frame markers that a decoder here can take: baseline, extended, progressive.
DECODABLE_FRAMES = frozenset((0xC0, 0xC1, 0xC2))
# All of them: C0 to CF without DHT (C4), JPG (C8) and DAC (CC).
START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Segments with a length that libjpeg takes before the picture: DHT, DQT, DRI, APP0 to APP15, COM. What it
# takes otherwise than this walk could hide another size from it.
SKIPPED_SEGMENTS = frozenset((0xC4, 0xDB, 0xDD, *range(0xE0, 0xF0), 0xFE))
# Markers without a length: TEM and RST0 to RST7.
BARE_MARKERS = frozenset((0x01, *range(0xD0, 0xD8)))
START_OF_SCAN = 0xDA
# Walking a header holds the GIL; a picture has tens of segments.
MAX_STEPS = 10_000
# A progressive picture has about ten scans. Each costs a pass over all pixels, however few bytes it
# has: a file of thousands would keep a worker busy for minutes.
MAX_SCANS = 100


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """Width and height in pixels, bits in a sample, and channels: 1, 3, or 4 for CMYK."""

    width: int
    height: int
    bits: int
    channels: int


def read_jpeg_header(data: bytes) -> ImageHeader:
    """Walk a JPEG's segments up to its first scan, exactly as libjpeg does, and count its scans.

    Raises:
        BadImageError: it has no start of frame before that, more than one, or one that no decoder here
            takes; or anything stands there that does not belong.

    """
    scans = count_markers(data, START_OF_SCAN)
    if scans > MAX_SCANS:
        raise BadImageError(f"found a JPEG of {scans} scans, expected at most {MAX_SCANS}")
    header: ImageHeader | None = None
    position = 2
    for _ in range(MAX_STEPS):
        if position + 4 > len(data):
            break
        if data[position] != 0xFF:
            raise BadImageError(
                f"found 0x{data[position]:02x} at byte {position} of a JPEG, expected a marker"
            )
        marker = data[position + 1]
        if marker == 0xFF or marker in BARE_MARKERS:
            position += 1 if marker == 0xFF else 2
            continue
        if marker == START_OF_SCAN and header is not None:
            return header
        length = int.from_bytes(data[position + 2 : position + 4])
        if marker in START_OF_FRAME and header is None:
            header = _read_start_of_frame(data, position, marker)
        elif marker not in SKIPPED_SEGMENTS or length < 2:
            raise BadImageError(
                f"found marker 0x{marker:02x} with length {length} at byte {position} of a JPEG, "
                "which does not belong there"
            )
        position += 2 + length
    raise BadImageError(
        f"found a JPEG of {len(data)} bytes without start of frame and scan within {MAX_STEPS} markers"
    )


def _read_start_of_frame(data: bytes, position: int, marker: int) -> ImageHeader:
    if marker not in DECODABLE_FRAMES:
        raise BadImageError(
            f"found a JPEG with start of frame 0x{marker:02x} (lossless, hierarchical or arithmetic coding), "
            "expected baseline, extended or progressive"
        )
    if position + 10 > len(data):
        raise BadImageError(f"found a JPEG that ends in its start of frame, after {len(data)} bytes")
    length, bits, height, width, channels = struct.unpack_from(">HBHHB", data, position + 2)
    if length != 8 + 3 * channels:
        raise BadImageError(f"found a JPEG of {channels} channels with a start of frame of {length} bytes")
    return ImageHeader(width, height, bits, channels)
