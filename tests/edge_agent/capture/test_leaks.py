"""What failed attempts leave behind: nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import cycle, islice
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from edge_agent.capture.errors import CaptureError
from edge_agent.capture.opening import open_source
from edge_agent.config import CameraConfig
from edge_agent.rtsp.auth import Credentials
from edge_agent.rtsp.camera import DemoCamera
from edge_agent.rtsp.faults import Faults
from tests.edge_agent.capture.conftest import MakeClip

WARM_UP = 100
"""Attempts before the first look: allocators and libraries have their final size by then."""


@pytest_asyncio.fixture
async def bad_urls(make_clip: MakeClip, tmp_path: Path) -> AsyncIterator[list[str]]:
    """Give sources that fail at every stage: TCP, password, description, silence, in the stream."""
    clip = make_clip("leak.mp4", "libx264", fps=25, tune="zerolatency", g="5")
    faults = [
        Faults(malformed_sdp="cut off"),
        Faults(malformed_sdp="unknown codec"),
        Faults(silent_from="SETUP"),
        Faults(close_after_frames=2),
    ]
    cameras = [DemoCamera(clip, credentials=Credentials(user="yard", password="secret"))]
    cameras += [DemoCamera(clip, faults=fault) for fault in faults]
    async with AsyncExitStack() as running:
        for camera in cameras:
            await running.enter_async_context(camera)
        refused = ["rtsp://127.0.0.1:1/live", "http://127.0.0.1:1/video", str(tmp_path / "missing.mp4")]
        yield [camera.url for camera in cameras] + refused


def attempt(url: str) -> None:
    camera = CameraConfig(name="yard", url=url, connect_timeout_s=0.05, read_timeout_s=0.1)
    with contextlib.suppress(CaptureError), open_source(camera, None, lambda _: None) as source:
        for _ in source.pictures():
            pass


def attempt_all(urls: list[str], count: int) -> None:
    for url in islice(cycle(urls), count):
        attempt(url)


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.soak)])
async def test_failed_attempts_leave_nothing(bad_urls: list[str], count: int) -> None:
    """Threads, file descriptors and memory stay where they were after the first hundred."""
    process = psutil.Process()
    await asyncio.to_thread(attempt_all, bad_urls, WARM_UP)
    threads, descriptors, memory = process.num_threads(), process.num_fds(), process.memory_info().rss
    await asyncio.to_thread(attempt_all, bad_urls, count)

    assert process.num_threads() <= threads
    assert process.num_fds() <= descriptors + len(bad_urls)  # connections that the cameras still close
    assert process.memory_info().rss - memory < 4 << 20
