"""Capturing RTSP cameras, good and bad ones."""

import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
import simplejpeg
from numpy.typing import NDArray

from edge_agent.config import Transport
from edge_agent.rtsp.camera import DemoCamera
from edge_agent.rtsp.faults import Faults, Stage
from edge_agent.rtsp.packing import ParameterSets
from edge_agent.rtsp.transport import UdpTransport
from edge_agent.state import CameraState
from tests.edge_agent.capture.conftest import ServeDemo, Watch, Watcher, until

Images = list[NDArray[np.int16]]
EVERY = slice(None, None, 4)
"""Comparing every fourth row and column is enough to tell pictures apart, and to see a grey one."""


def thin(image: NDArray[np.uint8]) -> NDArray[np.int16]:
    return image[EVERY, EVERY].astype(np.int16)


def images_of(path: Path) -> Images:
    with av.open(str(path)) as container:
        return [
            thin(np.asarray(picture.to_ndarray(format="rgb24"), np.uint8))
            for picture in container.decode(video=0)
        ]


def distance_to_nearest(frame_data: bytes, images: Images) -> float:
    """Give the mean difference between a JPEG and the picture of the clip that it resembles most."""
    image = thin(simplejpeg.decode_jpeg(frame_data))
    return float(min(np.abs(image - other).mean() for other in images if other.shape == image.shape))


def ages_s(watcher: Watcher) -> list[float]:
    return [
        delivered_s - frame.captured_s
        for frame, delivered_s in zip(watcher.frames, watcher.delivered_s, strict=True)
    ]


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("codec", ["h264", "hevc", "mjpeg"])
async def test_every_codec_over_both_transports(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path], codec: str, transport: Transport
) -> None:
    """Frames are the camera's pictures, and keep coming at the camera's pace."""
    path = clip_of(codec)
    async with demo_camera(path) as camera:
        watcher = watch(camera.url, fps=25.0, transport=transport)
        await until(watcher.wait_for_frames, 25)

    images = images_of(path)
    steps = [after.captured_s - before.captured_s for before, after in pairwise(watcher.frames)]
    assert max(distance_to_nearest(frame.image_data, images) for frame in watcher.frames[:25]) < 5.0
    assert np.median(steps) == pytest.approx(0.04, abs=0.01)
    assert watcher.states[:2] == [CameraState.CONNECTING, CameraState.STREAMING]
    assert watcher.capture.counters.frames_corrupt == 0


@pytest.mark.parametrize("codec", ["h264", "hevc"])
async def test_a_picture_does_not_wait_for_the_next(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path], codec: str
) -> None:
    """When a camera falls silent, its last picture has been delivered before that is noticed."""
    async with demo_camera(clip_of(codec), faults=Faults(stall_after_frames=80)) as camera:
        watcher = watch(camera.url, fps=25.0, read_timeout_s=1.0)
        await until(watcher.wait_for_state, CameraState.STALLED)

    # The first may be a picture late in getting a keyframe; the last of the 80 is what counts.
    assert watcher.capture.counters.frames_seen == 80


@pytest.mark.parametrize("stage", ["OPTIONS", "DESCRIBE", "SETUP", "PLAY"])
async def test_a_handshake_that_is_not_answered(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path], stage: Stage
) -> None:
    """Whatever request stays without answer: the stage is shown, and bounded by its own timeout."""
    async with demo_camera(clip_of(), faults=Faults(silent_from=stage)) as camera:
        watcher = watch(camera.url, connect_timeout_s=0.5)
        failed = await until(watcher.wait_for_state, CameraState.OFFLINE)
        place = f"127.0.0.1:{camera.port}"

    shown = [status.reason for status in watcher.statuses if status.state is CameraState.CONNECTING]
    assert failed.reason == f"RTSP handshake: {place} did not answer within 0.5 s"
    assert shown == [f"TCP connect to {place}", "RTSP handshake"]


async def test_no_packet_after_play(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path]
) -> None:
    """PLAY is answered and nothing comes: that is a stage of its own."""
    async with demo_camera(clip_of(), faults=Faults(stall_after_frames=0)) as camera:
        watcher = watch(camera.url, connect_timeout_s=0.5, read_timeout_s=0.5)
        failed = await until(watcher.wait_for_state, CameraState.OFFLINE)

    assert failed.reason == "no packet within 1 s after PLAY"
    assert watcher.statuses[-2].reason == "waiting for the first packet"


@pytest.mark.parametrize("stage", ["OPTIONS", "PLAY"])
async def test_stop_while_a_camera_does_not_answer(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path], stage: Stage
) -> None:
    """Stopping does not wait for the camera: it tells that the thread hangs, and nothing comes after."""
    async with demo_camera(clip_of(), faults=Faults(silent_from=stage)) as camera:
        watcher = watch(camera.url, connect_timeout_s=1.0)
        await until(watcher.wait_until, lambda: len(watcher.statuses) == 2, "RTSP handshake")
        ended = await until(watcher.capture.stop, 0.1)
        statuses = len(watcher.statuses)
        ended_later = await until(watcher.capture.stop, 10.0)

    assert (ended, ended_later) == (False, True)
    assert len(watcher.statuses) == statuses


async def test_a_camera_that_does_not_answer_delays_no_other(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path]
) -> None:
    """Started before a good one, it takes its time, and the good one is streamed meanwhile."""
    async with (
        demo_camera(clip_of()) as good,
        demo_camera(clip_of(), faults=Faults(silent_from="OPTIONS")) as bad,
    ):
        waiting = watch(bad.url, connect_timeout_s=3.0)
        await until(waiting.wait_until, lambda: len(waiting.statuses) == 2, "RTSP handshake")
        streaming = watch(good.url, fps=25.0)
        await until(streaming.wait_for_frames, 10)
        states = waiting.states

    assert states == [CameraState.CONNECTING]


async def test_keyframes_withheld(watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path]) -> None:
    """Until the first keyframe the state says so, and no grey picture is delivered."""
    path = clip_of()
    async with demo_camera(path, faults=Faults(withhold_keyframes_s=1.0)) as camera:
        watcher = watch(camera.url, fps=25.0)
        waiting = await until(watcher.wait_for_state, CameraState.WAITING_FOR_KEYFRAME)
        await until(watcher.wait_for_frames, 5)

    images = images_of(path)
    assert waiting.reason == "none came yet"
    assert watcher.states[:3] == [
        CameraState.CONNECTING,
        CameraState.WAITING_FOR_KEYFRAME,
        CameraState.STREAMING,
    ]
    assert max(distance_to_nearest(frame.image_data, images) for frame in watcher.frames) < 5.0


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("where", ["sdp", "in-band"])
async def test_parameter_sets_in_one_place_only(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path], codec: str, where: ParameterSets
) -> None:
    """SPS and PPS in the SDP alone, or not in the SDP at all: pictures come all the same."""
    path = clip_of(codec)
    async with demo_camera(path, faults=Faults(parameter_sets=where)) as camera:
        watcher = watch(camera.url, fps=25.0)
        await until(watcher.wait_for_frames, 15)

    images = images_of(path)
    assert max(distance_to_nearest(frame.image_data, images) for frame in watcher.frames) < 5.0


async def test_a_stream_that_stops_without_closing(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path]
) -> None:
    """`stalled` after the read timeout, then another connection, by itself."""
    async with demo_camera(clip_of(), faults=Faults(stall_after_frames=10)) as camera:
        watcher = watch(camera.url, fps=25.0, read_timeout_s=0.5)
        stalled = await until(watcher.wait_for_state, CameraState.STALLED)
        camera.faults = Faults()
        last = watcher.frames[-1]
        await until(watcher.wait_for_state, CameraState.STREAMING, after=watcher.statuses.index(stalled))

    assert stalled.reason == "no packet for 0.5 s"
    assert 0.5 <= stalled.since_s - last.captured_s < 2.0


async def test_a_camera_that_hangs_up_again_and_again(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path]
) -> None:
    """It is opened again each time, with growing numbers and times; each loss is a state."""
    async with demo_camera(clip_of(), faults=Faults(close_after_frames=12)) as camera:
        watcher = watch(camera.url, fps=25.0)
        await until(
            watcher.wait_until, lambda: watcher.states.count(CameraState.STREAMING) >= 3, "third stream"
        )

    numbers = [frame.frame_id for frame in watcher.frames]
    times = [frame.captured_s for frame in watcher.frames]
    lost = next(status for status in watcher.statuses if status.state is CameraState.OFFLINE)
    assert lost.reason == "the camera closed the connection"
    assert numbers == list(range(1, len(numbers) + 1))
    assert times == sorted(times)
    assert watcher.capture.counters.opens >= 3


async def test_a_camera_that_goes_away_and_comes_back(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path]
) -> None:
    """While it is away the state keeps its beginning; once it is back, frames come within 3 s."""
    path = clip_of()
    async with DemoCamera(path) as camera:
        watcher = watch(camera.url, fps=25.0)
        await until(watcher.wait_for_frames, 5)
        port = camera.port
    gone = await until(watcher.wait_for_state, CameraState.OFFLINE)
    await until(
        watcher.wait_until, lambda: watcher.capture.counters.failed_opens >= 4, "fourth attempt", 10.0
    )
    offline = [status for status in watcher.statuses if status.state is CameraState.OFFLINE]
    async with demo_camera(path, port=port):
        back_s = time.monotonic()
        await until(watcher.wait_for_state, CameraState.STREAMING, after=len(watcher.statuses) - 1)
        took_s = time.monotonic() - back_s

    assert {status.since_s for status in offline} == {gone.since_s}
    assert offline[-1].reason == f"TCP connect: 127.0.0.1 port {port}: Connection refused"
    assert took_s < 3.0


@pytest.mark.parametrize("codec", ["h264", "hevc"])
async def test_datagrams_that_are_lost(
    watch: Watch,
    demo_camera: ServeDemo,
    clip_of: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    codec: str,
) -> None:
    """No picture with a hole, or built on one, is delivered; until the next keyframe the state says why."""
    send = UdpTransport.send
    sent = 0

    def send_most(transport: UdpTransport, packets: Sequence[bytes]) -> None:
        nonlocal sent
        kept = [packet for number, packet in enumerate(packets, sent) if number % 50 != 49]
        sent += len(packets)
        send(transport, kept)

    monkeypatch.setattr(UdpTransport, "send", send_most)
    path = clip_of(codec)
    async with demo_camera(path) as camera:
        watcher = watch(camera.url, fps=25.0, transport="udp")
        await until(watcher.wait_until, lambda: watcher.capture.counters.packets >= 150, "150 pictures")

    images = images_of(path)
    waiting = [s for s in watcher.statuses if s.state is CameraState.WAITING_FOR_KEYFRAME]
    assert max(distance_to_nearest(frame.image_data, images) for frame in watcher.frames) < 5.0
    assert watcher.capture.counters.frames_corrupt > 10
    assert "packets were lost or damaged" in {status.reason for status in waiting}
    assert watcher.capture.counters.opens == 1


async def test_timestamps_that_restart(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path]
) -> None:
    """RTP timestamps that begin again at zero make no picture old, and none from the future."""
    async with demo_camera(clip_of(), faults=Faults(timestamps_restart_after_frames=40)) as camera:
        watcher = watch(camera.url, fps=25.0)
        await until(watcher.wait_for_frames, 70)

    times = [frame.captured_s for frame in watcher.frames]
    assert times == sorted(times)
    assert min(ages_s(watcher)) >= 0.0
    assert np.median(ages_s(watcher)[45:]) < 0.1


async def test_pictures_that_are_sent_out_of_order(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path]
) -> None:
    """With B-frames, times follow presentation: even steps, in order, and never from the future."""
    path = clip_of("h264", tune="film", bf="2", **{"x264-params": "b-adapt=0"})
    async with demo_camera(path) as camera:
        watcher = watch(camera.url, fps=25.0)
        await until(watcher.wait_for_frames, 50)

    steps = [after.captured_s - before.captured_s for before, after in pairwise(watcher.frames[10:])]
    images = images_of(path)
    assert steps == pytest.approx([0.04] * len(steps), abs=0.02)
    assert min(ages_s(watcher)) >= 0.0
    assert max(distance_to_nearest(frame.image_data, images) for frame in watcher.frames[:20]) < 5.0


@pytest.mark.parametrize("codec", ["h264", "hevc", "mjpeg"])
async def test_the_size_changes_in_the_stream(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path], codec: str
) -> None:
    """The new size, here an odd-looking one, is picked up from the picture; both sides are sharp."""
    before, after = clip_of(codec), clip_of(codec, width=184, height=120)
    faults = Faults(switch_to=after, switch_after_frames=20)
    async with demo_camera(before, faults=faults) as camera:
        watcher = watch(camera.url, fps=25.0)
        await until(
            watcher.wait_until, lambda: watcher.frames[-1:] and watcher.frames[-1].width == 184, "new size"
        )
        await until(watcher.wait_for_frames, len(watcher.frames) + 5)

    images = images_of(before) + images_of(after)
    sizes = {(frame.width, frame.height) for frame in watcher.frames}
    assert sizes == {(320, 240), (184, 120)}
    for frame in watcher.frames:
        assert simplejpeg.decode_jpeg_header(frame.image_data)[:2] == (frame.height, frame.width)
    assert max(distance_to_nearest(frame.image_data, images) for frame in watcher.frames) < 5.0


async def test_cameras_that_want_to_be_kept_alive(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path]
) -> None:
    """Sessions of two seconds are kept alive by requests, even where GET_PARAMETER is refused."""
    async with AsyncExitStack() as cameras:
        watchers = []
        for status in (200, 501, 551):
            faults = Faults(get_parameter_status=status)
            serving = demo_camera(clip_of(), session_timeout_s=2, faults=faults)
            watchers.append(watch((await cameras.enter_async_context(serving)).url, fps=25.0))
        for watcher in watchers:
            await until(watcher.wait_for_frames, 130)

    assert [watcher.capture.counters.opens for watcher in watchers] == [1, 1, 1]


async def test_a_camera_that_hangs_up_on_keepalive(
    watch: Watch, demo_camera: ServeDemo, clip_of: Callable[..., Path]
) -> None:
    """One that announces GET_PARAMETER and closes on it is connected again each time, at once."""
    faults = Faults(closes_on_get_parameter=True)
    async with demo_camera(clip_of(), session_timeout_s=2, faults=faults) as camera:
        watcher = watch(camera.url, fps=25.0)
        await until(watcher.wait_until, lambda: watcher.capture.counters.opens >= 3, "third connection")
        await until(watcher.wait_for_frames, len(watcher.frames) + 5)

    lost = {status.reason for status in watcher.statuses if status.state is CameraState.OFFLINE}
    gaps = [after - before for before, after in pairwise(watcher.delivered_s)]
    assert lost == {"the camera closed the connection"}
    assert max(gaps) < 3.0
