"""What is read from a JPEG's header."""

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.capture.jpeg import JpegHeader, read_header, trimmed


def picture(width: int = 64, height: int = 48, colours: str = "RGB", sampling: str = "420") -> bytes:
    channels = {"RGB": 3, "GRAY": 1, "CMYK": 4}[colours]
    image = np.random.default_rng(1).integers(0, 255, (height, width, channels), np.uint8)
    data: bytes = simplejpeg.encode_jpeg(image, colorspace=colours, colorsubsampling=sampling)
    return data


@pytest.mark.parametrize(("width", "height"), [(1, 1), (7, 5), (640, 480), (1919, 1081)])
@pytest.mark.parametrize("sampling", ["420", "422", "444"])
def test_size_of_an_ordinary_jpeg(width: int, height: int, sampling: str) -> None:
    """Width and height, odd ones too, in every subsampling."""
    assert read_header(picture(width, height, sampling=sampling)) == JpegHeader(width, height, True)


def test_a_grey_jpeg_is_ordinary() -> None:
    """One component is as good as three."""
    assert read_header(picture(colours="GRAY", sampling="Gray")) == JpegHeader(64, 48, True)


def test_four_components_are_not() -> None:
    """CMYK is left to the decoder."""
    assert read_header(picture(colours="CMYK")) is None


def test_missing_huffman_tables_are_seen() -> None:
    """A frame of Motion JPEG without DHT segments is told from a JPEG that stands by itself."""
    assert read_header(without_huffman_tables(picture())) == JpegHeader(64, 48, False)


def without_huffman_tables(data: bytes) -> bytes:
    """Take the DHT segments out of a JPEG's header."""
    kept, at = [data[:2]], 2
    while data[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4])
        if data[at + 1] != 0xC4:
            kept.append(data[at:end])
        at = end
    return b"".join([*kept, data[at:]])


@pytest.mark.parametrize("length", [0, 1, 2, 3, 10, 100, 300])
def test_a_truncated_jpeg_is_none(length: int) -> None:
    """Without its end it is refused, wherever it is cut; with an end marker behind the cut as well."""
    data = picture()

    assert read_header(data[:length]) is None
    assert read_header(data[:-2]) is None
    if length < 100:
        assert read_header(data[:length] + b"\xff\xd9") is None


def test_other_codings_are_none() -> None:
    """12 bits, lossless and arithmetic coding, and a height of 0, are left to the decoder."""
    data = picture()
    start = data.index(b"\xff\xc0")

    assert read_header(data[: start + 4] + b"\x0c" + data[start + 5 :]) is None
    assert read_header(data.replace(b"\xff\xc0", b"\xff\xc3", 1)) is None
    assert read_header(data.replace(b"\xff\xc0", b"\xff\xc9", 1)) is None
    assert read_header(data[: start + 5] + b"\0\0" + data[start + 7 :]) is None


def test_padding_behind_the_end_is_cut_off() -> None:
    """Drivers hand out whole buffers; what is in front of the padding is the JPEG."""
    data = picture()

    assert trimmed(data + bytes(1000)) == data
    assert trimmed(data) is data
    assert trimmed(b"no jpeg") == b"no jpeg"


def test_fill_bytes_and_comments_are_passed_over() -> None:
    """Segments may be preceded by any number of 0xFF, and there may be many of them."""
    data = picture()
    comment = b"\xff\xff\xff\xfe\x00\x06test"

    assert read_header(data[:2] + comment * 50 + data[2:]) == JpegHeader(64, 48, True)


def test_the_search_is_bounded() -> None:
    """A header of thousands of segments is given up, not read to its end."""
    assert read_header(b"\xff\xd8" + b"\xff\xfe\x00\x02" * 100_000 + picture()[2:]) is None


@given(st.binary(max_size=400))
def test_no_bytes_break_it(noise: bytes) -> None:
    """Whatever stands between a JPEG's first and last two bytes, the answer is a header or None."""
    header = read_header(b"\xff\xd8" + noise + b"\xff\xd9")

    assert header is None or (header.width > 0 and header.height > 0)
