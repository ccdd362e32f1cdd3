"""The camera as a program uses it, and the clip that comes with the package."""

import asyncio
from pathlib import Path

import av
import pytest

import edge_agent
from edge_agent.errors import AgentError
from edge_agent.rtsp.auth import Credentials
from edge_agent.rtsp.camera import DemoCamera, serve
from edge_agent.rtsp.clip import Clip, ClipError
from tests.edge_agent.rtsp.viewers import watch_in_thread, with_credentials

WALKERS = Path(edge_agent.__file__).parent / "media" / "walkers.mp4"


async def test_serve_tells_where_it_listens_and_serves_until_cancelled(h264_clip: Path) -> None:
    """The URL has the real port; afterwards nobody listens there."""
    credentials = Credentials(user="viewer", password="secret", scheme="basic")
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(h264_clip, "127.0.0.1", 0, auth=credentials, on_listening=listening.set_result)
    )
    url = await listening
    assert len(await watch_in_thread(with_credentials(url, credentials), 3)) == 3

    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    with pytest.raises(av.error.ConnectionRefusedError):
        await watch_in_thread(url, 1)


async def test_a_port_in_use(h264_clip: Path) -> None:
    """One line with the address; the camera that has the port goes on."""
    async with DemoCamera(h264_clip) as camera:
        with pytest.raises(
            AgentError, match=rf"^cannot listen on 127\.0\.0\.1:{camera.port}: Address already in use$"
        ):
            await DemoCamera(h264_clip, port=camera.port).start()
        assert len(await watch_in_thread(camera.url, 1)) == 1


async def test_an_address_that_is_not_this_machines(h264_clip: Path) -> None:
    """One line with the address."""
    with pytest.raises(
        AgentError, match=r"^cannot listen on 192\.0\.2\.1:0: Cannot assign requested address$"
    ):
        await DemoCamera(h264_clip, host="192.0.2.1").start()


async def test_a_file_that_cannot_be_served_is_told_at_the_start(tmp_path: Path) -> None:
    """Not when the first viewer comes."""
    with pytest.raises(ClipError):
        await DemoCamera(tmp_path / "gone.mp4").start()


async def test_a_camera_comes_back_on_its_port(h264_clip: Path) -> None:
    """As one that lost power does."""
    async with DemoCamera(h264_clip) as camera:
        port = camera.port
        await watch_in_thread(camera.url, 1)
    async with DemoCamera(h264_clip, port=port) as camera:
        assert len(await watch_in_thread(camera.url, 1)) == 1


async def test_ipv6(h264_clip: Path) -> None:
    """Over TCP and UDP; the URL has the brackets."""
    async with DemoCamera(h264_clip, host="::1") as camera:
        assert camera.url == f"rtsp://[::1]:{camera.port}/live"
        for transport in ("tcp", "udp"):
            assert len(await watch_in_thread(camera.url, 2, transport)) == 2


def test_the_packaged_clip_is_small_and_gives_a_picture_every_second() -> None:
    """Eleven seconds at 10 fps, a keyframe every ten pictures, no reordering, at most 2 MB."""
    units = list(Clip(WALKERS).play(loop=False))

    assert [number for number, unit in enumerate(units) if unit.is_keyframe] == list(range(0, 110, 10))
    assert [unit.decode_s for unit in units] == pytest.approx([number / 10 for number in range(110)])
    assert WALKERS.stat().st_size <= 2_000_000
    with av.open(WALKERS) as container:
        assert (container.streams.video[0].width, container.streams.video[0].height) == (768, 576)
