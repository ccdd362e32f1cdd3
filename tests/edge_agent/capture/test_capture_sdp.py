"""What RTSP cameras say of their streams, rightly, wrongly, or not at all."""

from collections.abc import Callable
from pathlib import Path

import pytest

from edge_agent.rtsp.faults import MALFORMED_SDP, Faults
from edge_agent.state import CameraState
from tests.edge_agent.capture.conftest import ServeDemo, Watch, until


@pytest.mark.parametrize("codec", ["h264", "hevc"])
async def test_parameter_sets_nowhere(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path], codec: str
) -> None:
    """Without SPS and PPS nothing can be decoded: it waits, and delivers nothing; mended, it streams."""
    async with demo_camera(clip_of(codec), faults=Faults(parameter_sets="nowhere")) as camera:
        watcher = watch(camera.url, fps=25.0)
        await until(watcher.wait_for_state, CameraState.WAITING_FOR_KEYFRAME)
        await until(watcher.wait_until, lambda: watcher.capture.counters.packets >= 30, "30 pictures")
        port, frames = camera.port, len(watcher.frames)
        await camera.close()
        async with demo_camera(clip_of(codec), port=port):
            await until(watcher.wait_for_frames, 5)

    assert frames == 0
    assert watcher.capture.counters.opens == 2


NOTHING_TO_PLAY = (
    "{place} refuses the request (4xx): it may have no room for another viewer, or its SDP offers no video"
)
UNKNOWN_CODEC = "{place} offers video in an unknown codec; expected H.264, H.265, MJPEG"
UNREADABLE = (
    "RTSP handshake: {place} closed the connection, does not speak RTSP or sent an SDP that cannot be read"
)
EXPECTED_OF_SDP = {
    "empty": UNREADABLE,
    "a web page": NOTHING_TO_PLAY,
    "cut off": NOTHING_TO_PLAY,
    "audio only": NOTHING_TO_PLAY,
    "no media": NOTHING_TO_PLAY,
    "no rtpmap": UNKNOWN_CODEC,
    "unknown codec": UNKNOWN_CODEC,
    "broken parameter sets": None,
    "no control": None,
    "bare newlines": None,
}


@pytest.mark.parametrize("kind", sorted(MALFORMED_SDP))
async def test_malformed_descriptions(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path], kind: str
) -> None:
    """A description is either understood all the same or refused with the reason."""
    async with demo_camera(clip_of(), faults=Faults(malformed_sdp=kind)) as camera:
        watcher = watch(camera.url, connect_timeout_s=1.0, read_timeout_s=1.0)
        expected = EXPECTED_OF_SDP[kind]
        if expected is None:
            await until(watcher.wait_for_frames, 5)
            return
        status = await until(watcher.wait_for_state, CameraState.OFFLINE)
        assert status.reason == expected.format(place=f"127.0.0.1:{camera.port}")


async def test_a_path_that_is_not_there(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path]
) -> None:
    """404 is said with what to look at."""
    async with demo_camera(clip_of()) as camera:
        watcher = watch(camera.url + "-two")
        status = await until(watcher.wait_for_state, CameraState.OFFLINE)
        place = f"127.0.0.1:{camera.port}"

    assert status.reason == f"{place} has no such stream (404): check the path of the URL"
