"""PNG files before a decoder sees them: all that it would complain of is refused."""

import io
import struct
import time
import zlib

import numpy as np
import pytest
from PIL import Image

from central_server.errors import BadImageError, TooLargeError
from central_server.frame import EncodedImage
from central_server.image import ImageLimits, decode
from central_server.png_file import read_png
from tests.memory import Memory
from tests.pictures import encode, interlaced_rows, png, png_chunk, png_header, scene

MEGABYTE = 1 << 20


def test_a_png_says_its_size() -> None:
    """Width, height and bits come from IHDR."""
    first, second = read_png(encode(scene(), "PNG")), read_png(png(9, 8, 16, 0, bytes(8 * 19)))

    assert (first.width, first.height, first.bits, first.colour_type) == (128, 96, 8, 2)
    assert (second.width, second.height, second.bits, second.colour_type) == (9, 8, 16, 0)


def test_a_png_cut_anywhere_is_refused() -> None:
    """Every chunk up to IEND has to be there."""
    data = encode(scene(), "PNG")

    for length in range(8, len(data)):
        with pytest.raises(BadImageError, match="PNG"):
            read_png(data[:length])


def test_a_png_with_a_changed_byte_is_refused() -> None:
    """The checksums are compared."""
    data = encode(scene(16, 16), "PNG")

    for position in range(8, len(data)):
        with pytest.raises(BadImageError, match="PNG"):
            read_png(data[:position] + bytes([data[position] ^ 0x40]) + data[position + 1 :])


def test_a_png_has_to_begin_with_its_header() -> None:
    """Another first chunk, or an IHDR of another length, is refused by name."""
    with pytest.raises(BadImageError, match="begins with chunk b'IDAT', expected IHDR"):
        read_png(png_header(8, 8)[:8] + png_chunk(b"IDAT", b"") + png_chunk(b"IEND", b""))
    with pytest.raises(BadImageError, match="expected IHDR"):
        read_png(png_header(8, 8)[:8] + png_chunk(b"IHDR", struct.pack(">II", 8, 8)))


def test_endless_png_chunks_are_given_up() -> None:
    """Four megabytes of empty chunks cost a bounded number of steps."""
    data = png_header(8, 8) + png_chunk(b"tEXt", b"") * ((4 << 20) // 12)
    begun_s = time.thread_time()

    with pytest.raises(BadImageError, match="without its end within"):
        read_png(data)

    assert time.thread_time() - begun_s < 0.1


END = png_chunk(b"IEND", b"")
ROWS = bytes(8 * 25)


def picture(data: bytes, *before: bytes) -> bytes:
    """Write a PNG of 8 x 8 with this compressed data."""
    return png_header(8, 8) + b"".join(before) + png_chunk(b"IDAT", data) + END


def header_with(**fields: int) -> bytes:
    """Write a whole PNG of 8 x 8 whose header has other fields."""
    values = {"width": 8, "height": 8, "bits": 8, "colour": 2, "compression": 0, "filter": 0, "interlace": 0}
    body = struct.pack(">IIBBBBB", *(values | fields).values())
    return png_header(8, 8)[:8] + png_chunk(b"IHDR", body) + png_chunk(b"IDAT", zlib.compress(ROWS)) + END


def palette_with(size: int) -> bytes:
    """Write a PNG of 8 x 8 and 4 bits a pixel with a palette of this many bytes."""
    head = png_header(8, 8)[:8] + png_chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 4, 3, 0, 0, 0))
    return head + png_chunk(b"PLTE", bytes(size)) + png_chunk(b"IDAT", zlib.compress(bytes(8 * 5))) + END


DAMAGED = {
    "no data": png_header(8, 8) + END,
    "garbage": picture(b"garbage"),
    "too few rows": picture(zlib.compress(ROWS[:-1])),
    "too many rows": picture(zlib.compress(ROWS + b"\0")),
    "far too many rows": picture(zlib.compress(bytes(64 * MEGABYTE))),
    "an unknown filter": picture(zlib.compress(ROWS[:175] + b"\5" + ROWS[176:])),
    "a wrong checksum of the data": picture(zlib.compress(ROWS)[:-1] + b"?"),
    "no end of the data": picture(zlib.compress(ROWS)[:-1]),
    "bytes behind the data": picture(zlib.compress(ROWS) + b"?"),
    "many bytes behind the data": picture(zlib.compress(ROWS) + bytes(100_000)),
    "a preset dictionary": picture(b"\x78\xbb" + bytes(20)),
    "two headers": picture(zlib.compress(ROWS), png_chunk(b"IHDR", bytes(13))),
    "an unknown critical chunk": picture(zlib.compress(ROWS), png_chunk(b"ABCD", b"x")),
    "two palettes": picture(zlib.compress(ROWS), png_chunk(b"PLTE", bytes(3)), png_chunk(b"PLTE", bytes(3))),
    "no palette": header_with(colour=3),
    "a palette of half a colour": palette_with(4),
    "a palette of too many colours": palette_with(51),
    "bits that are none": header_with(bits=99),
    "bits of another colour type": header_with(bits=4),
    "an unknown colour type": header_with(colour=5),
    "an unknown compression": header_with(compression=1),
    "an unknown filtering": header_with(filter=1),
    "an unknown interlacing": header_with(interlace=2),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_refused_without_a_word_on_stderr(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever a client sends, the server's log does not grow with it."""
    memory = Memory()
    memory.reset_peak()
    before = memory.peak_bytes()

    with pytest.raises(BadImageError, match=r"found a .*PNG"):
        decode(EncodedImage(DAMAGED[name]), ImageLimits())

    assert capfd.readouterr().err == ""
    assert memory.peak_bytes() - before < 8 * MEGABYTE


@pytest.mark.parametrize(
    "extra",
    [
        png_chunk(b"iCCP", b"k\0\0garbage"),
        png_chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(64 * MEGABYTE))),
        png_chunk(b"gAMA", bytes(4)) + png_chunk(b"sRGB", b"\x09"),
        png_chunk(b"tRNS", b"?"),
        png_chunk(b"acTL", struct.pack(">II", 10**9, 0)),
        png_chunk(b"PLTE", b"?"),
    ],
    ids=["profile", "text", "gamma", "transparency", "animation", "palette"],
)
def test_chunks_that_say_nothing_of_the_pixels_are_not_looked_at(
    extra: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """However damaged they are, the picture is the same and nobody complains."""
    pixels = decode(EncodedImage(picture(zlib.compress(ROWS), extra)), ImageLimits())

    np.testing.assert_array_equal(pixels, np.zeros((8, 8, 3)))
    assert capfd.readouterr().err == ""


def test_pixels_beyond_the_palette_are_black(capfd: pytest.CaptureFixture[str]) -> None:
    """And nothing to write about."""
    head = png_header(8, 8)[:8] + png_chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 3, 0, 0, 0))
    rows = zlib.compress(b"\0\0\xff\1\2\3\4\5\6" * 8)
    data = head + png_chunk(b"PLTE", b"\x10\x20\x30") + png_chunk(b"IDAT", rows) + END

    pixels = decode(EncodedImage(data), ImageLimits())

    assert pixels[0, :2].tolist() == [[0x10, 0x20, 0x30], [0, 0, 0]]
    assert capfd.readouterr().err == ""


def test_a_window_smaller_than_the_data_needs(capfd: pytest.CaptureFixture[str]) -> None:
    """A stream that names a window of 256 bytes and looks back further is read all the same."""
    rows = b"".join(b"\0" + row.tobytes() for row in scene(200, 200))
    data = png_header(200, 200) + png_chunk(b"IDAT", b"\x08\x1d" + zlib.compress(rows, 9)[2:]) + END

    np.testing.assert_array_equal(decode(EncodedImage(data), ImageLimits()), scene(200, 200))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("colour", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
@pytest.mark.parametrize("side", [8, 9, 13, 33])
def test_interlaced_pictures_have_the_rows_of_seven_passes(colour: int, channels: int, side: int) -> None:
    """Of all colour types and sizes: exactly as many as there are, no more and no less."""
    value = np.random.default_rng(side).integers(0, 256, channels, np.uint8)
    rows = interlaced_rows(side, value.tobytes())
    fields = struct.pack(">IIBBBBB", side, side, 8, colour, 0, 0, 1)
    head = png_header(side, side)[:8] + png_chunk(b"IHDR", fields)
    whole = head + png_chunk(b"IDAT", zlib.compress(rows)) + END

    pixels = decode(EncodedImage(whole), ImageLimits())

    expected = Image.open(io.BytesIO(whole)).convert("RGBA")
    np.testing.assert_array_equal(pixels, np.asarray(expected)[..., :3])
    for wrong in (rows[:-1], rows + b"\0"):
        with pytest.raises(BadImageError, match="rows"):
            decode(EncodedImage(head + png_chunk(b"IDAT", zlib.compress(wrong)) + END), ImageLimits())


def test_data_in_many_chunks_is_one_stream() -> None:
    """Cut anywhere, even within the stream's own header."""
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in scene()))
    parts = b"".join(png_chunk(b"IDAT", data[at : at + 7]) for at in range(0, len(data), 7))

    np.testing.assert_array_equal(
        decode(EncodedImage(png_header(128, 96) + parts + END), ImageLimits()), scene()
    )


def test_a_side_longer_than_any_decoder_takes_is_too_large(capfd: pytest.CaptureFixture[str]) -> None:
    """Within the limit of pixels, and still no picture."""
    with pytest.raises(TooLargeError, match="1000001 x 8, expected at most 1000000 a side"):
        decode(EncodedImage(png(1_000_001, 8, 8, 0, bytes(8 * 1_000_002))), ImageLimits())
    assert capfd.readouterr().err == ""
