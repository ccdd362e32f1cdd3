"""From a decoded picture to a JPEG."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import simplejpeg
from av.video.reformatter import ColorRange, Colorspace
from numpy.typing import NDArray

from edge_agent.capture.encode import EncodedImage, JpegEncoder
from edge_agent.capture.image_size import image_wh
from edge_agent.wanted import Wanted

Image = NDArray[np.float64]
AVCOL_BT709, AVCOL_UNSPECIFIED, AVCOL_BT601 = 1, 2, 6
MATRICES = {AVCOL_BT601: (0.299, 0.114), AVCOL_UNSPECIFIED: (0.299, 0.114), AVCOL_BT709: (0.2126, 0.0722)}


@pytest.fixture(scope="module")
def footage(walkers: Path) -> list[av.VideoFrame]:
    """Give some decoded pictures of real footage: 768 x 576, yuv420p."""
    with av.open(str(walkers)) as container:
        return list(islice(container.decode(video=0), 0, 60, 12))


def encoded(
    picture: av.VideoFrame, quality: int, max_width: int | None = None, encoder: JpegEncoder | None = None
) -> EncodedImage:
    """Encode a picture that can be."""
    wanted = Wanted(fps=10, quality=quality, max_width=max_width)
    image = (encoder or JpegEncoder()).encode(picture, wanted)
    assert image is not None
    return image


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
    encoder = JpegEncoder()
    for picture in footage:
        picture.colorspace, picture.color_range = matrix, colour_range
        image = encoded(picture, 95, encoder=encoder)
        difference = decoded(image.data) - reference_rgb(picture)

        assert np.abs(difference).mean() < 2.5
        assert np.abs(difference.mean(axis=(0, 1))).max() < 2.0


def test_colours_are_those_of_the_library(footage: list[av.VideoFrame]) -> None:
    """At the usual quality of 80 the JPEG is near to what FFmpeg itself makes of the picture."""
    encoder = JpegEncoder()
    for picture in footage:
        image = encoded(picture, 80, encoder=encoder)

        difference = decoded(image.data) - picture.to_ndarray(format="rgb24")
        assert np.abs(difference).mean() < 3.5


@pytest.mark.parametrize(
    "pixel_format",
    ["yuv420p", "yuvj420p", "yuv422p", "yuv444p", "yuyv422", "nv12", "yuv420p10le", "gray", "rgb24", "bgra"],
)
def test_every_pixel_format_of_cameras(footage: list[av.VideoFrame], pixel_format: str) -> None:
    """Whatever a decoder or a device gives comes out as the same picture."""
    picture = footage[0].reformat(format=pixel_format, dst_colorspace=Colorspace.ITU601)
    image = encoded(picture, 90)

    luma = np.array([0.299, 0.587, 0.114])
    assert np.abs((decoded(image.data) - reference_rgb(footage[0])) @ luma).mean() < 2.0


@pytest.mark.parametrize(("width", "height"), [(768, 576), (767, 575), (641, 481), (33, 17), (16, 1), (1, 1)])
def test_odd_sizes_stay_as_they_are(footage: list[av.VideoFrame], width: int, height: int) -> None:
    """No size is rounded, and the last row and column are part of the picture."""
    picture = footage[0].reformat(width, height, format="yuv420p")
    image = encoded(picture, 95)

    result = decoded(image.data)
    assert (image.width, image.height) == (width, height)
    assert result.shape == (height, width, 3)
    edges = np.abs(result - reference_rgb(picture))
    assert max(edges[-1].mean(), edges[:, -1].mean()) < 6.0


def test_only_pixels_are_sent() -> None:
    """What lies in memory behind the last column and row, of another picture perhaps, changes nothing."""
    images = []
    for beyond in (0, 255):
        picture = av.VideoFrame(33, 17, "yuvj420p")
        for plane, (rows, columns) in zip(picture.planes, ((17, 33), (9, 17), (9, 17)), strict=True):
            memory = np.full((plane.height, plane.line_size), beyond, np.uint8)
            memory[:rows, :columns] = np.arange(rows * columns).reshape(rows, columns) % 200
            plane.update(memory.tobytes())
        images.append(encoded(picture, 90))

    assert images[0] == images[1]


@pytest.mark.parametrize(
    ("max_width", "expected"),
    [(768, (768, 576)), (2000, (768, 576)), (640, (640, 480)), (333, (333, 250)), (1, (1, 1))],
)
def test_the_largest_width(footage: list[av.VideoFrame], max_width: int, expected: tuple[int, int]) -> None:
    """Wider pictures are scaled to the width given, keeping the aspect; narrower ones are left alone."""
    image = encoded(footage[0], 80, max_width)

    assert (image.width, image.height) == expected
    assert decoded(image.data).shape == (expected[1], expected[0], 3)


def test_scaling_averages(footage: list[av.VideoFrame]) -> None:
    """A picture scaled down to a quarter is that of the averaged pixels, so that nothing flickers."""
    image = encoded(footage[0], 95, 192)

    averaged = reference_rgb(footage[0]).reshape(144, 4, 192, 4, 3).mean(axis=(1, 3))
    assert np.abs(decoded(image.data) - averaged).mean() < 3.0


def test_quality_decides_the_size(footage: list[av.VideoFrame]) -> None:
    """A lower quality makes a smaller JPEG."""
    sizes = [len(encoded(footage[0], quality).data) for quality in (40, 60, 80, 95)]

    assert sizes == sorted(sizes)


@pytest.mark.parametrize("limit_bytes", [60_000, 30_000, 8_000, 2_000])
def test_a_limit_makes_worse_and_smaller_pictures(footage: list[av.VideoFrame], limit_bytes: int) -> None:
    """No JPEG is larger than the limit, and the aspect is kept."""
    image = JpegEncoder().encode(footage[0], Wanted(fps=10, quality=90, limit_bytes=limit_bytes))
    assert image is not None

    assert len(image.data) <= limit_bytes
    assert decoded(image.data).shape[:2] == (image.height, image.width)
    assert image.width / image.height == pytest.approx(4 / 3, rel=0.05)


def test_an_impossible_limit_gives_nothing(footage: list[av.VideoFrame]) -> None:
    """A JPEG has some hundred bytes of header: a limit below that is not met, and not tried for ever."""
    assert JpegEncoder().encode(footage[0], Wanted(fps=10, quality=90, limit_bytes=100)) is None


def test_pictures_of_changing_size(footage: list[av.VideoFrame]) -> None:
    """One encoder takes whatever sizes come in whatever order."""
    encoder = JpegEncoder()
    for width, height in [(768, 576), (320, 240), (641, 333), (768, 576)]:
        image = encoded(footage[0].reformat(width, height), 80, 400, encoder)

        assert image.width == min(width, 400)


@pytest.mark.parametrize(
    ("frame_wh", "wanted", "expected"),
    [
        ((768, 576), {"input_wh": (300, 300)}, (768, 576)),
        ((1920, 1080), {"input_wh": (300, 300)}, (1067, 600)),
        ((1080, 1920), {"input_wh": (300, 300)}, (600, 1067)),
        ((3840, 2160), {"input_wh": (640, 384)}, (1365, 768)),
        ((1920, 1080), {}, (1920, 1080)),
        ((1920, 1080), {"input_wh": (300, 300), "max_width": 640}, (640, 360)),
        ((1920, 1080), {"input_wh": (300, 300), "max_width": 1600}, (1600, 900)),
        ((1920, 1080), {"input_wh": (300, 300), "shrink": 0.5}, (533, 300)),
        ((320, 240), {"input_wh": (300, 300), "max_width": 640}, (320, 240)),
        ((320, 240), {"shrink": 2.0}, (320, 240)),
        ((3, 2), {"shrink": 0.01}, (1, 1)),
    ],
)
def test_no_larger_than_useful(
    frame_wh: tuple[int, int], wanted: dict[str, Any], expected: tuple[int, int]
) -> None:
    """Twice the model's input both ways, the camera's own setting before that, and never enlarged."""
    assert image_wh(Wanted(fps=10, quality=80, **wanted), *frame_wh) == expected
