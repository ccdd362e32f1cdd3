"""Trying a source once."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from edge_agent.capture.errors import CaptureError
from edge_agent.capture.probe import probe
from edge_agent.config import CameraConfig
from edge_agent.rtsp.faults import Faults
from tests.edge_agent.capture.conftest import MakeClip, ServeDemo
from tests.edge_agent.capture.mjpeg_server import MjpegCamera, serving


def camera_of(url: str | Path, **options: float) -> CameraConfig:
    return CameraConfig(name="yard", url=str(url), **options)  # type: ignore[arg-type]  # a table of keywords


def test_a_file(make_clip: MakeClip, tmp_path: Path) -> None:
    """Codec, size and rate are the file's, whatever is wanted of the camera; so is the snapshot's size."""
    path = make_clip("probe.mp4", "libx264", pictures=60, width=321, height=241, fps=25, pix_fmt="yuv444p")
    snapshot = tmp_path / "snapshot.jpg"
    report = probe(camera_of(path, max_width=100, fps=1.0), None, snapshot)

    assert (report.codec, report.width, report.height, report.transport) == ("H.264", 321, 241, None)
    assert report.frames_per_second == pytest.approx(25.0, abs=0.1)
    assert report.snapshot == snapshot
    assert simplejpeg.decode_jpeg(snapshot.read_bytes()).shape == (241, 321, 3)


def test_a_single_picture(make_clip: MakeClip) -> None:
    """One picture has no rate."""
    report = probe(camera_of(make_clip("one.mp4", "libx264", pictures=1)), None, None)

    assert (report.frames_per_second, report.snapshot) == (0.0, None)


def test_an_http_camera() -> None:
    """MJPEG over HTTP is measured by arrival."""
    picture = simplejpeg.encode_jpeg(np.zeros((48, 64, 3), np.uint8))
    with serving(MjpegCamera([picture], interval_s=0.05)) as camera:
        report = probe(camera_of(camera.url), None, None)

    assert (report.codec, report.width, report.height) == ("MJPEG", 64, 48)
    assert 5.0 < report.frames_per_second < 25.0


async def test_a_camera_that_does_not_answer(demo_camera: ServeDemo, make_clip: MakeClip) -> None:
    """The error is the one that the capture would show."""
    clip = make_clip("probe.mp4", "libx264", pictures=5)
    async with demo_camera(clip, faults=Faults(silent_from="DESCRIBE")) as camera:
        with pytest.raises(CaptureError, match=r"^RTSP handshake: .* did not answer within 0\.3 s$"):
            await asyncio.to_thread(probe, camera_of(camera.url, connect_timeout_s=0.3), None, None)


def test_a_snapshot_that_cannot_be_written(make_clip: MakeClip, tmp_path: Path) -> None:
    """The reason names the file."""
    clip = make_clip("probe.mp4", "libx264", pictures=5)
    with pytest.raises(CaptureError) as caught:
        probe(camera_of(clip), None, tmp_path / "missing" / "snapshot.jpg")

    assert str(caught.value) == (
        f"cannot write the snapshot {tmp_path}/missing/snapshot.jpg: No such file or directory"
    )
