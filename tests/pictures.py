"""Pictures for tests: files of every kind that a client may send, made by Pillow or by hand."""

import io
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

PNG_START = b"\x89PNG\r\n\x1a\n"


def scene(height: int = 96, width: int = 128) -> NDArray[np.uint8]:
    """Make an RGB picture with edges and gradients, the same each time."""
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack([x * 255 // width, y * 255 // height, (x + y) % 256], axis=2).astype(np.uint8)
    pixels[height // 4 : height // 2, width // 4 : width // 2] = (220, 40, 90)
    return pixels


def encode(pixels: NDArray[np.uint8], kind: str = "JPEG", mode: str = "RGB", **options: Any) -> bytes:
    """Write RGB pixels as a file, converted to one of Pillow's modes."""
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, kind, **options)
    return file.getvalue()


def jpeg(height: int = 96, width: int = 128, **options: Any) -> bytes:
    """Write the scene as a JPEG."""
    return encode(scene(height, width), "JPEG", **options)


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """Write one PNG chunk with its checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_header(width: int, height: int, bits: int = 8, colour_type: int = 2) -> bytes:
    """Write a PNG's start and IHDR."""
    return PNG_START + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, 0))


def png(width: int, height: int, bits: int, colour_type: int, rows: bytes, *ancillary: bytes) -> bytes:
    """Write a PNG from its rows, each with its filter byte, after further chunks."""
    header = png_header(width, height, bits, colour_type)
    return header + b"".join(ancillary) + png_chunk(b"IDAT", zlib.compress(rows, 9)) + png_chunk(b"IEND", b"")


def find_start_of_frame(data: bytes) -> int:
    """Find where a JPEG's start of frame begins (its 0xFF)."""
    position = 2
    while data[position + 1] not in (0xC0, 0xC1, 0xC2):
        position += 2 + int.from_bytes(data[position + 2 : position + 4])
    return position


def claim_size(data: bytes, width: int, height: int) -> bytes:
    """Write another size into a JPEG's header."""
    at = find_start_of_frame(data) + 5
    return data[:at] + struct.pack(">HH", height, width) + data[at + 4 :]


def interlaced_rows(side: int, pixel: bytes) -> bytes:
    """Write the rows of a square interlaced PNG of one colour, unfiltered: those of its seven passes."""
    passes = (
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    )
    return b"".join(
        (b"\0" + pixel * len(range(x, side, dx))) * len(range(y, side, dy)) for x, y, dx, dy in passes
    )
