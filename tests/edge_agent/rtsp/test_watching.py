"""What viewers get from a camera, with the viewers that people have."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from edge_agent.rtsp.auth import Credentials, Scheme
from edge_agent.rtsp.camera import DemoCamera
from tests.edge_agent.rtsp.clips import FPS, decode, make_clip
from tests.edge_agent.rtsp.viewers import HandViewer, until, watch_in_thread, watch_with_gstreamer
from tests.gstreamer.plugin import demand_gstreamer

FRAMES = 30


def looped(shown: Sequence[str], count: int) -> list[str]:
    return [shown[number % len(shown)] for number in range(count)]


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("codec", ["h264", "hevc", "mjpeg"])
async def test_a_viewer_gets_every_picture_of_the_file_and_then_the_first_again(
    clips: dict[str, Path], codec: str, transport: str
) -> None:
    """Pixel by pixel what the file holds, in order, over the loop's seam, with times that go on growing."""
    async with DemoCamera(clips[codec]) as camera:
        seen = await watch_in_thread(camera.url, 2 * FRAMES + 5, transport)

    assert [picture.fingerprint for picture in seen] == looped(decode(clips[codec]), 2 * FRAMES + 5)
    # libav gives no time to the first picture of a stream without a keyframe's own mark.
    times = [picture.pts_s for picture in seen[1:]]
    assert times == pytest.approx([number / FPS for number in range(1, 2 * FRAMES + 5)], abs=1e-4)


@pytest.mark.parametrize("name", ["b-frames.mp4", "b-frames.mkv", "b-frames.ts"])
async def test_reordered_pictures_are_shown_in_their_order(tmp_path: Path, name: str) -> None:
    """B-frames arrive in decoding order with the times of showing; every container tells both its own way."""
    clip = make_clip(tmp_path / name, b_frames=2)
    async with DemoCamera(clip) as camera:
        seen = await watch_in_thread(camera.url, FRAMES + 8)

    assert [picture.fingerprint for picture in seen] == looped(decode(clip), FRAMES + 8)
    times = [picture.pts_s for picture in seen if picture.pts_s is not None]
    assert times == sorted(times)


async def test_the_clip_plays_at_its_own_pace(h264_clip: Path) -> None:
    """No picture comes before it is due, and the last one not long after."""
    begin_s = time.monotonic()
    async with DemoCamera(h264_clip) as camera, HandViewer(camera.url) as viewer:
        await viewer.play()
        await viewer.pictures(2 * FRAMES)
    took_s = time.monotonic() - begin_s

    due_s = (2 * FRAMES - 1) / FPS
    assert due_s <= took_s < due_s + 2.0


async def test_a_camera_that_was_held_up_does_not_hurry(h264_clip: Path) -> None:
    """After two seconds in which nothing ran, the pictures go on one by one, not in a heap."""
    async with DemoCamera(h264_clip) as camera, HandViewer(camera.url) as viewer:
        await viewer.play()
        await viewer.pictures(5)
        time.sleep(2.0)  # noqa: ASYNC251 -- the loop itself is to stand still
        begin_s = time.monotonic()
        await viewer.pictures(10)
        assert time.monotonic() - begin_s >= 8 / FPS


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("codec", ["h264", "hevc", "mjpeg"])
async def test_gstreamer_sees_the_same_pictures(clips: dict[str, Path], codec: str, transport: str) -> None:
    """Another implementation of RTSP and RTP decodes the file's pixels."""
    demand_gstreamer()
    async with DemoCamera(clips[codec]) as camera:
        seen = await watch_with_gstreamer(camera.url, FRAMES + 5, transport)

    assert seen == looped(decode(clips[codec]), FRAMES + 5)


@pytest.mark.parametrize("scheme", ["basic", "digest"])
async def test_gstreamer_is_let_in_with_a_hard_password(h264_clip: Path, scheme: Scheme) -> None:
    """The password is what was set, with signs that mean something in a URL."""
    demand_gstreamer()
    credentials = Credentials(user="us@er", password="p@s:s/w?o#r%d^!", scheme=scheme)
    async with DemoCamera(h264_clip, credentials=credentials) as camera:
        assert len(await watch_with_gstreamer(camera.url, 3, credentials=credentials)) == 3


async def test_one_who_comes_later_begins_at_a_keyframe_and_sees_the_same(h264_clip: Path) -> None:
    """Live: nobody gets a clip of his own."""
    async with (
        DemoCamera(h264_clip) as camera,
        HandViewer(camera.url) as first,
        HandViewer(camera.url) as second,
    ):
        await first.play()
        early = await first.pictures(4)
        await second.play()
        late = await second.pictures(5)
        early += await first.pictures(12)

    assert 5 in set().union(*(packet.h264_units() for packet in late[0]))
    position = early.index(late[0])
    assert early[position : position + 5] == late


async def test_without_loop_the_stream_ends_with_the_file(h264_clip: Path) -> None:
    """The viewer gets all of it and then its end; the next one gets all of it again."""
    async with DemoCamera(h264_clip, loop=False) as camera:
        for _ in range(2):
            seen = await watch_in_thread(camera.url, None)
            assert [picture.fingerprint for picture in seen] == decode(h264_clip)


async def test_nothing_plays_while_nobody_watches(h264_clip: Path) -> None:
    """With the last viewer the clip stops; the first one after that gets its first picture."""
    async with DemoCamera(h264_clip) as camera:
        first = await watch_in_thread(camera.url, 7)
        await until(lambda: camera.connections == 0)
        shown = camera.counts.frames
        again = await watch_in_thread(camera.url, 1)

    assert camera.counts.frames > shown
    assert again[0].fingerprint == first[0].fingerprint


async def test_viewers_that_come_and_go_leave_nothing(h264_clip: Path) -> None:
    """Twenty viewers by turns over TCP and UDP: no task and no file descriptor stays."""
    async with DemoCamera(h264_clip) as camera:
        await watch_in_thread(camera.url, 1, "udp")
        await until(lambda: camera.connections == 0)
        tasks, descriptors = len(asyncio.all_tasks()), psutil.Process().num_fds()
        for number in range(20):
            await watch_in_thread(camera.url, 1, "udp" if number % 2 else "tcp")
        await until(lambda: camera.connections == 0)

        assert camera.viewers == 0
        assert camera.counts.connections == 21
        assert len(asyncio.all_tasks()) == tasks
        assert psutil.Process().num_fds() == descriptors


async def test_closing_the_camera_cuts_its_viewers_off(h264_clip: Path) -> None:
    """Nobody keeps a camera from closing, and nothing of it stays."""
    tasks = len(asyncio.all_tasks())
    camera = DemoCamera(h264_clip)
    await camera.start()
    async with HandViewer(camera.url) as viewer:
        await viewer.play()
        await camera.close()
        assert await viewer.hears_end()

    assert camera.connections == 0
    assert len(asyncio.all_tasks()) == tasks
