"""What damage and stillness in a stream do to the frames that are made of it."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import cast

import av
import numpy as np
import pytest
import simplejpeg
from av.video.frame import PictureType

from edge_agent.capture.counters import CaptureCounters
from edge_agent.capture.frames import FrameMaker
from edge_agent.capture.motion import MotionInterval
from edge_agent.capture.opening import open_source
from edge_agent.capture.source import CodedPicture
from edge_agent.capture.timing import PresentationClock
from edge_agent.config import CameraConfig
from edge_agent.frame import Frame
from tests.edge_agent.capture.conftest import MakeClip

REFRESHES = {"x264-params": "keyint=10:intra-refresh=1:bframes=0:scenecut=0"}

Damage = Callable[[int, bytes], bytes | None]
"""Takes a picture's number and bytes; gives what arrives of it, None for nothing."""


class FileTimes:
    """The times that the file itself says."""

    def restart(self) -> None:
        """Nothing to forget."""

    def arrived(self, presentation_s: float | None, arrived_s: float) -> None:
        """Nothing to note."""

    def captured_s(self, presentation_s: float | None, now_s: float) -> float:
        """Give the file's time."""
        return now_s if presentation_s is None else presentation_s


def frames_of(path: Path, damage: Damage, counters: CaptureCounters) -> list[Frame]:
    """Make frames of a file, damaged on its way."""
    camera = CameraConfig(name="yard", url=str(path), fps=1e9, jpeg_quality=95)
    maker = FrameMaker(camera, PresentationClock(), counters)
    frames: list[Frame] = []
    with open_source(camera, None, lambda _: None) as source:
        maker.begin()
        for number, coded in enumerate(source.pictures()):
            packet = coded.packet
            data = damage(number, bytes(packet)) if packet.size else b""
            if data is None:
                continue
            arrived = cast("av.Packet[av.VideoStream]", av.Packet(data))
            arrived.pts, arrived.dts, arrived.time_base = packet.pts, packet.dts, packet.time_base
            arrived.is_keyframe = packet.is_keyframe
            frames += maker.frames(source, CodedPicture(arrived, coded.arrived_s))
    return frames


@pytest.fixture(params=["h264", "hevc"])
def stream(request: pytest.FixtureRequest, make_clip: MakeClip) -> Path:
    """Give 30 pictures with a keyframe every ten, in a container that keeps start codes."""
    if request.param == "h264":
        return make_clip("stream.ts", "libx264", tune="zerolatency", g="10", **{"x264-params": "scenecut=0"})
    return make_clip(
        "stream.ts", "libx265", **{"x265-params": "keyint=10:scenecut=0:bframes=0:log-level=none"}
    )


def encode(walkers: Path, path: Path, codec: str, options: dict[str, str], pictures: int = 40) -> None:
    """Encode footage at 10 fps, with keyframes where the encoder puts them."""
    with av.open(str(walkers)) as footage, av.open(str(path), "w") as made:
        stream = made.add_stream(codec, rate=10, options=options)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 160, 120, "yuv420p"
        for number, picture in enumerate(islice(footage.decode(video=0), pictures)):
            scaled = picture.reformat(160, 120)
            scaled.pts, scaled.time_base = number, Fraction(1, 10)
            scaled.pict_type = PictureType.NONE
            made.mux(stream.encode(scaled))
        made.mux(stream.encode(None))


def number_in(frame: Frame, pictures: list[np.ndarray]) -> tuple[int, float]:
    """Tell which picture of the clip a frame shows, and how well."""
    image = simplejpeg.decode_jpeg(frame.image_data).astype(int)
    differences = [float(np.abs(image - picture).mean()) for picture in pictures]
    return int(np.argmin(differences)), min(differences)


def shown(path: Path, frames: list[Frame]) -> list[int]:
    """Give the numbers of the pictures that the frames show; none may be blurred, grey or smeared."""
    with av.open(str(path)) as container:
        pictures = [picture.to_ndarray(format="rgb24").astype(int) for picture in container.decode(video=0)]
    found = [number_in(frame, pictures) for frame in frames]
    assert max(difference for _, difference in found) < 3.0
    return [number for number, _ in found]


def test_an_undamaged_stream(stream: Path) -> None:
    """Every picture becomes a frame."""
    counters = CaptureCounters()
    frames = frames_of(stream, lambda _, data: data, counters)

    assert shown(stream, frames) == list(range(30))
    assert counters.frames_corrupt == 0


def test_a_stream_joined_in_the_middle(stream: Path) -> None:
    """What comes before the first keyframe is not shown."""
    frames = frames_of(stream, lambda number, data: None if number < 4 else data, CaptureCounters())

    assert shown(stream, frames) == list(range(10, 30))


def test_a_picture_cut_short(make_clip: MakeClip) -> None:
    """H.264: neither the damaged picture nor what builds on it is shown, until the next keyframe."""
    path = make_clip("stream.ts", "libx264", tune="zerolatency", g="10", **{"x264-params": "scenecut=0"})
    counters = CaptureCounters()
    frames = frames_of(path, lambda number, data: data[: len(data) // 2] if number == 13 else data, counters)

    assert shown(path, frames) == [*range(13), *range(20, 30)]
    assert counters.frames_corrupt == 7


def test_a_keyframe_cut_short(make_clip: MakeClip) -> None:
    """H.264: a damaged keyframe does not end the waiting."""
    path = make_clip("stream.ts", "libx264", tune="zerolatency", g="10", **{"x264-params": "scenecut=0"})
    frames = frames_of(path, lambda number, data: data[:400] if number == 10 else data, CaptureCounters())

    assert shown(path, frames) == [*range(10), *range(20, 30)]


def test_a_lost_reference(make_clip: MakeClip) -> None:
    """H.265: pictures whose reference is missing are not shown."""
    path = make_clip(
        "stream.ts", "libx265", **{"x265-params": "keyint=10:scenecut=0:bframes=0:log-level=none"}
    )
    frames = frames_of(path, lambda number, data: None if number == 13 else data, CaptureCounters())

    numbers = shown(path, frames)
    assert 13 not in numbers
    assert numbers[-10:] == list(range(20, 30))


def test_noise_in_place_of_pictures(stream: Path) -> None:
    """Random bytes are counted, end nothing, and the next keyframe is shown."""
    chance = np.random.default_rng(5)
    counters = CaptureCounters()
    frames = frames_of(
        stream, lambda number, data: chance.bytes(len(data)) if 12 <= number < 18 else data, counters
    )

    assert shown(stream, frames) == [*range(12), *range(20, 30)]
    assert counters.frames_corrupt >= 8


def test_a_loss_in_a_stream_of_gradual_refreshes(walkers: Path, tmp_path: Path) -> None:
    """H.264 without another keyframe: nothing is shown until a refresh has gone over the whole picture."""
    path = tmp_path / "stream.ts"
    encode(walkers, path, "libx264", REFRESHES, pictures=60)
    frames = frames_of(
        path, lambda number, data: b"damaged" if number in (33, 34) else data, CaptureCounters()
    )

    numbers = shown(path, frames)
    assert numbers[:33] == list(range(33))
    assert numbers[33:] == list(range(numbers[33], 60))
    assert numbers[33] >= 44


def film_of_motion(path: Path, codec: str) -> None:
    """Encode a second of stillness, two of something that moves, and eight of stillness, at 10 fps."""
    rows = np.random.default_rng(1).integers(60, 180, (180, 160), np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10, options={"g": "20"} if codec == "libx264" else {})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height = 160, 120
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for number in range(110):
            drawn = rows.copy()
            if 10 <= number < 30:
                drawn[40:80, 4 * (number - 10) : 4 * (number - 10) + 40] = 255
            picture = av.VideoFrame.from_ndarray(drawn, format="yuv420p").reformat(format=stream.pix_fmt)
            picture.pts, picture.time_base = number, Fraction(1, 10)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))


@pytest.mark.parametrize(("name", "codec"), [("still.mp4", "libx264"), ("still.avi", "mjpeg")])
@pytest.mark.parametrize("watched", [False, True])
def test_still_scenes(tmp_path: Path, name: str, codec: str, *, watched: bool) -> None:
    """Of stillness one frame every four seconds is made, unless someone looks; motion is told either way."""
    film_of_motion(tmp_path / name, codec)
    camera = CameraConfig(name="yard", url=str(tmp_path / name), fps=60, motion="on")
    counters = CaptureCounters()
    intervals: list[MotionInterval] = []
    maker = FrameMaker(camera, FileTimes(), counters, intervals.append)
    maker.wanted = replace(maker.wanted, watched=watched)
    with open_source(camera, None, lambda _: None) as source:
        maker.begin()
        frames = [frame for coded in source.pictures() for frame in maker.frames(source, coded)]
    maker.end()

    assert counters.frames_seen == 110 == len(frames) + counters.frames_still
    assert len(frames) == 110 if watched else 40 < len(frames) < 70
    [interval] = intervals
    assert interval.begun_s == pytest.approx(1.0, abs=0.11)
    assert 1.8 <= interval.duration_s <= 4.0
    if codec == "mjpeg":
        with av.open(str(tmp_path / name)) as container:
            sent = {bytes(packet) for packet in container.demux(video=0)}
        assert {frame.image_data for frame in frames} <= sent, "not the camera's own JPEGs"


def test_privacy_masks_that_are_set_are_no_motion(tmp_path: Path) -> None:
    """Nor does the edge of what is black hold the motion gate open afterwards."""
    film_of_motion(tmp_path / "still.mp4", "libx264")
    camera = CameraConfig(name="yard", url=str(tmp_path / "still.mp4"), fps=60, motion="on")
    counters = CaptureCounters()
    maker = FrameMaker(camera, FileTimes(), counters)
    with open_source(camera, None, lambda _: None) as source:
        maker.begin()
        for number, coded in enumerate(source.pictures()):
            if number == 70:
                still_before = counters.frames_still
                masks = (((0.31, 0.31), (0.72, 0.33), (0.7, 0.7)),)
                maker.configured = replace(camera, privacy_masks=masks)
            assert all(maker.frames(source, coded))

    assert counters.frames_still - still_before >= 25
