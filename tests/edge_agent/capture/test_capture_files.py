"""Capturing files, from their first picture to what is delivered."""

import shutil
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
import simplejpeg

from edge_agent.state import CameraState
from edge_agent.wanted import Wanted
from tests.edge_agent.capture.conftest import MakeClip, Watch

CONTAINERS = [("clip.mp4", "libx264", {}), ("clip.mkv", "libx265", {"x265-params": "log-level=none"})]


@pytest.mark.parametrize(("name", "codec", "options"), CONTAINERS)
def test_a_file_is_played_to_its_end_at_its_own_pace(
    watch: Watch, make_clip: MakeClip, name: str, codec: str, options: dict[str, str]
) -> None:
    """Every picture once, a tenth of a second apart, reordering encoder or not; then `ended`, and no more."""
    watcher = watch(make_clip(name, codec, pictures=12, **options))
    status = watcher.wait_for_state(CameraState.ENDED)

    steps = [after.captured_s - before.captured_s for before, after in pairwise(watcher.frames)]
    assert steps == pytest.approx([0.1] * 11, abs=0.002)
    assert [frame.frame_id for frame in watcher.frames] == list(range(1, 13))
    assert watcher.states == [CameraState.CONNECTING, CameraState.STREAMING, CameraState.ENDED]
    assert status.reason == ""
    assert watcher.capture.stop(5.0)


def test_frames_are_what_the_file_shows(watch: Watch, make_clip: MakeClip) -> None:
    """Each frame is a JPEG of its picture, with its size, its camera, and two times that agree."""
    path = make_clip("seen.mp4", "libx264", pictures=5, width=321, height=241, pix_fmt="yuv444p")
    watcher = watch(path, jpeg_quality=95)
    watcher.wait_for_state(CameraState.ENDED)

    with av.open(str(path)) as container:
        expected = [picture.to_ndarray(format="rgb24").astype(int) for picture in container.decode(video=0)]
    assert len(watcher.frames) == len(expected)
    for frame, picture in zip(watcher.frames, expected, strict=True):
        image = simplejpeg.decode_jpeg(frame.image_data).astype(int)
        assert (frame.camera, frame.width, frame.height) == ("yard", 321, 241)
        assert np.abs(image - picture).mean() < 6.0
    apart_ns = [frame.capture_time_ns - frame.captured_s * 1e9 for frame in watcher.frames]
    assert max(apart_ns) - min(apart_ns) < 5e6


def test_a_file_is_thinned_to_the_wanted_rate(watch: Watch, make_clip: MakeClip) -> None:
    """25 fps thinned to 10: two pictures of five are delivered, the others counted."""
    watcher = watch(make_clip("quick.mp4", "libx264", pictures=50, fps=25), fps=10.0)
    watcher.wait_for_state(CameraState.ENDED)

    counters = watcher.capture.counters
    assert len(watcher.frames) in (20, 21)
    assert (counters.frames_seen, counters.frames_delivered) == (50, len(watcher.frames))
    assert counters.frames_thinned == 50 - len(watcher.frames)


def test_a_file_is_looped(watch: Watch, make_clip: MakeClip) -> None:
    """Played again and again without a break, a change of state, or a number used twice."""
    watcher = watch(make_clip("short.mp4", "libx264", pictures=5), loop=True)
    watcher.wait_for_frames(14)

    steps = [after.captured_s - before.captured_s for before, after in pairwise(watcher.frames)]
    assert steps == pytest.approx([0.1] * len(steps), abs=0.03)
    assert [frame.frame_id for frame in watcher.frames] == list(range(1, len(watcher.frames) + 1))
    assert watcher.states == [CameraState.CONNECTING, CameraState.STREAMING]


def test_a_file_that_is_missing_is_waited_for(watch: Watch, make_clip: MakeClip, tmp_path: Path) -> None:
    """`offline` names the file; it is tried again, and played once it is there."""
    path = tmp_path / "a b:c.mp4"
    watcher = watch(path)
    status = watcher.wait_for_state(CameraState.OFFLINE)
    shutil.copy(make_clip("late.mp4", "libx264", pictures=3), tmp_path / "copy")
    (tmp_path / "copy").rename(path)
    watcher.wait_for_state(CameraState.ENDED)

    assert status.reason == f"no such file: {path}"
    assert len(watcher.frames) == 3


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", "no video that can be read in"), (b"text\n" * 500, "no video that can be read in")],
)
def test_a_file_that_is_no_video(watch: Watch, tmp_path: Path, content: bytes, expected: str) -> None:
    """The reason says so and names it."""
    path = tmp_path / "file.mp4"
    path.write_bytes(content)
    status = watch(path).wait_for_state(CameraState.OFFLINE)

    assert status.reason == f"{expected} {path}"


def test_a_file_without_video(watch: Watch, tmp_path: Path) -> None:
    """Sound alone is told from a broken file."""
    path = tmp_path / "sound.wav"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        assert isinstance(stream, av.AudioStream)
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        silence.sample_rate = 8000
        container.mux(stream.encode(silence))
    status = watch(path).wait_for_state(CameraState.OFFLINE)

    assert status.reason == f"{path} offers no video"


@pytest.mark.parametrize("url", ["/dev/video97", "v4l2:///dev/video97"])
def test_a_device_that_is_missing(watch: Watch, url: str) -> None:
    """A camera that is not plugged in is named as it would be by the system."""
    status = watch(url).wait_for_state(CameraState.OFFLINE)

    assert status.reason == "no such device: /dev/video97"


def test_a_device_that_is_none(watch: Watch) -> None:
    """A device file that is no camera is refused with the system's reason."""
    status = watch("v4l2:///dev/null").wait_for_state(CameraState.OFFLINE)

    assert status.reason.startswith("cannot open /dev/null: ")


@pytest.mark.parametrize("pix_fmt", ["yuyv422", "yuv420p"])
def test_uncompressed_video(watch: Watch, make_clip: MakeClip, pix_fmt: str) -> None:
    """What a device hands out without compression is encoded, and thinned before that."""
    path = make_clip("raw.nut", "rawvideo", pictures=10, pix_fmt=pix_fmt)
    watcher = watch(path, fps=5.0, jpeg_quality=95)
    watcher.wait_for_state(CameraState.ENDED)

    with av.open(str(path)) as container:
        pictures = [picture.to_ndarray(format="rgb24").astype(int) for picture in container.decode(video=0)]
    differences = [
        min(float(np.abs(simplejpeg.decode_jpeg(frame.image_data) - picture).mean()) for picture in pictures)
        for frame in watcher.frames
    ]
    assert len(watcher.frames) == 5
    assert max(differences) < 4.0


def test_mjpeg_is_passed_on_untouched(watch: Watch, make_clip: MakeClip) -> None:
    """The camera's own JPEGs are delivered byte for byte."""
    path = make_clip("motion.mkv", "mjpeg", pictures=6, pix_fmt="yuvj420p")
    watcher = watch(path, jpeg_quality=10)
    watcher.wait_for_state(CameraState.ENDED)

    with av.open(str(path)) as container:
        own = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    assert [frame.image_data for frame in watcher.frames] == own
    assert {(frame.width, frame.height) for frame in watcher.frames} == {(320, 240)}


def test_mjpeg_is_encoded_again_where_it_is_too_wide(watch: Watch, make_clip: MakeClip) -> None:
    """A largest width below the camera's makes new, smaller JPEGs."""
    watcher = watch(make_clip("motion.mkv", "mjpeg", pictures=6, pix_fmt="yuvj420p"), max_width=160)
    watcher.wait_for_state(CameraState.ENDED)

    assert {simplejpeg.decode_jpeg(frame.image_data).shape for frame in watcher.frames} == {(120, 160, 3)}
    assert len(watcher.frames) == 6


def test_mjpeg_is_encoded_again_where_it_is_too_large(watch: Watch, make_clip: MakeClip) -> None:
    """A limit on image bytes holds for the camera's own JPEGs too."""
    watcher = watch(make_clip("motion.mkv", "mjpeg", pictures=6, pix_fmt="yuvj420p"), loop=True)
    watcher.wait_for_frames(1)
    largest = len(watcher.frames[0].image_data)
    watcher.capture.want(replace(Wanted.of(watcher.camera), limit_bytes=largest // 2))
    came = len(watcher.frames)
    watcher.wait_for_frames(came + 4)

    assert all(len(frame.image_data) <= largest // 2 for frame in watcher.frames[came + 1 :])


def test_mjpeg_without_tables_gets_them(watch: Watch, make_clip: MakeClip, tmp_path: Path) -> None:
    """Motion JPEG that leaves out the standard Huffman tables is completed, its picture as it was."""
    source = make_clip("motion.mkv", "mjpeg", pictures=4, pix_fmt="yuvj420p", huffman="default")
    path = tmp_path / "tableless.mkv"
    with av.open(str(source)) as original, av.open(str(path), "w") as bare:
        stream = bare.add_stream_from_template(original.streams.video[0])
        for packet in original.demux(video=0):
            if packet.size:
                stripped = av.Packet(_without_huffman_tables(bytes(packet)))
                stripped.pts, stripped.dts, stripped.time_base = packet.pts, packet.dts, packet.time_base
                stripped.stream, stripped.is_keyframe = stream, True
                bare.mux(stripped)
    watcher = watch(path)
    watcher.wait_for_state(CameraState.ENDED)

    with av.open(str(source)) as container:
        whole = [simplejpeg.decode_jpeg(bytes(packet)) for packet in container.demux(video=0) if packet.size]
    assert len(watcher.frames) == 4
    for frame, expected in zip(watcher.frames, whole, strict=True):
        np.testing.assert_array_equal(simplejpeg.decode_jpeg(frame.image_data), expected)


def _without_huffman_tables(data: bytes) -> bytes:
    kept, at = [data[:2]], 2
    while data[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4])
        if data[at + 1] != 0xC4:
            kept.append(data[at:end])
        at = end
    return b"".join([*kept, data[at:]])


def test_stop_is_prompt_and_final(watch: Watch, make_clip: MakeClip) -> None:
    """Stopped between two pictures that are seconds apart, it ends at once and delivers nothing any more."""
    watcher = watch(make_clip("slow.mp4", "libx264", pictures=3, fps=1), loop=True)
    watcher.wait_for_frames(1)

    assert watcher.capture.stop(1.0)
    told = len(watcher.frames), len(watcher.statuses)
    assert "capture-yard" not in {thread.name for thread in threading.enumerate()}
    assert (len(watcher.frames), len(watcher.statuses)) == told
    assert watcher.thread_names == {"capture-yard"}


def test_stop_twice(watch: Watch, make_clip: MakeClip) -> None:
    """Stopping what has ended is no error."""
    watcher = watch(make_clip("slow.mp4", "libx264", pictures=3, fps=1))

    assert watcher.capture.stop(1.0)
    assert watcher.capture.stop(1.0)
