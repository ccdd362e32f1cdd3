"""Capturing over TLS, from cameras whose certificates nobody has signed."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
import simplejpeg
import trustme

from edge_agent.rtsp.auth import Credentials
from edge_agent.rtsp.camera import DemoCamera
from tests.edge_agent.capture.conftest import MakeClip, ServeDemo, Watch
from tests.edge_agent.capture.mjpeg_server import MjpegCamera, serving


@pytest.fixture(scope="module")
def certificate() -> ssl.SSLContext:
    """Give a server's side of TLS with a certificate that the system does not know."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


@asynccontextmanager
async def behind_tls(port: int, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Take TLS off in front of a port; gives the port where it is spoken."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    server = await asyncio.start_server(take, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_rtsps(
    watch: Watch, demo_camera: ServeDemo, make_clip: MakeClip, certificate: ssl.SSLContext
) -> None:
    """RTSP and RTP go through the one connection, also where UDP was asked for, and so does the password."""
    clip = make_clip("tls.mp4", "libx264", fps=25, tune="zerolatency", g="5")
    credentials = Credentials(user="yard", password="p@s:/?")
    async with (
        DemoCamera(clip, credentials=credentials) as camera,
        behind_tls(camera.port, certificate) as port,
    ):
        watcher = watch(f"rtsps://127.0.0.1:{port}/live", "p@s:/?", user="yard", transport="udp")
        await asyncio.to_thread(watcher.wait_for_frames, 5)
        assert await asyncio.to_thread(watcher.capture.stop, 5.0)


async def test_https(watch: Watch, certificate: ssl.SSLContext) -> None:
    """Multipart MJPEG over TLS is passed on untouched."""
    picture = simplejpeg.encode_jpeg(np.zeros((48, 64, 3), np.uint8))
    with serving(MjpegCamera([picture])) as camera:
        async with behind_tls(camera.port, certificate) as port:
            watcher = watch(f"https://127.0.0.1:{port}/video")
            await asyncio.to_thread(watcher.wait_for_frames, 3)
            assert await asyncio.to_thread(watcher.capture.stop, 5.0)

    assert watcher.frames[0].image_data == picture
