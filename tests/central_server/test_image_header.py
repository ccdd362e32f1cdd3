"""Sizes from headers, and everything that is refused before a decoder sees it."""

import struct
import time

import pytest

from central_server.errors import BadImageError
from central_server.image_header import MAX_SCANS, ImageHeader, read_jpeg_header
from tests.pictures import claim_size, encode, find_start_of_frame, jpeg, scene

JPEGS = {
    "baseline": (jpeg(), 3),
    "progressive": (jpeg(progressive=True), 3),
    "grayscale": (encode(scene(), mode="L"), 1),
    "cmyk": (encode(scene(), mode="CMYK"), 4),
    "with a thumbnail's markers in a comment": (
        jpeg(comment=b"\xff\xd8\xff\xc0\x00\x11\x08\x00\x01\x00\x01"),
        3,
    ),
}


@pytest.mark.parametrize("name", JPEGS)
def test_a_jpeg_says_its_size(name: str) -> None:
    """Width, height, bits and channels are read from the start of frame, wherever it is."""
    data, channels = JPEGS[name]

    assert read_jpeg_header(data) == ImageHeader(128, 96, 8, channels)


@pytest.mark.parametrize("name", JPEGS)
def test_a_jpeg_cut_in_its_header_is_refused(name: str) -> None:
    """Cut anywhere up to its size, a JPEG has none."""
    data, _ = JPEGS[name]

    for length in range(3, find_start_of_frame(data) + 10):
        with pytest.raises(BadImageError, match="JPEG"):
            read_jpeg_header(data[:length])


def test_fill_bytes_and_bare_markers_are_skipped() -> None:
    """The standard allows them before any marker."""
    data = jpeg()

    assert read_jpeg_header(data[:2] + b"\xff\xff\xff\x01" + data[2:]) == ImageHeader(128, 96, 8, 3)


@pytest.mark.parametrize("marker", [0xC3, 0xC5, 0xC9, 0xCB, 0xCF])
def test_jpegs_that_no_decoder_takes_are_refused_by_name(marker: int) -> None:
    """Lossless, hierarchical and arithmetic coding are told from the header."""
    data = bytearray(jpeg())
    data[find_start_of_frame(bytes(data)) + 1] = marker

    with pytest.raises(BadImageError, match=f"0x{marker:02x}.*expected baseline"):
        read_jpeg_header(bytes(data))


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xd8\xff\xd9",
        b"\xff\xd8\xff\xda\x00\x08" + bytes(100),
        b"\xff\xd8\xff\xe0\xff\xff",
        b"\xff\xd8\xff\xe0\x00\x00" + bytes(100),
        b"\xff\xd8" + b"no marker at all",
    ],
    ids=["end at once", "scan without frame", "segment beyond the end", "length 0", "text"],
)
def test_a_jpeg_without_a_picture_is_refused(data: bytes) -> None:
    """Markers that lead nowhere end in a refusal."""
    with pytest.raises(BadImageError, match="JPEG"):
        read_jpeg_header(data)


@pytest.mark.parametrize(
    "filling",
    [b"\xff", b"\xff\xe0\x00\x02", b"\xff\xe0\x00\x00\xff\xe0", b"\xff\x01"],
    ids=["fill bytes", "empty segments", "length 0", "bare markers"],
)
def test_endless_jpeg_headers_are_given_up(filling: bytes) -> None:
    """Four megabytes of markers cost a bounded number of steps, not a step each."""
    data = b"\xff\xd8" + filling * ((4 << 20) // len(filling))
    begun_s = time.thread_time()

    with pytest.raises(BadImageError):
        read_jpeg_header(data)

    # A step for each marker would use several times this much of the thread's own processor time.
    assert time.thread_time() - begun_s < 0.1


def test_a_jpeg_of_very_many_scans_is_refused() -> None:
    """Each scan costs a pass over all pixels, so that a small file could keep a worker busy for minutes."""
    data = jpeg(progressive=True)
    last_scan = data[data.rindex(b"\xff\xda") : -2]
    scans = data.count(b"\xff\xda")

    bomb = data[:-2] + last_scan * (MAX_SCANS + 1 - scans) + data[-2:]

    with pytest.raises(BadImageError, match=f"{MAX_SCANS + 1} scans, expected at most {MAX_SCANS}"):
        read_jpeg_header(bomb)


def test_the_size_that_a_jpeg_claims_is_read() -> None:
    """A forged size is what counts."""
    assert read_jpeg_header(claim_size(jpeg(), 30_000, 29_999)) == ImageHeader(30_000, 29_999, 8, 3)


def segment(marker: int, body: bytes) -> bytes:
    """Write a JPEG segment."""
    return struct.pack(">BBH", 0xFF, marker, 2 + len(body)) + body


@pytest.mark.parametrize("marker", [0x00, 0x02, 0xBF, 0xC8, 0xCC, 0xD8, 0xD9, 0xDC, 0xDE, 0xF0, 0xFD])
def test_a_marker_that_the_decoder_takes_otherwise_is_refused(marker: int) -> None:
    """What one reader skips as a segment and another looks into could hide a second, larger size."""
    data = jpeg()
    at = find_start_of_frame(data)
    smuggled = data[:at] + segment(marker, claim_size(data, 30_000, 30_000)[at : at + 19]) + data[at:]

    with pytest.raises(BadImageError, match=f"marker 0x{marker:02x} .* does not belong"):
        read_jpeg_header(smuggled)


@pytest.mark.parametrize("length", [0, 1])
def test_a_segment_shorter_than_its_length_is_refused(length: int) -> None:
    """The length counts itself."""
    data = jpeg()

    with pytest.raises(BadImageError, match=f"0xfe with length {length} "):
        read_jpeg_header(data[:2] + struct.pack(">BBH", 0xFF, 0xFE, length) + data[2:])


def test_a_jpeg_of_two_sizes_is_refused() -> None:
    """One start of frame, and no more."""
    data = jpeg()
    at = find_start_of_frame(data)

    with pytest.raises(BadImageError, match=r"marker 0xc0 .* does not belong"):
        read_jpeg_header(data[: at + 19] + data[at:])


def test_a_start_of_frame_of_another_length_is_refused() -> None:
    """Where it ends has to be beyond doubt."""
    data = bytearray(jpeg())
    data[find_start_of_frame(bytes(data)) + 3] += 1

    with pytest.raises(BadImageError, match="3 channels with a start of frame of 18 bytes"):
        read_jpeg_header(bytes(data))
