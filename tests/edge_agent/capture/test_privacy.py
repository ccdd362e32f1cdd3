"""Nothing of what a privacy mask covers leaves the gateway."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import simplejpeg
from numpy.typing import NDArray

from edge_agent.capture.counters import CaptureCounters
from edge_agent.capture.encode import JpegEncoder
from edge_agent.capture.frames import FrameMaker
from edge_agent.capture.motion_trial import try_motion
from edge_agent.capture.opening import open_source
from edge_agent.capture.privacy import PrivacyMasks, touched_pixels
from edge_agent.capture.probe import probe
from edge_agent.config import CameraConfig, Polygon
from edge_agent.frame import Frame
from edge_agent.wanted import Wanted
from tests.edge_agent.capture.conftest import MakeClip

Planes = list[NDArray[np.uint8]]
PICTURES = 6
SECRET = (slice(48, 96), slice(64, 144))
"""Rows and columns in which the two sources differ: whole blocks of 16, so that JPEG keeps them apart."""
CODECS = {
    # Lossless, or each block by itself: what is decoded outside is the same, whatever is inside.
    "h264": {"qp": "0", "preset": "ultrafast", "g": "3"},
    "mjpeg": {"qmin": "2", "qmax": "2", "huffman": "default"},
}


def rectangle(width: int, height: int) -> Polygon:
    """Draw a mask whose edges are those of the secret, as fractions of a picture of this size."""
    rows, columns = SECRET
    return tuple(
        (x / width, y / height) for x in (columns.start, columns.stop) for y in (rows.start, rows.stop)
    )[:2] + tuple((columns.stop / width, y / height) for y in (rows.stop, rows.start))


def planes(width: int, height: int, number: int, secret: int) -> Planes:
    """Make a picture, Y, Cb and Cr, that depends on its number; inside the secret region on `secret`, too."""
    picture = []
    for step in (1, 2, 2):
        shape = -(-height // step), -(-width // step)
        plane = np.random.default_rng(number).integers(40, 200, shape, np.uint8)
        region = tuple(slice(side.start // step, side.stop // step) for side in SECRET)
        inside = np.random.default_rng(100 * secret + number)
        plane[region] = inside.integers(20, 230, plane[region].shape, np.uint8)
        picture.append(plane)
    return picture


def picture_of(picture: Planes, pixel_format: str = "yuv420p") -> av.VideoFrame:
    """Make a picture of the library's."""
    height, width = picture[0].shape
    made = av.VideoFrame(width, height, "yuv420p")
    for plane, rows in zip(made.planes, picture, strict=True):
        padded = np.zeros((rows.shape[0], plane.line_size), np.uint8)
        padded[:, : rows.shape[1]] = rows
        plane.update(padded.tobytes())
    return made if pixel_format == "yuv420p" else made.reformat(format=pixel_format)


def film(path: Path, codec: str, sizes_wh: list[tuple[int, int]], secret: int) -> Path:
    """Encode pictures of each size in turn into one bare stream."""
    with path.open("wb") as stream:
        for width, height in sizes_wh:
            part = path.with_name(f"part.{codec}")
            with av.open(str(part), "w", format=codec) as container:
                name = {"h264": "libx264"}.get(codec, codec)
                track = container.add_stream(name, rate=10, options=CODECS[codec])
                assert isinstance(track, av.VideoStream)
                track.width, track.height = width, height
                track.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
                for number in range(PICTURES):
                    picture = picture_of(planes(width, height, number, secret))
                    picture = picture.reformat(format=track.pix_fmt) if codec == "mjpeg" else picture
                    picture.pts, picture.time_base = number, Fraction(1, 10)
                    container.mux(track.encode(picture))
                container.mux(track.encode(None))
            stream.write(part.read_bytes())
    return path


class TenASecond:
    """Picture after picture a tenth of a second on, so that nothing depends on how fast they are read."""

    def __init__(self) -> None:
        self._pictures = 0

    def restart(self) -> None:
        """Go on counting."""

    def arrived(self, presentation_s: float | None, arrived_s: float) -> None:
        """Nothing to note."""

    def captured_s(self, presentation_s: float | None, now_s: float) -> float:
        """Give the next tenth."""
        self._pictures += 1
        return self._pictures / 10


def frames_of(camera: CameraConfig, wanted: Wanted) -> list[Frame]:
    """Make every frame of a file."""
    maker = FrameMaker(camera, TenASecond(), CaptureCounters())
    maker.wanted = wanted
    with open_source(camera, None, lambda _: None) as source:
        maker.begin()
        return [frame for coded in source.pictures() for frame in maker.frames(source, coded)]


WANTED = {
    "whole": Wanted(fps=1e9, quality=95),
    "scaled": Wanted(fps=1e9, quality=95, max_width=150),
    "nothing of it may be lifted": Wanted(fps=1e9, quality=95, watched=True, server_masks=(((0, 0),) * 3,)),
    "shrunk": Wanted(fps=1e9, quality=40, shrink=0.37, limit_bytes=9000),
}


@pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED)
@pytest.mark.parametrize(
    ("codec", "sizes_wh"),
    [
        ("h264", [(256, 160)]),
        ("h264", [(256, 160), (320, 178), (256, 160)]),
        ("mjpeg", [(256, 160)]),
        ("mjpeg", [(255, 161), (333, 179)]),
    ],
)
def test_nothing_of_it_leaves(
    tmp_path: Path, codec: str, sizes_wh: list[tuple[int, int]], wanted: Wanted
) -> None:
    """Sources that differ inside of the region alone make the same JPEGs, byte for byte."""
    films = [film(tmp_path / f"{secret}.{codec}", codec, sizes_wh, secret) for secret in (1, 2)]
    assert films[0].read_bytes() != films[1].read_bytes()
    masks = tuple(rectangle(*size_wh) for size_wh in sizes_wh)
    made = []
    for path in films:
        camera = CameraConfig(name="yard", url=str(path), fps=1e9, motion="on", privacy_masks=masks)
        made.append([frame.image_data for frame in frames_of(camera, wanted)])

    assert len(made[0]) >= len(sizes_wh) * (PICTURES - 1)
    assert made[0] == made[1]
    unmasked = [
        [frame.image_data for frame in frames_of(CameraConfig(name="yard", url=str(path)), wanted)]
        for path in films
    ]
    assert unmasked[0] != unmasked[1], "without a mask they differ"


@pytest.mark.parametrize("is_masked", [True, False])
def test_what_happens_inside_sends_no_frame(tmp_path: Path, *, is_masked: bool) -> None:
    """Not even of cells of the motion gate that a mask covers in part does it open."""
    width, height, pictures = 1280, 720, 20
    # Of cells of 8 pixels three columns: their middles, by which the gate leaves cells out, lie outside.
    left, right = 640, 643
    wall = np.random.default_rng(1).integers(60, 180, (height, width), np.uint8)
    path = tmp_path / "strip.mp4"
    with av.open(str(path), "w") as container:
        track = container.add_stream("libx264", rate=10, options={"qp": "0", "preset": "ultrafast"})
        assert isinstance(track, av.VideoStream)
        track.width, track.height, track.pix_fmt = width, height, "yuv420p"
        for number in range(pictures):
            luma = wall.copy()
            luma[:, left:right] = 255 if number % 2 and number > pictures / 2 else 0
            picture = picture_of([luma, *np.full((2, height // 2, width // 2), 128, np.uint8)])
            picture.pts, picture.time_base = number, Fraction(1, 10)
            container.mux(track.encode(picture))
        container.mux(track.encode(None))
    strip = ((left / width, 0.0), (right / width, 0.0), (right / width, 1.0), (left / width, 1.0))
    masks = (strip,) if is_masked else ()
    camera = CameraConfig(name="yard", url=str(path), fps=60, motion="on", privacy_masks=masks)
    sent = len(frames_of(camera, Wanted(fps=60, quality=80)))

    assert (sent < pictures / 2) == is_masked


def test_what_lies_beside_it_stays(make_clip: MakeClip) -> None:
    """The region is black; the rest is as it was, in pictures that build on others, too."""
    path = make_clip("walk.mp4", "libx264", pictures=20, g="20")
    mask = ((0.3, 0.3), (0.7, 0.3), (0.7, 0.8), (0.3, 0.8))
    camera = CameraConfig(name="yard", url=str(path), fps=1e9)
    pairs = zip(
        frames_of(replace(camera, privacy_masks=(mask,)), WANTED["whole"]),
        frames_of(camera, WANTED["whole"]),
        strict=True,
    )
    for masked, plain in pairs:
        image, before = (simplejpeg.decode_jpeg(each.image_data).astype(int) for each in (masked, plain))
        assert image[82:190, 98:222].max() == 0
        assert image[72:192, 96:224].mean() < 2
        # Whole blocks of the JPEG, and the pixel beside them that shares their chroma.
        image[63:209, 79:241] = before[63:209, 79:241]
        assert np.abs(image - before).max() <= 1


def test_the_snapshot_and_the_picture_of_motion(tmp_path: Path) -> None:
    """What test-camera and test-motion write is covered as well."""
    written = []
    for secret in (1, 2):
        path = film(tmp_path / f"{secret}.h264", "h264", [(256, 160)], secret)
        camera = CameraConfig(name="yard", url=str(path), privacy_masks=(rectangle(256, 160),))
        probe(camera, None, tmp_path / "snapshot.jpg")
        try_motion(camera, None, 1.0, tmp_path / "motion.jpg")
        written.append([(tmp_path / name).read_bytes() for name in ("snapshot.jpg", "motion.jpg")])

    assert written[0] == written[1]


@pytest.mark.parametrize(
    "pixel_format",
    [
        *("yuv420p", "yuvj420p", "yuv422p", "yuv444p", "yuvj444p", "yuv411p", "yuv410p", "yuv440p", "gray"),
        *("nv12", "nv16", "yuyv422", "uyvy422", "rgb24", "bgra", "rgb565le", "bgr8"),
        *("yuv420p10le", "yuv422p10le", "gray10le"),
    ],
)
@pytest.mark.parametrize("max_width", [None, 101])
def test_every_pixel_format_of_cameras(pixel_format: str, max_width: int | None) -> None:
    """Whatever a decoder or a device gives, and whatever share of chroma a pixel has."""
    masks, encoder = PrivacyMasks([rectangle(256, 160)]), JpegEncoder()
    wanted = Wanted(fps=10, quality=90, max_width=max_width)
    images = []
    for secret in (1, 2):
        picture = picture_of(planes(256, 160, 0, 1)).reformat(format=pixel_format)
        other = picture_of(planes(256, 160, 0, secret)).reformat(format=pixel_format)
        images.append(encoder.encode(masks.applied(only_inside(picture, other)), wanted))

    assert images[0] == images[1]


def only_inside(picture: av.VideoFrame, other: av.VideoFrame) -> av.VideoFrame:
    """Put the bytes of another picture's region into a picture: outside nothing changes, by construction."""
    picture.make_writable()
    for plane, from_plane in zip(picture.planes, other.planes, strict=True):
        mixed, others = (
            np.frombuffer(memoryview(each), np.uint8).reshape(-1, each.line_size).copy()
            for each in (plane, from_plane)
        )
        top, bottom = (edge * plane.height // 160 for edge in (SECRET[0].start, SECRET[0].stop))
        left, right = (edge * plane.line_size // 256 for edge in (SECRET[1].start, SECRET[1].stop))
        mixed[top:bottom, left:right] = others[top:bottom, left:right]
        plane.update(mixed.tobytes())
    return picture


STAR: Polygon = ((0.5, 0.02), (0.79, 0.95), (0.03, 0.37), (0.97, 0.36), (0.2, 0.96))
SHAPES: dict[str, Polygon] = {
    "triangle": ((0.113, 0.207), (0.871, 0.409), (0.333, 0.913)),
    "star": STAR,
    "thin": ((0.1, 0.1), (0.9, 0.9), (0.9, 0.901)),
    "line": ((0.2, 0.3), (0.8, 0.3), (0.8, 0.3)),
    "point": ((0.5, 0.5), (0.5, 0.5), (0.5, 0.5)),
    "corner": ((1, 1), (1, 1), (1, 1)),
    "all": ((0, 0), (1, 0), (1, 1), (0, 1)),
    "notched": ((0, 0), (1, 0), (1, 1), (0.5, 0.1), (0, 1)),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("width", "height"), [(64, 48), (33, 17), (1, 1), (2, 5)])
def test_every_touched_pixel(shape: Polygon, width: int, height: int) -> None:
    """Against points: a pixel with a point of the polygon in it is covered, none that is a pixel away is."""
    fine = 16
    y, x = (np.mgrid[0 : height * fine, 0 : width * fine] + 0.5) / fine
    points = np.asarray(shape) * (width, height)
    winding = np.zeros(x.shape, int)
    for (x1, y1), (x2, y2) in zip(points, np.roll(points, -1, axis=0), strict=True):
        if y1 != y2:
            crossing = x1 + (y - y1) / (y2 - y1) * (x2 - x1)
            winding += np.where((y1 <= y) != (y2 <= y), np.sign(y2 - y1), 0).astype(int) * (x > crossing)
    inside = (winding != 0).reshape(height, fine, width, fine).any(axis=(1, 3))
    for begin, end in zip(points, np.roll(points, -1, axis=0), strict=True):
        for share in np.linspace(0, 1, 200):
            column, row = np.minimum(begin + share * (end - begin), (width - 1e-9, height - 1e-9)).astype(int)
            inside[row, column] = True
    touched = touched_pixels([shape], width, height)
    near = np.zeros((height + 2, width + 2), bool)
    for down in range(3):
        for right in range(3):
            near[down : down + height, right : right + width] |= inside

    assert touched.any()
    assert not (inside & ~touched).any()
    assert not (touched & ~near[1:-1, 1:-1]).any()


def test_overlapping_polygons_do_not_cancel() -> None:
    """Whichever way round they are drawn."""
    there, back = SHAPES["all"], SHAPES["all"][::-1]

    assert touched_pixels([there, back], 20, 10).all()
    assert not touched_pixels([], 20, 10).any()
