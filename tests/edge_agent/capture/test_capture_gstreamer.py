"""Capturing GStreamer's RTSP server, a real camera of another make."""

import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from edge_agent.capture.probe import probe
from edge_agent.config import CameraConfig, Transport
from edge_agent.state import CameraState
from tests.edge_agent.capture.conftest import Watch
from tests.gstreamer.plugin import StartGstCamera


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("codec", ["h264", "h265", "mjpeg"])
def test_every_codec_over_both_transports(
    watch: Watch, gst_camera: StartGstCamera, codec: str, transport: Transport
) -> None:
    """Frames come at the camera's pace, whole and soon."""
    # RTP carries the size of a JPEG in steps of eight.
    width, height = (320, 240) if codec == "mjpeg" else (322, 242)
    camera = gst_camera(pattern=True, codec=codec, size=f"{width}x{height}", fps=25)
    watcher = watch(camera.url, fps=25.0, transport=transport)
    watcher.wait_for_frames(60)

    steps = [after.captured_s - before.captured_s for before, after in pairwise(watcher.frames)]
    delays_s = [
        delivered_s - frame.captured_s
        for frame, delivered_s in zip(watcher.frames, watcher.delivered_s, strict=True)
    ]
    assert np.median(steps) == pytest.approx(0.04, abs=0.01)
    assert min(delays_s) >= 0.0
    assert np.median(delays_s) < 0.02
    assert {(frame.width, frame.height) for frame in watcher.frames} == {(width, height)}
    assert watcher.capture.counters.frames_corrupt == 0
    assert watcher.states == [CameraState.CONNECTING, CameraState.STREAMING]


def test_pictures_that_are_sent_out_of_order(watch: Watch, gst_camera: StartGstCamera) -> None:
    """B-frames of a real encoder: times follow presentation, in even steps, and none is in the future."""
    camera = gst_camera(pattern=True, size="320x240", fps=25, bframes=2)
    watcher = watch(camera.url, fps=25.0)
    watcher.wait_for_frames(60)

    times = [frame.captured_s for frame in watcher.frames]
    steps = [after - before for before, after in pairwise(times[10:])]
    delays_s = [
        delivered_s - frame.captured_s
        for frame, delivered_s in zip(watcher.frames, watcher.delivered_s, strict=True)
    ]
    assert times == sorted(times)
    assert np.median(steps) == pytest.approx(0.04, abs=0.01)
    assert min(delays_s) >= 0.0
    assert watcher.capture.counters.frames_corrupt == 0


def test_footage_at_ten_pictures_a_second(watch: Watch, gst_camera: StartGstCamera, walkers: Path) -> None:
    """Ten wanted of a camera with ten: after the first second none is thinned out, none is lost."""
    camera = gst_camera(file=walkers, loop=True)
    watcher = watch(camera.url, fps=10.0)
    watcher.wait_for_frames(10)
    counters = watcher.capture.counters
    thinned, seen, delivered = counters.frames_thinned, counters.frames_seen, counters.frames_delivered
    watcher.wait_for_frames(60)

    # Between reading the counters and now a picture may be on its way from one to the other.
    assert counters.frames_thinned - thinned <= 1
    assert abs((counters.frames_seen - seen) - (counters.frames_delivered - delivered)) <= 2


def test_killed_and_restarted(watch: Watch, gst_camera: StartGstCamera, walkers: Path) -> None:
    """Each time the state says that the camera is gone, and within 3 s of its return frames come again."""
    camera = gst_camera(file=walkers, loop=True)
    watcher = watch(camera.url)
    took_s = []
    for _ in range(3):
        watcher.wait_for_frames(len(watcher.frames) + 5)
        told = len(watcher.statuses)
        camera.kill()
        watcher.wait_for_state(CameraState.OFFLINE, after=told)
        told = len(watcher.statuses)
        camera.restart()
        back_s = time.monotonic()
        watcher.wait_for_state(CameraState.STREAMING, after=told - 1)
        took_s.append(time.monotonic() - back_s)

    times = [frame.captured_s for frame in watcher.frames]
    assert max(took_s) < 3.0
    # Each start begins with timestamps of its own.
    assert times == sorted(times)
    assert all(
        at_s <= delivered_s < at_s + 3.0 for at_s, delivered_s in zip(times, watcher.delivered_s, strict=True)
    )


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_frozen_and_thawed(watch: Watch, gst_camera: StartGstCamera, transport: Transport) -> None:
    """A camera that stops in the middle of things is stalled; thawed, it is captured again."""
    camera = gst_camera(pattern=True, fps=10)
    watcher = watch(camera.url, read_timeout_s=1.0, connect_timeout_s=1.0, transport=transport)
    watcher.wait_for_frames(5)
    camera.freeze()
    stalled = watcher.wait_for_state(CameraState.STALLED)
    last = watcher.frames[-1]
    camera.thaw()
    watcher.wait_for_state(CameraState.STREAMING, after=watcher.statuses.index(stalled))

    assert stalled.reason == "no packet for 1 s"
    assert 0.9 <= stalled.since_s - last.captured_s < 3.0


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_probe(gst_camera: StartGstCamera, tmp_path: Path, transport: Transport) -> None:
    """The probe tells what the camera sends, over what, and saves its first picture."""
    camera = gst_camera(pattern=True, codec="h265", size="320x240", fps=15)
    config = CameraConfig(name="yard", url=camera.url, transport=transport)
    report = probe(config, None, tmp_path / "snapshot.jpg")

    assert (report.codec, report.width, report.height) == ("H.265", 320, 240)
    assert report.transport == transport.upper()
    assert report.frames_per_second == pytest.approx(15.0, abs=1.0)
    assert 0.0 < report.first_keyframe_s < 10.0
