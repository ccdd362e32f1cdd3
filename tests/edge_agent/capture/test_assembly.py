"""RTP payloads put together to pictures."""

from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from av.bitstream import BitStreamFilterContext

from edge_agent.capture import assembly
from edge_agent.capture.assembly import PictureAssembler
from edge_agent.capture.errors import CaptureError
from tests.edge_agent.capture.conftest import MakeClip

FULL_BYTES = 1386
START_CODE = b"\0\0\0\1"

CODINGS = {
    "h264": ("libx264", {"tune": "zerolatency", "g": "10", "x264-params": "slices=1"}),
    "h264 of three slices": ("libx264", {"tune": "zerolatency", "g": "10", "x264-params": "slices=3"}),
    "h264 with reordering": ("libx264", {"g": "10", "bf": "2", "x264-params": "slices=1"}),
    "hevc": ("libx265", {"x265-params": "keyint=10:bframes=0:log-level=none"}),
    "hevc with reordering": ("libx265", {"x265-params": "keyint=10:bframes=3:log-level=none"}),
}


def access_units(path: Path) -> Iterator["av.Packet[av.VideoStream]"]:
    """Read a file's pictures as they go over RTP: NAL units behind start codes."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        to_annexb = BitStreamFilterContext(f"{stream.codec_context.codec.name}_mp4toannexb", stream)
        for packet in container.demux(stream):
            yield from (unit for unit in to_annexb.filter(packet) if unit.pts is not None)


def payloads(unit: bytes) -> list[bytes]:
    """Cut a picture as a camera does and FFmpeg's depacketizer hands it out."""
    pieces = []
    for nal in unit.replace(b"\0\0\0\1", b"\0\0\1").split(b"\0\0\1")[1:]:
        first, *others = [nal[at : at + FULL_BYTES] for at in range(0, len(nal), FULL_BYTES)]
        pieces += [START_CODE + first, *others]
    return pieces


def decoded(codec: str, packets: "list[av.Packet[av.VideoStream]]") -> dict[int | None, np.ndarray]:
    decoder = av.CodecContext.create(codec, "r")
    assert isinstance(decoder, av.VideoCodecContext)
    pictures = [picture for packet in [*packets, None] for picture in decoder.decode(packet)]
    return {picture.pts: picture.to_ndarray() for picture in pictures}


@pytest.fixture(params=CODINGS)
def clip(request: pytest.FixtureRequest, make_clip: MakeClip) -> tuple[str, Path]:
    """Give the codec's name and a clip of 80 pictures, for each way of coding."""
    encoder, options = CODINGS[request.param]
    return request.param.split()[0], make_clip(
        "coding.mp4", encoder, pictures=80, width=384, height=288, **options
    )


def test_the_pictures_are_those_of_the_file(clip: tuple[str, Path]) -> None:
    """Cut into payloads and put together again they decode to the same pixels, under the same times."""
    codec, path = clip
    units = list(access_units(path))
    assembler = PictureAssembler(codec, None)
    assembled = [
        packet
        for unit in units
        for piece in payloads(bytes(unit))
        for packet in assembler.push(piece, unit.pts)
    ]

    expected = decoded(codec, units)
    got = decoded(codec, assembled)
    assert len(units) - 1 <= len(assembled) <= len(units)
    assert {packet.pts for packet in assembled if packet.is_keyframe} == {
        unit.pts for unit in units[: len(assembled)] if unit.is_keyframe
    }
    for pts in list(expected)[:-8]:
        np.testing.assert_array_equal(got[pts], expected[pts])


def test_a_picture_comes_with_its_last_payload(clip: tuple[str, Path]) -> None:
    """Once the camera's habits are known nearly every picture is there before the next one begins."""
    codec, path = clip
    assembler = PictureAssembler(codec, None)
    prompt = []
    for unit in access_units(path):
        came = [packet.pts for piece in payloads(bytes(unit)) for packet in assembler.push(piece, unit.pts)]
        prompt.append(unit.pts in came)

    assert sum(prompt[40:]) >= 36


def test_parameter_sets_told_beforehand(make_clip: MakeClip) -> None:
    """A stream whose SPS and PPS are in the SDP alone is found to begin with a keyframe."""
    path = make_clip("sdp.mp4", "libx264", pictures=12, tune="zerolatency", g="5")
    units = [bytes(unit) for unit in access_units(path)]
    at_slice = (
        units[0].index(START_CODE + b"\x65")
        if START_CODE + b"\x65" in units[0]
        else units[0].index(b"\0\0\1\x65") - 1
    )
    parameter_sets = units[0][:at_slice]
    units[0] = units[0][at_slice:]
    assembler = PictureAssembler("h264", parameter_sets)
    came = [
        packet
        for number, unit in enumerate(units)
        for piece in payloads(unit)
        for packet in assembler.push(piece, number)
    ]

    assert came[0].is_keyframe
    assert [packet.pts for packet in came] == list(range(11))


def pieces_of(path: Path) -> tuple[list["av.Packet[av.VideoStream]"], list[tuple[bytes, int | None]]]:
    """Give a file's pictures, and their payloads with their times."""
    units = list(access_units(path))
    return units, [(piece, unit.pts) for unit in units for piece in payloads(bytes(unit))]


def corrupt_numbers(
    units: "list[av.Packet[av.VideoStream]]", came: "list[av.Packet[av.VideoStream]]"
) -> list[int]:
    """Tell which of the pictures came marked corrupt; those that did not come at all are in it too."""
    whole = {packet.pts for packet in came if not packet.is_corrupt}
    return [number for number, unit in enumerate(units[:-1]) if unit.pts not in whole]


@pytest.fixture
def habitual(make_clip: MakeClip) -> Path:
    """Give 80 pictures of several payloads each, a keyframe every ten."""
    options = {"x264-params": "scenecut=0:slices=1"}
    return make_clip(
        "habit.mp4", "libx264", pictures=80, width=768, height=576, tune="zerolatency", g="10", **options
    )


def test_a_wrong_end_marks_what_follows(habitual: Path) -> None:
    """Where a camera breaks its habit, pictures are corrupt up to the next keyframe, then as before."""
    units, pieces = pieces_of(habitual)
    assembler = PictureAssembler("h264", None)
    # One picture's last payload comes in halves: the first of them looks like the last.
    last = max(number for number, (_, pts) in enumerate(pieces) if pts == units[55].pts)
    whole, pts = pieces[last]
    pieces[last : last + 1] = [(whole[: len(whole) // 2], pts), (whole[len(whole) // 2 :], pts)]
    came = [packet for piece, pts in pieces for packet in assembler.push(piece, pts)]

    # The broken one itself had been given out before it could be known.
    assert corrupt_numbers(units, came) == [56, 57, 58, 59]
    assert [packet.pts for packet in came][-10:] == [unit.pts for unit in units][-11:-1]


LOST: dict[str, tuple[Callable[[int, int, int], bool], list[int]]] = {
    "the first of a picture": (lambda number, place, of: number == 55 and place == 0, list(range(55, 60))),
    "the middle of a picture": (lambda number, place, of: number == 55 and place == 1, list(range(55, 60))),
    "the last of a picture": (
        lambda number, place, of: number == 55 and place == of - 1,
        list(range(55, 60)),
    ),
    "whole pictures": (lambda number, place, of: 53 <= number <= 54, list(range(53, 60))),
    "into a keyframe": (
        lambda number, place, of: (number == 59 and place == of - 1) or (number == 60 and place < 3),
        list(range(59, 70)),
    ),
    "up to a keyframe": (lambda number, place, of: 58 <= number <= 59, [58, 59]),
    "within a keyframe": (lambda number, place, of: number == 60 and place == 4, list(range(60, 70))),
    "the end of a keyframe": (
        lambda number, place, of: number == 60 and place == of - 1,
        list(range(60, 70)),
    ),
}


@pytest.mark.parametrize("what", LOST)
def test_lost_packets(habitual: Path, what: str) -> None:
    """What has a hole, or builds on it, is corrupt up to the next whole keyframe; nothing else is."""
    is_lost, expected = LOST[what]
    units = list(access_units(habitual))
    assembler = PictureAssembler("h264", None)
    came = []
    after_loss = False
    for number, unit in enumerate(units):
        pieces = payloads(bytes(unit))
        for place, piece in enumerate(pieces):
            if is_lost(number, place, len(pieces)):
                after_loss = True
                continue
            came += assembler.push(piece, unit.pts, after_loss=after_loss)
            after_loss = False

    assert corrupt_numbers(units, came) == expected


def test_a_picture_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream in which no picture ever ends is given up instead of filling the memory."""
    monkeypatch.setattr(assembly, "LARGEST_PICTURE_BYTES", 1 << 20)
    assembler = PictureAssembler("h264", None)
    assembler.push(START_CODE + b"\x65\x88" + bytes([7]) * 1000, 0)

    def push_on() -> None:
        for number in range(2000):
            assembler.push(bytes([7]) * 1000, number)

    with pytest.raises(CaptureError, match="no end of a picture within 1 MiB"):
        push_on()
