"""Viewers for a camera: libav as most software uses it, GStreamer, and one that speaks RTSP by hand."""

import asyncio
import dataclasses
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import av

from edge_agent.rtsp.auth import Credentials
from tests.edge_agent.rtsp.clips import fingerprint
from tests.gstreamer.plugin import PYTHON

GST_VIEWER = Path(__file__).with_name("gst_viewer.py")
TIMEOUT_S = 10.0


@dataclasses.dataclass(frozen=True)
class Seen:
    """A picture as a viewer got it."""

    fingerprint: str
    pts_s: float | None
    size: tuple[int, int]


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that nobody announces."""
    async with asyncio.timeout(TIMEOUT_S):
        while not holds():  # noqa: ASYNC110 -- the camera has no event for it
            await asyncio.sleep(0.01)


def with_credentials(url: str, credentials: Credentials) -> str:
    """Put user and password into a URL, percent-encoded."""
    user, password = quote(credentials.user, safe=""), quote(credentials.password, safe="")
    return url.replace("rtsp://", f"rtsp://{user}:{password}@")


def watch(url: str, frames: int | None, transport: str = "tcp", timeout_s: float = TIMEOUT_S) -> list[Seen]:
    """Watch with libav: so many pictures, or all to the stream's end. It blocks."""
    options = {"rtsp_transport": transport, "analyzeduration": "200000"}
    seen: list[Seen] = []
    with av.open(url, options=options, timeout=(timeout_s, timeout_s)) as container:
        for frame in container.decode(video=0):
            seen.append(Seen(fingerprint(frame), frame.time, (frame.width, frame.height)))
            if len(seen) == frames:
                break
    return seen


async def watch_in_thread(
    url: str, frames: int | None, transport: str = "tcp", timeout_s: float = TIMEOUT_S
) -> list[Seen]:
    """Watch with libav while the camera runs in this event loop."""
    return await asyncio.to_thread(watch, url, frames, transport, timeout_s)


async def watch_with_gstreamer(
    url: str, frames: int, transport: str = "tcp", credentials: Credentials | None = None
) -> list[str]:
    """Watch with GStreamer's rtspsrc; gives the fingerprints of so many pictures."""
    command = [PYTHON, str(GST_VIEWER), url, str(frames), transport]
    if credentials:
        command += [credentials.user, credentials.password]
    viewer = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    output, _ = await asyncio.wait_for(viewer.communicate(), 3 * TIMEOUT_S)
    assert viewer.returncode == 0
    return output.decode().split()


@dataclasses.dataclass(frozen=True)
class Answer:
    """A response to the RTSP viewer by hand; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclasses.dataclass(frozen=True)
class RtpPacket:
    """The parts of an RTP packet that the tests look at."""

    sequence: int
    timestamp: int
    ends_picture: bool
    payload: bytes

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Take a packet without extensions apart."""
        assert data[0] == 0x80
        return cls(int.from_bytes(data[2:4]), int.from_bytes(data[4:8]), data[1] >= 0x80, data[12:])

    def h264_units(self) -> set[int]:
        """Give the NAL unit types in it, those of a fragment's or an aggregate's parts included."""
        kind = self.payload[0] & 0x1F
        if kind == 28:
            return {self.payload[1] & 0x1F}
        if kind != 24:
            return {kind}
        units, rest = set(), self.payload[1:]
        while rest:
            size = int.from_bytes(rest[:2])
            units.add(rest[2] & 0x1F)
            rest = rest[2 + size :]
        return units


class HandViewer:
    """Speaks RTSP request by request, over TCP with interleaved RTP; an async context manager."""

    def __init__(self, url: str, *, receive_buffer_bytes: int | None = None) -> None:
        self.url = url
        self.session = ""
        self._receive_buffer_bytes = receive_buffer_bytes
        self._number = 0
        self.packets: list[RtpPacket] = []
        self.reports: list[bytes] = []

    async def __aenter__(self) -> Self:
        host, _, port = self.url.removeprefix("rtsp://").partition("/")[0].rpartition(":")
        connection = socket.socket()
        if self._receive_buffer_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
        self.reader, self.writer = await asyncio.open_connection(sock=connection)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.transport.abort()

    def send(self, method: str, uri: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        """Send a request, with the session once there is one."""
        self._number += 1
        session = {"Session": self.session} if self.session else {}
        fields = {"CSeq": str(self._number), **session, **(headers or {})}
        lines = [f"{name}: {value}" for name, value in fields.items()]
        self.write("\r\n".join([f"{method} {uri or self.url} RTSP/1.0", *lines, "", ""]).encode())

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)

    async def answer(self) -> Answer:
        """Read the next response; RTP that comes before it is kept in `packets`."""
        while (first := await self.reader.readexactly(1)) == b"$":
            await self._keep_interleaved()
        head = (first + await self.reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        fields = (line.partition(":") for line in head[1:])
        headers = {name.lower(): value.strip() for name, _, value in fields}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(int(head[0].split()[1]), headers, body)

    async def ask(
        self, method: str, uri: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request and read its response."""
        self.send(method, uri, headers)
        return await asyncio.wait_for(self.answer(), TIMEOUT_S)

    async def set_up(self) -> Answer:
        """Get as far as SETUP, over TCP; takes the session."""
        wish = {"Transport": "RTP/AVP/TCP;unicast;interleaved=0-1"}
        answer = await self.ask("SETUP", f"{self.url}/trackID=0", wish)
        self.session = answer.headers["session"].partition(";")[0]
        return answer

    async def play(self) -> None:
        """Get as far as PLAY."""
        await self.set_up()
        assert (await self.ask("PLAY")).status == 200

    async def picture(self) -> list[RtpPacket]:
        """Read the packets of the next picture; those that came before an answer come first."""
        taken: list[RtpPacket] = []
        while not (taken and taken[-1].ends_picture):
            while not self.packets:
                assert await self.reader.readexactly(1) == b"$"
                await self._keep_interleaved()
            taken.append(self.packets.pop(0))
        return taken

    async def pictures(self, count: int) -> list[list[RtpPacket]]:
        """Read so many pictures."""
        return [await asyncio.wait_for(self.picture(), TIMEOUT_S) for _ in range(count)]

    async def _keep_interleaved(self) -> None:
        channel = await self.reader.readexactly(1)
        data = await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(2)))
        if channel == b"\0":
            self.packets.append(RtpPacket.parse(data))
        else:
            self.reports.append(data)

    async def hears_nothing_for(self, seconds: float) -> bool:
        """Tell whether nothing comes for a while, and the connection stays open."""
        try:
            await asyncio.wait_for(self.reader.readexactly(1), seconds)
        except TimeoutError:
            return True
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        return False

    async def hears_end(self) -> bool:
        """Tell whether the camera closes; what still comes is passed over."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while await self.reader.read(65536):
                    pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True


def sequences(pictures: Sequence[Sequence[RtpPacket]]) -> list[int]:
    """Give the sequence numbers of all packets in order."""
    return [packet.sequence for picture in pictures for packet in picture]
