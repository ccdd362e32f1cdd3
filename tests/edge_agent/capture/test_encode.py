"""From a decoded picture to a JPEG."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import av
import numpy as np
import pytest
import simplejpeg
from av.video.reformatter import ColorRange, Colorspace
from numpy.typing import NDArray

from edge_agent.capture.encode import JpegEncoder

Image = NDArray[np.float64]
AVCOL_BT709, AVCOL_UNSPECIFIED, AVCOL_BT601 = 1, 2, 6
MATRICES = {AVCOL_BT601: (0.299, 0.114), AVCOL_UNSPECIFIED: (0.299, 0.114), AVCOL_BT709: (0.2126, 0.0722)}


@pytest.fixture(scope="module")
def footage(walkers: Path) -> list[av.VideoFrame]:
    """Give some decoded pictures of real footage: 768 x 576, yuv420p."""
    with av.open(str(walkers)) as container:
        return list(islice(container.decode(video=0), 0, 60, 12))


def decoded(data: bytes) -> Image:
    image: Image = simplejpeg.decode_jpeg(data).astype(float)
    return image


def planes(picture: av.VideoFrame) -> Iterator[Image]:
    """Give Y, Cb and Cr of a yuv420p picture, chroma repeated to full size."""
    for number, plane in enumerate(picture.planes):
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)[
            :, : plane.width
        ]
        full = rows if number == 0 else rows.repeat(2, 0).repeat(2, 1)
        yield full[: picture.height, : picture.width].astype(float)


def reference_rgb(picture: av.VideoFrame) -> Image:
    """Convert by the definition of BT.601 or BT.709, as the picture is marked."""
    kr, kb = MATRICES[picture.colorspace]
    luma, blue, red = planes(picture)
    blue, red = blue - 128, red - 128
    if picture.color_range != ColorRange.JPEG:
        luma, blue, red = (luma - 16) * 255 / 219, blue * 255 / 224, red * 255 / 224
    r, b = luma + 2 * (1 - kr) * red, luma + 2 * (1 - kb) * blue
    return np.clip(np.stack([r, (luma - kr * r - kb * b) / (1 - kr - kb), b], axis=-1), 0, 255)


@pytest.mark.parametrize("matrix", [AVCOL_BT601, AVCOL_BT709, AVCOL_UNSPECIFIED])
@pytest.mark.parametrize("colour_range", [ColorRange.MPEG, ColorRange.JPEG, ColorRange.UNSPECIFIED])
def test_colours_are_those_of_the_definition(
    footage: list[av.VideoFrame], matrix: int, colour_range: ColorRange
) -> None:
    """Both matrices and both ranges, on real footage: on average within 2.5 levels, no channel off by 2."""
    encoder = JpegEncoder(None, quality=95)
    for picture in footage:
        picture.colorspace, picture.color_range = matrix, colour_range
        image = encoder.encode(picture)
        assert image is not None
        difference = decoded(image.data) - reference_rgb(picture)

        assert np.abs(difference).mean() < 2.5
        assert np.abs(difference.mean(axis=(0, 1))).max() < 2.0


def test_colours_are_those_of_the_library(footage: list[av.VideoFrame]) -> None:
    """At the usual quality of 80 the JPEG is near to what FFmpeg itself makes of the picture."""
    encoder = JpegEncoder(None, quality=80)
    for picture in footage:
        image = encoder.encode(picture)
        assert image is not None

        difference = decoded(image.data) - picture.to_ndarray(format="rgb24")
        assert np.abs(difference).mean() < 3.5


@pytest.mark.parametrize(
    "pixel_format",
    ["yuv420p", "yuvj420p", "yuv422p", "yuv444p", "yuyv422", "nv12", "yuv420p10le", "gray", "rgb24", "bgra"],
)
def test_every_pixel_format_of_cameras(footage: list[av.VideoFrame], pixel_format: str) -> None:
    """Whatever a decoder or a device gives comes out as the same picture."""
    picture = footage[0].reformat(format=pixel_format, dst_colorspace=Colorspace.ITU601)
    image = JpegEncoder(None, quality=90).encode(picture)
    assert image is not None

    luma = np.array([0.299, 0.587, 0.114])
    assert np.abs((decoded(image.data) - reference_rgb(footage[0])) @ luma).mean() < 2.0


@pytest.mark.parametrize(("width", "height"), [(768, 576), (767, 575), (641, 481), (33, 17), (16, 1), (1, 1)])
def test_odd_sizes_stay_as_they_are(footage: list[av.VideoFrame], width: int, height: int) -> None:
    """No size is rounded, and the last row and column are part of the picture."""
    picture = footage[0].reformat(width, height, format="yuv420p")
    image = JpegEncoder(None, quality=95).encode(picture)
    assert image is not None

    result = decoded(image.data)
    assert (image.width, image.height) == (width, height)
    assert result.shape == (height, width, 3)
    edges = np.abs(result - reference_rgb(picture))
    assert max(edges[-1].mean(), edges[:, -1].mean()) < 6.0


@pytest.mark.parametrize(
    ("max_width", "expected"),
    [(768, (768, 576)), (2000, (768, 576)), (640, (640, 480)), (333, (333, 250)), (1, (1, 1))],
)
def test_the_largest_width(footage: list[av.VideoFrame], max_width: int, expected: tuple[int, int]) -> None:
    """Wider pictures are scaled to the width given, keeping the aspect; narrower ones are left alone."""
    image = JpegEncoder(max_width, quality=80).encode(footage[0])
    assert image is not None

    assert (image.width, image.height) == expected
    assert decoded(image.data).shape == (expected[1], expected[0], 3)


def test_scaling_averages(footage: list[av.VideoFrame]) -> None:
    """A picture scaled down to a quarter is that of the averaged pixels, so that nothing flickers."""
    image = JpegEncoder(192, quality=95).encode(footage[0])
    assert image is not None

    averaged = reference_rgb(footage[0]).reshape(144, 4, 192, 4, 3).mean(axis=(1, 3))
    assert np.abs(decoded(image.data) - averaged).mean() < 3.0


def test_quality_decides_the_size(footage: list[av.VideoFrame]) -> None:
    """A lower quality makes a smaller JPEG."""
    sizes = []
    for quality in (40, 60, 80, 95):
        image = JpegEncoder(None, quality).encode(footage[0])
        assert image is not None
        sizes.append(len(image.data))

    assert sizes == sorted(sizes)


@pytest.mark.parametrize("limit_bytes", [60_000, 30_000, 8_000, 2_000])
def test_a_limit_makes_worse_and_smaller_pictures(footage: list[av.VideoFrame], limit_bytes: int) -> None:
    """No JPEG is larger than the limit, and the aspect is kept."""
    encoder = JpegEncoder(None, quality=90)
    encoder.limit_bytes = limit_bytes
    image = encoder.encode(footage[0])
    assert image is not None

    assert len(image.data) <= limit_bytes
    assert decoded(image.data).shape[:2] == (image.height, image.width)
    assert image.width / image.height == pytest.approx(4 / 3, rel=0.05)


def test_an_impossible_limit_gives_nothing(footage: list[av.VideoFrame]) -> None:
    """A JPEG has some hundred bytes of header: a limit below that is not met, and not tried for ever."""
    encoder = JpegEncoder(None, quality=90)
    encoder.limit_bytes = 100

    assert encoder.encode(footage[0]) is None


def test_pictures_of_changing_size(footage: list[av.VideoFrame]) -> None:
    """One encoder takes whatever sizes come in whatever order."""
    encoder = JpegEncoder(400, quality=80)
    for width, height in [(768, 576), (320, 240), (641, 333), (768, 576)]:
        image = encoder.encode(footage[0].reformat(width, height))
        assert image is not None

        assert image.width == min(width, 400)
