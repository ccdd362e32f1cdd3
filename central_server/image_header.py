"""Sizes from the headers of JPEG (ITU-T T.81 annex B) and PNG files, without decoding."""

import struct
import zlib
from dataclasses import dataclass

from central_server.errors import BadImageError

# Start-of-frame markers that a decoder here can take: baseline, extended, progressive.
DECODABLE_FRAMES = frozenset((0xC0, 0xC1, 0xC2))
# All of them: C0 to CF without DHT (C4), JPG (C8) and DAC (CC).
START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Markers without a length: TEM and RST0 to RST7.
BARE_MARKERS = frozenset((0x01, *range(0xD0, 0xD8)))
START_OF_SCAN = 0xDA
START_OF_SCAN_BYTES = b"\xff\xda"
END_OF_IMAGE = 0xD9
# Walking a header holds the GIL; a picture has tens of segments or chunks, a big PNG a few thousand.
MAX_STEPS = 10_000
# A progressive picture has about ten scans. Each costs a pass over all pixels, however few bytes it
# has: a file of thousands would keep a worker busy for minutes.
MAX_SCANS = 100


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """Width and height in pixels, bits in a sample, and a JPEG's channels: 1, 3, or 4 for CMYK."""

    width: int
    height: int
    bits: int
    channels: int = 0


def read_jpeg_header(data: bytes) -> ImageHeader:
    """Walk a JPEG's segments to its first start of frame, and count its scans.

    Raises:
        BadImageError: it has none before the picture begins, or one that no decoder here takes.

    """
    scans = data.count(START_OF_SCAN_BYTES)
    if scans > MAX_SCANS:
        raise BadImageError(f"found a JPEG of {scans} scans, expected at most {MAX_SCANS}")
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
        if marker in (START_OF_SCAN, END_OF_IMAGE):
            break
        if marker in START_OF_FRAME:
            return _read_start_of_frame(data, position, marker)
        position += 2 + int.from_bytes(data[position + 2 : position + 4])
    raise BadImageError(
        f"found a JPEG of {len(data)} bytes without a start of frame within {MAX_STEPS} markers"
    )


def _read_start_of_frame(data: bytes, position: int, marker: int) -> ImageHeader:
    if marker not in DECODABLE_FRAMES:
        raise BadImageError(
            f"found a JPEG with start of frame 0x{marker:02x} (lossless, hierarchical or arithmetic coding), "
            "expected baseline, extended or progressive"
        )
    if position + 10 > len(data):
        raise BadImageError(f"found a JPEG that ends in its start of frame, after {len(data)} bytes")
    bits, height, width, channels = struct.unpack_from(">BHHB", data, position + 4)
    return ImageHeader(width, height, bits, channels)


def read_png_header(data: bytes) -> ImageHeader:
    """Read a PNG's size, and check that all its chunks are there and whole.

    The checksums are compared here because a decoder that meets damage writes to stderr, where a
    hostile client could flood the log.

    Raises:
        BadImageError: a chunk is missing, cut or damaged.

    """
    header: ImageHeader | None = None
    position = 8
    for _ in range(MAX_STEPS):
        if position + 12 > len(data):
            break
        length, kind = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        if end > len(data):
            break
        body = memoryview(data)[position + 4 : end - 4]
        if zlib.crc32(body) != int.from_bytes(data[end - 4 : end]):
            raise BadImageError(f"found a PNG whose chunk at byte {position} is damaged")
        if header is None:
            if kind != b"IHDR" or length != 13:
                raise BadImageError(f"found a PNG that begins with chunk {kind!r}, expected IHDR")
            header = ImageHeader(*struct.unpack_from(">IIB", data, position + 8))
        elif kind == b"IEND":
            return header
        position = end
    raise BadImageError(f"found a PNG of {len(data)} bytes without its end within {MAX_STEPS} chunks")
