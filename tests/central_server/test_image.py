"""Bytes to pixels: every kind of picture that is taken, and every kind that is refused."""

import io
import random
import struct
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from central_server.errors import BadImageError, TooLargeError
from central_server.frame import EncodedImage, ImageFormat
from central_server.image import ImageLimits, decode
from tests.memory import Memory
from tests.pictures import claim_size, encode, find_start_of_frame, jpeg, png, png_chunk, png_header, scene

LIMITS = ImageLimits()
MEGABYTE = 1 << 20

PICTURES = {
    "baseline": jpeg(),
    "baseline 4:4:4": jpeg(subsampling=0),
    "baseline 4:2:2": jpeg(subsampling=1),
    "with restart markers": jpeg(restart_marker_blocks=3),
    "progressive": jpeg(progressive=True),
    "grayscale": encode(scene(), mode="L"),
    "cmyk": encode(scene(), mode="CMYK"),
    "progressive cmyk": encode(scene(), mode="CMYK", progressive=True),
    "odd size": jpeg(97, 131),
    "png": encode(scene(), "PNG"),
    "grayscale png": encode(scene(), "PNG", "L"),
    "bilevel png": encode(scene(), "PNG", "1"),
    "palette png": encode(scene(), "PNG", "P"),
}


def pixels_of(data: bytes, image_format: ImageFormat = ImageFormat.ENCODED) -> NDArray[np.uint8]:
    return decode(EncodedImage(data, image_format), LIMITS)


def pillow(data: bytes) -> NDArray[np.uint8]:
    """Decode with Pillow's own libjpeg-turbo and libpng."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_decode_as_elsewhere(name: str) -> None:
    """JPEGs and PNGs of every kind give the pixels that Pillow gives."""
    pixels = pixels_of(PICTURES[name])

    assert pixels.dtype == np.uint8
    assert pixels.flags.c_contiguous
    np.testing.assert_array_equal(pixels, pillow(PICTURES[name]))


def places_to_cut(data: bytes) -> list[int]:
    """Choose every length of the first 700 and last 40 bytes, and 200 between."""
    middle = range(700, len(data) - 40, max(1, (len(data) - 740) // 200))
    return [*range(min(700, len(data))), *middle, *range(max(0, len(data) - 40), len(data))]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_cut_anywhere_is_refused(name: str) -> None:
    """In its header, its tables, its scans, between them, or of its last byte: never inferred from."""
    data = PICTURES[name]

    for length in places_to_cut(data):
        with pytest.raises(BadImageError):
            pixels_of(data[:length])


@pytest.mark.parametrize("name", ["baseline", "progressive", "cmyk", "grayscale", "with restart markers"])
def test_a_jpeg_that_lost_its_middle_is_refused(name: str) -> None:
    """A hole in the picture data, with the end in its place, is not filled in."""
    data = PICTURES[name]
    scan = data.rindex(b"\xff\xda") if name != "progressive" else data.index(b"\xff\xda")

    with pytest.raises(BadImageError, match="damaged"):
        pixels_of(data[: scan + (len(data) - scan) // 3] + data[-2:])


@pytest.mark.parametrize("name", ["baseline", "progressive", "cmyk", "grayscale", "png"])
def test_a_cut_picture_never_shows_the_picture_before(name: str) -> None:
    """A camera whose picture is cut is refused, whatever was decoded just before it in the same thread."""
    other_camera = encode(255 - scene(), "JPEG")
    for cut in (0.3, 0.6, 0.9, 0.99):
        pixels_of(other_camera)
        with pytest.raises(BadImageError):
            pixels_of(PICTURES[name][: int(len(PICTURES[name]) * cut)])


@pytest.mark.parametrize("name", PICTURES)
def test_damage_has_no_other_end_than_a_refusal(name: str) -> None:
    """Changed bytes give a refusal or a picture of the size in the header: no other error, no crash."""
    generator = random.Random(name)
    for _ in range(300):
        damaged = bytearray(PICTURES[name])
        for _ in range(generator.randint(1, 4)):
            damaged[generator.randrange(2, len(damaged))] = generator.randrange(256)
        try:
            pixels = pixels_of(bytes(damaged))
        except BadImageError:
            continue
        assert pixels.ndim == 3


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"hello", b"\xff\xd8", b"\xff\xd8\xff", bytes(range(256)) * 40], ids=len
)
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    """Nothing, or anything, is a bad image with a detail that says what was found and expected."""
    with pytest.raises(BadImageError, match="found"):
        pixels_of(data)


@pytest.mark.parametrize("kind", ["WEBP", "GIF", "BMP", "TIFF", "JPEG2000", "ICO", "PPM"])
@pytest.mark.parametrize("claim", [ImageFormat.ENCODED, ImageFormat.JPEG, ImageFormat.PNG])
def test_other_formats_never_reach_a_decoder(
    kind: str, claim: ImageFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole pictures of formats that OpenCV would take are refused by their first bytes."""
    reached: list[object] = []
    monkeypatch.setattr(cv2, "imdecode", lambda *arguments: reached.append(arguments))
    data = encode(scene(), kind)

    with pytest.raises(BadImageError, match=f"begin {data[:4].hex(' ')}"):
        pixels_of(data, claim)
    assert not reached


FORGERIES: dict[str, Callable[[], bytes]] = {
    "baseline": lambda: claim_size(jpeg(), 30_000, 30_000),
    "progressive": lambda: claim_size(jpeg(progressive=True), 30_000, 30_000),
    "cmyk": lambda: claim_size(PICTURES["cmyk"], 30_000, 30_000),
    "png": lambda: png_header(30_000, 30_000) + png_chunk(b"IDAT", bytes(100)) + png_chunk(b"IEND", b""),
    "png of 16 bits with alpha": lambda: png(30_000, 30_000, 16, 6, bytes(1000)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_size_is_refused_before_anything_is_allocated(name: str) -> None:
    """A small file whose header claims 30,000 x 30,000 pixels costs nothing."""
    data = FORGERIES[name]()
    memory = Memory()
    memory.reset_peak()
    before = memory.peak_bytes()

    with pytest.raises(TooLargeError, match=f"30000 x 30000 = 900000000 pixels.*{LIMITS.max_pixels}"):
        pixels_of(data)

    assert memory.peak_bytes() - before < 8 * MEGABYTE


def test_the_limit_is_of_pixels_not_of_sides() -> None:
    """A picture of exactly the limit is taken, one row more is not."""
    limits = ImageLimits(max_pixels=128 * 96)

    assert decode(EncodedImage(jpeg(96, 128)), limits).shape == (96, 128, 3)
    with pytest.raises(TooLargeError, match="128 x 97 = 12416 pixels, expected at most 12288"):
        decode(EncodedImage(jpeg(97, 128)), limits)


def test_the_limit_of_bytes_has_both_figures() -> None:
    """One byte more than the limit is refused with what was found and what was expected."""
    limits = ImageLimits(max_bytes=1000)

    limits.check_bytes(EncodedImage(bytes(1000)))
    with pytest.raises(TooLargeError, match="found 1001 bytes of image, expected at most 1000"):
        limits.check_bytes(EncodedImage(bytes(1001)))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 100), (100, 1), (7, 8), (8, 7)])
def test_pictures_too_small_to_show_anything_are_refused(kind: str, height: int, width: int) -> None:
    """A side shorter than 8 pixels is a bad image."""
    with pytest.raises(BadImageError, match=f"found {width} x {height} pixels, expected at least 8 x 8"):
        pixels_of(encode(scene(8, 200)[:, :].repeat(13, axis=0)[:height, :width], kind))


def test_the_smallest_picture_is_taken() -> None:
    """Eight by eight pixels are enough."""
    assert pixels_of(encode(scene(8, 8), "PNG")).shape == (8, 8, 3)


@pytest.mark.parametrize("colour_type", [2, 6], ids=["rgb", "rgba"])
def test_sixteen_bits_become_eight_by_their_high_byte(colour_type: int) -> None:
    """The low byte and the alpha of a 16-bit PNG are dropped."""
    channels = 3 if colour_type == 2 else 4
    values = np.random.default_rng(5).integers(0, 65536, (16, 16, channels), np.uint16)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)

    pixels = pixels_of(png(16, 16, 16, colour_type, rows))

    np.testing.assert_array_equal(pixels, (values[..., :3] >> 8).astype(np.uint8))


def test_alpha_is_dropped() -> None:
    """Colours under a transparent pixel are what was sent, not blended with anything."""
    rgba = np.dstack([scene(), np.tile(np.arange(128, dtype=np.uint8), (96, 1))])
    file = io.BytesIO()
    Image.fromarray(rgba).save(file, "PNG")

    np.testing.assert_array_equal(pixels_of(file.getvalue()), scene())


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_an_exif_rotation_is_ignored(kind: str, orientation: int) -> None:
    """Boxes refer to the pixels as they were sent, so they are looked at as they were sent."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    turned = encode(scene(), kind, exif=exif)
    plain = encode(scene(), kind)

    assert turned != plain
    np.testing.assert_array_equal(pixels_of(turned), pixels_of(plain))


@pytest.mark.parametrize(
    ("claim", "kind"), [(ImageFormat.JPEG, "PNG"), (ImageFormat.PNG, "JPEG")], ids=["as jpeg", "as png"]
)
def test_a_picture_called_another_kind_is_refused(claim: ImageFormat, kind: str) -> None:
    """Who says JPEG or PNG sends that and nothing else."""
    with pytest.raises(BadImageError, match=f"expected {claim.name}"):
        pixels_of(encode(scene(), kind), claim)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_picture_called_what_it_is_is_taken(kind: str) -> None:
    """A claim that is true changes nothing."""
    data = encode(scene(), kind)

    np.testing.assert_array_equal(pixels_of(data, ImageFormat[kind]), pixels_of(data))


def test_a_format_of_a_later_version_is_refused() -> None:
    """Not guessed at."""
    with pytest.raises(BadImageError, match="does not know"):
        pixels_of(jpeg(), ImageFormat.UNKNOWN)


def test_twelve_bit_jpegs_are_refused() -> None:
    """The samples have to be of 8 bits."""
    data = bytearray(jpeg())
    data[find_start_of_frame(bytes(data)) + 4] = 12

    with pytest.raises(BadImageError, match="12 bits a sample, expected 8"):
        pixels_of(bytes(data))


def grey_4_1_0() -> bytes:
    """Write a grey JPEG of 128 x 96 with 4 x 2 luminance blocks for each chrominance block."""
    data = encode(np.full((96, 128, 3), 128, np.uint8), subsampling=0)
    # A grey block is "no difference, end of block" in the standard's tables: 00 1010 for luminance,
    # 00 00 for chrominance. The picture is 4 x 6 units of 32 x 16 pixels.
    bits = ("001010" * 8 + "0000" * 2) * 24
    scan = int(bits, 2).to_bytes(len(bits) // 8)
    at = data.index(b"\xff\xda")
    tables = bytearray(data[: at + 2 + int.from_bytes(data[at + 2 : at + 4])])
    tables[find_start_of_frame(data) + 11] = 0x42
    return bytes(tables) + scan + b"\xff\xd9"


def test_a_rare_chroma_sampling_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the strict decoder does not know goes to no other, which would fill in what is damaged."""
    reached: list[object] = []
    monkeypatch.setattr(cv2, "imdecode", lambda *arguments: reached.append(arguments))

    with pytest.raises(BadImageError, match="rare chroma sampling, expected 4:4:4"):
        pixels_of(grey_4_1_0())
    assert not reached


@pytest.mark.parametrize("sampling", [0x22, 0x31, 0x13])
def test_a_second_size_hidden_in_a_segment_costs_nothing(sampling: int) -> None:
    """A marker that one reader skips and another looks into, with 14,000 x 14,000 pixels behind it."""
    data = encode(scene(64, 64))
    at = find_start_of_frame(data)
    frame = bytearray(data[at : at + 19])
    frame[11] = sampling
    forged = bytes(frame[:5]) + struct.pack(">HH", 14_000, 14_000) + bytes(frame[9:])
    hidden = forged + b"\xff\xfe" + struct.pack(">H", 2 + len(frame))
    bomb = data[:at] + b"\xff\x00" + struct.pack(">H", 2 + len(hidden)) + hidden + frame + data[at + 19 :]
    memory = Memory()
    memory.reset_peak()
    before = memory.peak_bytes()

    with pytest.raises(BadImageError, match="found marker 0x00"):
        pixels_of(bomb)

    assert memory.peak_bytes() - before < 8 * MEGABYTE


RAW = {
    ImageFormat.RGB24: scene().tobytes(),
    ImageFormat.BGR24: scene()[..., ::-1].tobytes(),
    ImageFormat.GRAY8: scene()[..., 0].tobytes(),
}


@pytest.mark.parametrize("image_format", RAW)
def test_raw_frames_become_rgb(image_format: ImageFormat) -> None:
    """R G B is taken as it is, B G R turned round, luminance written three times."""
    image = EncodedImage(RAW[image_format], image_format, 128, 96)
    expected = scene() if image_format is not ImageFormat.GRAY8 else scene()[..., :1].repeat(3, axis=2)

    pixels = decode(image, LIMITS)

    np.testing.assert_array_equal(pixels, expected)
    assert pixels.flags.c_contiguous


@pytest.mark.parametrize("image_format", RAW)
@pytest.mark.parametrize(
    ("width", "height"), [(128, 95), (129, 96), (96, 129), (0, 0), (128, 0), (1 << 31, 1 << 31)]
)
def test_raw_frames_of_another_size_than_they_claim_are_refused(
    image_format: ImageFormat, width: int, height: int
) -> None:
    """Width x height x bytes a pixel has to be what was sent."""
    with pytest.raises(BadImageError, match="found"):
        decode(EncodedImage(RAW[image_format], image_format, width, height), LIMITS)


@pytest.mark.parametrize(
    "data",
    [
        encode(np.tile(scene(512, 512), (6, 6, 1)), "JPEG"),
        encode(np.tile(scene(512, 512), (6, 6, 1)), "JPEG", "CMYK"),
        encode(np.tile(scene(512, 512), (6, 6, 1)), "PNG"),
    ],
    ids=["jpeg", "cmyk", "png"],
)
def test_other_threads_run_while_a_picture_is_decoded(
    data: bytes, longest_stall: Callable[[Callable[[], object]], float]
) -> None:
    """The longest stall of a ticking thread is shorter than half of the decoding that it ran beside."""
    assert longest_stall(lambda: pixels_of(data)) < 0.5
