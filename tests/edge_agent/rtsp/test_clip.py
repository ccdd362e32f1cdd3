"""Which files can be served, and what their pictures are cut into."""

import itertools
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from edge_agent.rtsp.clip import Clip, ClipError
from edge_agent.rtsp.packing import MAX_RTP_PACKET_BYTES
from tests.edge_agent.rtsp.clips import FPS, make_clip


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Named, with the system's word for it."""
    with pytest.raises(ClipError, match=r"gone\.mp4: cannot be read as a video: No such file"):
        Clip(tmp_path / "gone.mp4")


def test_a_folder(tmp_path: Path) -> None:
    """Named as what it is."""
    with pytest.raises(ClipError, match="Is a directory"):
        Clip(tmp_path)


def test_a_file_that_is_no_video(tmp_path: Path) -> None:
    """One line, whatever is in it."""
    text = tmp_path / "text.mp4"
    text.write_text("not a video\n" * 100)
    with pytest.raises(ClipError, match=r"text\.mp4: cannot be read as a video: Invalid data"):
        Clip(text)


def test_a_file_with_sound_only(tmp_path: Path) -> None:
    """It opens, but there is nothing to see."""
    path = tmp_path / "sound.wav"
    with av.open(path, "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    with pytest.raises(ClipError, match=r"sound\.wav: no video stream in it"):
        Clip(path)


def test_another_codec(tmp_path: Path) -> None:
    """What was found, and what is served."""
    path = tmp_path / "old.avi"
    with av.open(path, "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        frame = av.VideoFrame(64, 48, "yuv420p")
        frame.pts, frame.time_base = 0, Fraction(1, 10)
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(ClipError, match=r"old\.avi: its video codec is mpeg4; expected h264, hevc, mjpeg"):
        Clip(path)


def test_a_jpeg_that_rtp_has_no_type_for(tmp_path: Path) -> None:
    """4:4:4 is not among RFC 2435's types."""
    path = make_clip(tmp_path / "full.avi", "mjpeg", pixels="yuvj444p", frames=2)
    with pytest.raises(ClipError, match="RTP cannot carry its mjpeg picture 0"):
        Clip(path)


def test_a_bare_stream_without_times(tmp_path: Path) -> None:
    """Nothing says when its pictures are due."""
    path = make_clip(tmp_path / "bare.h264", frames=3)
    with pytest.raises(ClipError, match="picture 0 has no time"):
        Clip(path)


def test_a_file_that_breaks_off_ends_there(tmp_path: Path, h264_clip: Path) -> None:
    """What is whole is served; the loop goes on from the beginning."""
    path = tmp_path / "cut.ts"
    whole = make_clip(tmp_path / "whole.ts")
    path.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    count = len(list(Clip(path).play(loop=False)))
    assert 0 < count < 30
    keyframes = [unit.is_keyframe for unit in itertools.islice(Clip(path).play(loop=True), count + 1)]
    assert keyframes[count]


@pytest.mark.parametrize("codec", ["h264", "hevc", "mjpeg"])
def test_packets_fit_a_network_frame(clips: dict[str, Path], codec: str) -> None:
    """None is too large, and only the last of a picture carries the marker."""
    units = list(Clip(clips[codec]).play(loop=False))

    assert len(units) == 30
    assert max(len(packet) for unit in units for packet in unit.packets) <= MAX_RTP_PACKET_BYTES
    for unit in units:
        assert [packet[1] >= 0x80 for packet in unit.packets] == [False] * (len(unit.packets) - 1) + [True]


def test_times_go_on_over_the_loop(tmp_path: Path) -> None:
    """A round lasts as long as its pictures; in each of them B-frames are sent out of order."""
    clip = Clip(make_clip(tmp_path / "b-frames.mp4", b_frames=2, frames=12))
    units = list(itertools.islice(clip.play(loop=True), 36))

    shown = sorted(unit.presentation_s for unit in units)
    assert shown == pytest.approx([number / FPS for number in range(36)])
    assert [unit.presentation_s for unit in units] != shown
    sent = [unit.decode_s for unit in units]
    assert sent == sorted(sent)
    assert all(unit.decode_s <= unit.presentation_s + 1e-9 for unit in units)
