"""PNG files (ISO/IEC 15948) read and checked before a decoder sees them.

libpng writes a line to stderr for each kind of damage, where a hostile client could flood the log, and
reads chunks that say nothing of the pixels. So the checksums, the palette and the compressed data are
checked here, and the decoder gets a file of nothing but header, palette and pixels that it cannot
complain of.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from central_server.errors import BadImageError, TooLargeError

START = b"\x89PNG\r\n\x1a\n"
# libpng takes no longer ones.
MAX_SIDE_PX = 1_000_000
# Walking the chunks holds the GIL; a big picture has a few thousand.
MAX_STEPS = 10_000
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
BITS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
PALETTE = 3
# Adam7: the first column and row of each pass, and its steps.
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
FILTERS = bytes(range(5))
ZLIB_HEADER = b"\x78\x01"  # deflate with the largest window
INPUT_STEP = 64 << 10
OUTPUT_STEP = 256 << 10
IDAT_STEP = 1 << 20


@dataclass(frozen=True, slots=True)
class PngFile:
    """What counts in a PNG: size in pixels, how a pixel is stored, palette and compressed data."""

    width: int
    height: int
    bits: int
    colour_type: int
    interlaced: bool
    palette: bytes
    data: bytes

    def to_plain(self) -> bytes:
        """Write the file anew, for a decoder that then finds nothing to complain of.

        Inflates the data once, in pieces; call it after the size has been checked.

        Raises:
            BadImageError: the compressed data is damaged, or not of this size.

        """
        self._check_data()
        # A smaller window than the data needs would be found out by some decoders only.
        data = ZLIB_HEADER + self.data[2:]
        head = struct.pack(
            ">IIBBBBB", self.width, self.height, self.bits, self.colour_type, 0, 0, self.interlaced
        )
        parts = [START, *_chunk(b"IHDR", head)]
        if self.colour_type == PALETTE:
            # No pixel can point beyond it.
            parts += _chunk(b"PLTE", self.palette.ljust(3 << self.bits, b"\0"))
        for at in range(0, len(data), IDAT_STEP):
            parts += _chunk(b"IDAT", data[at : at + IDAT_STEP])
        return b"".join((*parts, *_chunk(b"IEND", b"")))

    def _passes(self) -> Iterator[tuple[int, int]]:
        """Give rows, and bytes in a row with its filter byte, for each pass."""
        for x, y, step_x, step_y in PASSES if self.interlaced else ((0, 0, 1, 1),):
            columns, rows = -((x - self.width) // step_x), -((y - self.height) // step_y)
            if columns > 0 and rows > 0:
                yield rows, 1 + (columns * CHANNELS[self.colour_type] * self.bits + 7) // 8

    def _check_data(self) -> None:
        """Inflate, and look at each row's filter."""
        blocks = _inflate(self.data)
        block = b""
        try:
            for rows, row_bytes in self._passes():
                done, size = 0, rows * row_bytes
                while done < size:
                    block = block or next(blocks, b"")
                    if not block:
                        raise BadImageError(
                            f"found a PNG of {self.width} x {self.height} that has too few rows"
                        )
                    part, block = block[: size - done], block[size - done :]
                    if part[-done % row_bytes :: row_bytes].translate(None, FILTERS):
                        raise BadImageError("found a PNG with a row filter above 4, expected 0 to 4")
                    done += len(part)
            if block or next(blocks, b""):
                raise BadImageError(f"found a PNG of {self.width} x {self.height} that has too many rows")
        except zlib.error as error:
            raise BadImageError(f"found a damaged PNG of {self.width} x {self.height}: {error}") from None


def _inflate(data: bytes) -> Iterator[bytes]:
    """Give what was compressed in pieces of at most OUTPUT_STEP; zlib.error unless it is one whole stream."""
    stream = zlib.decompressobj()
    for at in range(0, len(data), INPUT_STEP):
        if stream.eof:
            raise zlib.error("bytes behind the end of its data")
        unread = data[at : at + INPUT_STEP]
        while unread:
            if block := stream.decompress(unread, OUTPUT_STEP):
                yield block
            unread = stream.unconsumed_tail
    while block := stream.decompress(b"", OUTPUT_STEP):
        yield block
    if not stream.eof or stream.unused_data:
        raise zlib.error("its data has no end, or bytes behind it")


def _chunk(kind: bytes, body: bytes) -> tuple[bytes, ...]:
    return struct.pack(">I", len(body)), kind, body, struct.pack(">I", zlib.crc32(body, zlib.crc32(kind)))


def read_png(data: bytes) -> PngFile:
    """Walk a PNG's chunks and keep those that say something of its pixels.

    Raises:
        BadImageError: a chunk is missing, cut, damaged or out of place.
        TooLargeError: a side is longer than any decoder takes.

    """
    header, palette, parts = b"", b"", []
    for kind, body in _read_chunks(data):
        if not header:
            if kind != b"IHDR" or len(body) != 13:
                raise BadImageError(f"found a PNG that begins with chunk {kind!r}, expected IHDR")
            header = bytes(body)
        elif kind == b"IDAT":
            parts.append(body)
        elif kind == b"PLTE" and not palette and not parts:
            palette = bytes(body)
        elif kind == b"IEND":
            break
        elif kind[:1].isupper():
            raise BadImageError(f"found a PNG with chunk {kind!r} where it does not belong")
    else:
        raise BadImageError(f"found a PNG of {len(data)} bytes without its end within {MAX_STEPS} chunks")
    return _read_header(header, palette, b"".join(parts))


def _read_chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    position = len(START)
    for _ in range(MAX_STEPS):
        if position + 12 > len(data):
            return
        length, kind = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        if end > len(data):
            return
        body = memoryview(data)[position + 8 : end - 4]
        if zlib.crc32(body, zlib.crc32(kind)) != int.from_bytes(data[end - 4 : end]):
            raise BadImageError(f"found a PNG whose chunk at byte {position} is damaged")
        yield kind, body
        position = end


def _read_header(header: bytes, palette: bytes, data: bytes) -> PngFile:
    width, height, bits, colour_type, compression, filtering, interlacing = struct.unpack(">IIBBBBB", header)
    if bits not in BITS.get(colour_type, ()) or compression or filtering or interlacing > 1:
        raise BadImageError(
            f"found a PNG with {bits} bits, colour type {colour_type}, compression {compression}, "
            f"filter {filtering} and interlace {interlacing}, which the standard does not have"
        )
    if colour_type == PALETTE and (not palette or len(palette) % 3 or len(palette) > 3 << bits):
        raise BadImageError(
            f"found a PNG with {len(palette)} bytes of palette, expected 3 to {3 << bits}, 3 for each colour"
        )
    if max(width, height) > MAX_SIDE_PX:
        raise TooLargeError(f"found a PNG of {width} x {height}, expected at most {MAX_SIDE_PX} a side")
    return PngFile(width, height, bits, colour_type, bool(interlacing), palette, data)
