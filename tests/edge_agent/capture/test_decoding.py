"""Which pictures of a stream are decoded."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from edge_agent.capture.counters import CaptureCounters
from edge_agent.capture.decoding import DecodeChoice, PictureKind, PictureKinds
from edge_agent.capture.frames import FrameMaker
from edge_agent.capture.opening import open_source
from edge_agent.config import CameraConfig, Decode
from edge_agent.frame import Frame
from edge_agent.wanted import Wanted
from tests.edge_agent.capture.conftest import ServeDemo, Watch
from tests.edge_agent.capture.test_frames import REFRESHES, FileTimes, encode, shown

KEY, REFERENCE, OTHER = PictureKind


def sent(
    choice: DecodeChoice, gop: str, *, fps: float, wanted_fps: float, seconds: float, from_s: float = 0.0
) -> str:
    """Offer groups like `kpb` (keyframe, reference, other); gives them with '.' for what was left out."""
    kinds = {"k": KEY, "p": REFERENCE, "b": OTHER}
    decoded = ""
    for number in range(round(seconds * fps)):
        letter = gop[number % len(gop)]
        is_wanted = choice.wants(kinds[letter], from_s + number / fps, wanted_fps)
        decoded += letter if is_wanted else "."
    return decoded


@pytest.mark.parametrize(
    ("decode", "expected"), [("all", "kbpb"), ("reference", "k.p."), ("keyframes", "k...")]
)
def test_what_is_set_is_done(decode: Decode, expected: str) -> None:
    """Whatever the wanted rate is."""
    assert sent(DecodeChoice(decode), "kbpb", fps=4, wanted_fps=10, seconds=5) == expected * 5


@pytest.mark.parametrize(
    ("wanted_fps", "expected"),
    [
        (10, "kbpbpbpbpbpb"),
        (6.5, "kbpbpbpbpbpb"),
        (6, "k.p.p.p.p.p."),
        (2, "k.p.p.p.p.p."),
        (1, "k..........."),
    ],
)
def test_the_cheapest_that_reaches_the_rate(wanted_fps: float, expected: str) -> None:
    """12 pictures a second of which six are references and one is a keyframe."""
    decoded = sent(DecodeChoice("auto"), "kbpbpbpbpbpb", fps=12, wanted_fps=wanted_fps, seconds=20)

    assert decoded.startswith("kbpbpbpbpbpb" * 3), "nothing is left out before the stream is known"
    assert decoded.endswith(expected * 5)


def test_keyframes_that_come_irregularly_are_not_relied_on() -> None:
    """Two close together and then none for long make a good average and a bad stream."""
    decoded = sent(DecodeChoice("auto"), "kk" + "p" * 38, fps=20, wanted_fps=1, seconds=20)

    assert "." not in decoded


def test_a_higher_rate_holds_at_once() -> None:
    """From keyframes alone the next keyframe is waited for; from references it goes on at once."""
    choice = DecodeChoice("auto")
    assert sent(choice, "kbpb", fps=4, wanted_fps=1, seconds=9.5).endswith("k...k.")
    assert sent(choice, "pbkbpb", fps=4, wanted_fps=4, seconds=1.5, from_s=9.5) == "..kbpb"
    assert sent(choice, "kbpb", fps=4, wanted_fps=2, seconds=1, from_s=11) == "k.p."
    assert sent(choice, "kbpb", fps=4, wanted_fps=4, seconds=1, from_s=12) == "kbpb"


def test_keyframes_that_stop_coming() -> None:
    """When a keyframe is late, everything is wanted again, from the next keyframe on."""
    choice = DecodeChoice("auto")
    assert sent(choice, "kppp", fps=4, wanted_fps=1, seconds=10).endswith("k...")
    assert sent(choice, "ppppppp", fps=4, wanted_fps=1, seconds=7 / 4, from_s=10) == "......."
    assert 0 < choice.waited_s < 1.75
    assert sent(choice, "kppp", fps=4, wanted_fps=1, seconds=1, from_s=11.75) == "kppp"
    assert choice.waited_s == 0.0


def test_a_keyframe_that_is_late_is_told(walkers: Path, tmp_path: Path) -> None:
    """A camera of which no frame can be made is not said to stream."""
    encode(walkers, tmp_path / "clip.ts", "libx264", {"x264-params": "keyint=250:scenecut=0:bframes=0"}, 120)
    camera = CameraConfig(name="yard", url=str(tmp_path / "clip.ts"), decode="auto")
    maker = FrameMaker(camera, FileTimes(), CaptureCounters())
    with open_source(camera, None, lambda _: None) as source:
        maker.begin()
        told = []
        for number, coded in enumerate(source.pictures()):
            # As if a keyframe had come each second, until there are none.
            coded.packet.is_keyframe = number <= 40 and number % 10 == 0
            maker.wanted = Wanted(fps=1.0, quality=95)
            list(maker.frames(source, coded))
            told.append(maker.waits_for_keyframe)

    assert told[:90] == [None] * 90
    assert "late" in str(told[119])


def test_a_stream_that_leaps_begins_anew() -> None:
    """What was sent before a pause says nothing."""
    choice = DecodeChoice("auto")
    sent(choice, "kppp", fps=4, wanted_fps=1, seconds=10)

    assert sent(choice, "kppp", fps=4, wanted_fps=1, seconds=3, from_s=100) == "kppp" * 3


def kinds_in(path: Path) -> Iterator[PictureKind]:
    """Tell each picture's kind in a file, in decoding order."""
    with open_source(CameraConfig(name="yard", url=str(path)), None, lambda _: None) as source:
        for coded in source.pictures():
            if coded.packet.size:
                yield source.picture_kind(coded.packet)


@pytest.fixture(scope="module", params=["h264 mp4", "h264 ts", "hevc mp4", "hevc ts"])
def clip(request: pytest.FixtureRequest, walkers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Encode 40 pictures, a keyframe every five, two pictures that nothing builds on between two others."""
    codec, container = request.param.split()
    how = "keyint=5:scenecut=0:bframes=2:b-adapt=0:b-pyramid=0:open-gop=0"
    options = {"x264-params": how} if codec == "h264" else {"x265-params": f"{how}:log-level=none"}
    path: Path = tmp_path_factory.mktemp("reordered") / f"clip.{container}"
    encode(walkers, path, {"h264": "libx264", "hevc": "libx265"}[codec], options)
    return path


@pytest.mark.parametrize("decode", ["all", "reference", "keyframes"])
def test_pictures_are_whole_and_in_order(clip: Path, decode: Decode) -> None:
    """With reordered pictures, whatever is left out: no picture is smeared, all are in order and in time."""
    counts = [sum(kind <= least for kind in kinds_in(clip)) for least in PictureKind]
    assert counts[0] == 8
    assert counts[0] < counts[1] < counts[2] == 40
    counters = CaptureCounters()
    frames = frames_of(clip, decode, counters)

    expected = {"keyframes": counts[0], "reference": counts[1], "all": 40}[decode]
    assert len(frames) == expected == counters.frames_seen
    assert counters.frames_skipped == 40 - expected
    assert all(before < after for before, after in pairwise(shown(clip, frames)))
    assert all(before.captured_s <= after.captured_s for before, after in pairwise(frames))


def frames_of(path: Path, decode: Decode, counters: CaptureCounters, *, all_from: int = 1000) -> list[Frame]:
    """Make every frame that can be made; all is wanted from the picture with this number on."""
    camera = CameraConfig(name="yard", url=str(path), fps=1e9, jpeg_quality=95, decode=decode)
    maker = FrameMaker(camera, FileTimes(), counters)
    frames: list[Frame] = []
    with open_source(camera, None, lambda _: None) as source:
        maker.begin()
        for number, coded in enumerate(source.pictures()):
            if decode == "auto":
                maker.wanted = Wanted(fps=2.0 if number < all_from else 1e9, quality=95)
            made = list(maker.frames(source, coded))
            if decode == "keyframes" and coded.packet.is_keyframe:
                assert made, "a keyframe that is decoded alone does not wait for the next one"
            frames += made
    return frames


def test_no_broken_picture_when_all_is_wanted_again(clip: Path) -> None:
    """From keyframes to all in the middle of a group: the next frame is the next group's keyframe."""
    counters = CaptureCounters()
    numbers = shown(clip, frames_of(clip, "auto", counters, all_from=28))

    assert [number for number in numbers if number >= 20] == [20, 25, *range(30, 40)]
    assert counters.frames_skipped >= 8
    assert counters.frames_corrupt == 0


def test_higher_layers_of_hevc() -> None:
    """A non-reference picture is left out only where no higher temporal layer can build on it."""
    kinds = PictureKinds("hevc", None)

    def kind(unit_type: int, layer: int) -> PictureKind:
        return kinds.kind(
            b"\0\0\0\1\x46\1\x50\0\0\1" + bytes([unit_type << 1, layer + 1, 0x80]), is_keyframe=False
        )

    assert [kind(0, 0), kind(1, 0)] == [OTHER, REFERENCE]
    assert [kind(2, 1), kind(0, 0), kind(3, 1)] == [OTHER, REFERENCE, REFERENCE]


@pytest.mark.parametrize("container", ["ts", "mp4"])
def test_gradual_refreshes_are_no_keyframes(walkers: Path, tmp_path: Path, container: str) -> None:
    """A stream without keyframes but the first is decoded, although FFmpeg calls more of its pictures so."""
    path = tmp_path / f"clip.{container}"
    encode(walkers, path, "libx264", REFRESHES, pictures=90)
    assert list(kinds_in(path)) == [KEY] + [REFERENCE] * 89
    counters = CaptureCounters()
    frames = frames_of(path, "auto", counters)

    assert counters.frames_skipped == 0
    assert len(frames) >= 17
    shown(path, frames)


@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg4"])
@pytest.mark.parametrize("extradata", [None, b"", b"\1", b"\1" * 30])
@pytest.mark.parametrize("head", [b"", b"\0", b"\0\0\1", b"\0\0\0\1\x67", b"\0" * 64, b"\xff" * 64])
def test_heads_that_say_nothing(codec: str, extradata: bytes | None, head: bytes) -> None:
    """What cannot be told may be built on."""
    assert PictureKinds(codec, extradata).kind(head, is_keyframe=False) is REFERENCE


@pytest.mark.parametrize("clip", ["h264 mp4", "hevc mp4"], indirect=True)
async def test_keyframes_of_a_live_camera(demo_camera: ServeDemo, watch: Watch, clip: Path) -> None:
    """They come in time although most of what the camera sends is not even looked at at once."""
    async with demo_camera(clip) as camera:
        watcher = watch(camera.url, decode="keyframes", fps=60, jpeg_quality=95)
        await asyncio.to_thread(watcher.wait_for_frames, 5)
    counters = watcher.capture.counters

    assert counters.frames_skipped >= 12
    assert counters.frames_seen <= len(watcher.frames) + 1
    ages_s = [at - frame.captured_s for at, frame in zip(watcher.delivered_s, watcher.frames, strict=True)]
    assert max(ages_s) < 2.0
    assert set(shown(clip, watcher.frames)) <= set(range(0, 40, 5))
