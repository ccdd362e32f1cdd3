"""The tests' real camera is what it says: the file's pictures, killed, frozen and restarted at will."""

import itertools
import time
from pathlib import Path

import av
import pytest

from tests.gstreamer.plugin import GstCamera, StartGstCamera

OPTIONS = {"rtsp_transport": "tcp", "analyzeduration": "200000"}


def pixels(url: str, frames: int, options: dict[str, str]) -> list[bytes]:
    """Decode the first so many pictures."""
    with av.open(url, options=options, timeout=(10, 10)) as container:
        decoded = itertools.islice(container.decode(video=0), frames)
        return [frame.to_ndarray().tobytes() for frame in decoded]


def watch(url: str, frames: int, timeout_s: float = 10.0) -> list[tuple[int, int]]:
    """Watch so many pictures; gives their sizes."""
    with av.open(url, options=OPTIONS, timeout=(timeout_s, timeout_s)) as container:
        sizes = []
        for frame in container.decode(video=0):
            sizes.append((frame.width, frame.height))
            if len(sizes) == frames:
                break
    return sizes


def test_a_file_is_copied_from_its_beginning_for_each_first_viewer(
    gst_camera: StartGstCamera, walkers: Path
) -> None:
    """Pixel by pixel, over the loop's seam, and again for who comes when nobody is there."""
    wanted = pixels(str(walkers), 6, {})
    camera = gst_camera(file=walkers, frames=6, loop=True)
    for _ in range(2):
        assert pixels(camera.url, 9, OPTIONS) == wanted + wanted[:3]


@pytest.mark.parametrize("codec", ["h264", "h265", "mjpeg"])
def test_a_pattern_has_the_codec_and_the_size(gst_camera: StartGstCamera, codec: str) -> None:
    """Of any codec that cameras have."""
    camera = gst_camera(pattern=True, codec=codec, size="320x240", fps=25)
    assert watch(camera.url, 5) == [(320, 240)] * 5
    with av.open(camera.url, options=OPTIONS, timeout=(10, 10)) as container:
        assert container.streams.video[0].codec_context.name == {"h265": "hevc"}.get(codec, codec)


@pytest.mark.parametrize("auth", ["basic", "digest"])
def test_only_the_user_is_let_in(gst_camera: StartGstCamera, auth: str) -> None:
    """With the password, signs and all; not without."""
    camera = gst_camera(
        pattern=True, size="160x120", fps=25, user="viewer", password="a@b:c/d?e#f", auth=auth
    )
    known = camera.url.replace("rtsp://", "rtsp://viewer:a%40b%3Ac%2Fd%3Fe%23f@")
    assert len(watch(known, 1)) == 1
    with pytest.raises(av.error.HTTPUnauthorizedError):
        watch(camera.url, 1)


def test_killed_it_comes_back_on_its_port(gst_camera: StartGstCamera) -> None:
    """Nobody listens in between."""
    camera = gst_camera(pattern=True, size="160x120", fps=25)
    port = camera.port
    assert len(watch(camera.url, 1)) == 1
    camera.kill()
    with pytest.raises(av.error.ConnectionRefusedError):
        watch(camera.url, 1)
    camera.restart()
    assert camera.port == port
    assert len(watch(camera.url, 1)) == 1


def test_frozen_it_is_silent_and_thawed_it_goes_on(gst_camera: StartGstCamera) -> None:
    """The port still takes connections, but nothing answers."""
    camera: GstCamera = gst_camera(pattern=True, size="160x120", fps=25)
    camera.freeze()
    begin_s = time.monotonic()
    with pytest.raises(av.error.FFmpegError):
        watch(camera.url, 1, timeout_s=0.5)
    assert time.monotonic() - begin_s >= 0.5
    camera.thaw()
    assert len(watch(camera.url, 1)) == 1
