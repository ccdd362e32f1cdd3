"""Clips in each codec that a camera serves, made once."""

from pathlib import Path

import pytest

from tests.edge_agent.rtsp.clips import make_clip


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """30 pictures of 320 x 240, a keyframe every 10, in H.264, H.265 and MJPEG."""
    folder = tmp_path_factory.mktemp("clips")
    return {
        "h264": make_clip(folder / "h264.mp4", "h264"),
        "hevc": make_clip(folder / "hevc.mp4", "hevc"),
        "mjpeg": make_clip(folder / "mjpeg.avi", "mjpeg"),
    }


@pytest.fixture(scope="session")
def h264_clip(clips: dict[str, Path]) -> Path:
    return clips["h264"]
