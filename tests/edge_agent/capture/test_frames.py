"""What damage in a stream does to the frames that are made of it."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import av
import numpy as np
import pytest
import simplejpeg

from edge_agent.capture.counters import CaptureCounters
from edge_agent.capture.frames import FrameMaker
from edge_agent.capture.opening import open_source
from edge_agent.capture.source import CodedPicture
from edge_agent.capture.timing import PresentationClock
from edge_agent.config import CameraConfig
from edge_agent.frame import Frame
from tests.edge_agent.capture.conftest import MakeClip

Damage = Callable[[int, bytes], bytes | None]
"""Takes a picture's number and bytes; gives what arrives of it, None for nothing."""


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
