"""A video file as a live RTSP camera: for trying things without one, and for the tests."""

import asyncio
import functools
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from edge_agent.errors import AgentError
from edge_agent.rtsp.auth import Credentials
from edge_agent.rtsp.broadcast import Broadcast
from edge_agent.rtsp.clip import Clip
from edge_agent.rtsp.counts import CameraCounts
from edge_agent.rtsp.faults import Faults
from edge_agent.rtsp.messages import MAX_HEAD_BYTES, format_response
from edge_agent.rtsp.session import STREAM_PATH, Session

MAX_CONNECTIONS = 64

_HEALTHY = Faults()


async def serve(
    path: Path,
    host: str,
    port: int,
    *,
    auth: Credentials | None,
    loop: bool = True,
    on_listening: Callable[[str], None],
) -> None:
    """Serve a video file as a camera until cancelled; `on_listening` gets the URL, with the real port.

    Raises ClipError when the file cannot be served, AgentError when the address cannot be listened on.
    """
    async with DemoCamera(path, host=host, port=port, credentials=auth, loop=loop) as camera:
        on_listening(camera.url)
        await asyncio.Event().wait()


class DemoCamera:
    """An RTSP camera whose picture is a video file, in the running event loop; an async context manager.

    It plays while somebody watches, at the file's own pace and from its beginning for the first viewer;
    others join at the next keyframe. With `loop` it goes on for ever, its timestamps too; without, every
    viewer's stream ends with the file. `faults` may be replaced at any time: those of a connection hold for
    connections made from then on, those of the clip (parameter sets, timestamps, switch) are as at the start.
    """

    def __init__(
        self,
        path: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        credentials: Credentials | None = None,
        loop: bool = True,
        session_timeout_s: int = 60,
        faults: Faults = _HEALTHY,
    ) -> None:
        self.faults = faults
        self.counts = CameraCounts()
        self._path = path
        self._address = (host, port)
        self._credentials = credentials
        self._loop = loop
        self._session_timeout_s = session_timeout_s
        self._broadcast: Broadcast | None = None
        self._server: asyncio.Server | None = None
        self._sessions: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Look at the file and listen; raises ClipError, or AgentError when the address is not to be had."""
        clip = await asyncio.to_thread(Clip, self._path, self.faults.parameter_sets)
        broadcast = Broadcast(clip, loop=self._loop, faults=self.faults, counts=self.counts)
        accept = functools.partial(self._accept, broadcast)
        host, port = self._address
        try:
            self._server = await asyncio.start_server(accept, host, port, limit=MAX_HEAD_BYTES)
        except OSError as error:
            # asyncio wraps the system's word in a sentence of its own; a name that is not known has none.
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise AgentError(f"cannot listen on {host}:{port}: {reason}") from None
        self._broadcast = broadcast

    async def close(self) -> None:
        """Cut every connection and stop listening."""
        if self._server is None or self._broadcast is None:
            return
        self._server.close()
        sessions = tuple(self._sessions)
        for session in sessions:
            session.cancel()
        await asyncio.gather(*sessions, return_exceptions=True)
        await self._broadcast.close()
        await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def port(self) -> int:
        """The port it listens on; only while it does."""
        if self._server is None or not self._server.sockets:
            raise RuntimeError("the camera is not listening")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """Where to watch it, without credentials."""
        host = self._address[0]
        return f"rtsp://{f'[{host}]' if ':' in host else host}:{self.port}{STREAM_PATH}"

    @property
    def viewers(self) -> int:
        """How many watch now."""
        return self._broadcast.viewers if self._broadcast else 0

    @property
    def connections(self) -> int:
        """How many RTSP connections are open now."""
        return len(self._sessions)

    def _accept(
        self, broadcast: Broadcast, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if len(self._sessions) >= MAX_CONNECTIONS:
            writer.write(format_response(503, {}))
            writer.close()
            return
        self.counts.connections += 1
        session = Session(
            reader,
            writer,
            broadcast,
            credentials=self._credentials,
            timeout_s=self._session_timeout_s,
            faults=self.faults,
        )
        task = asyncio.create_task(session.run())
        self._sessions.add(task)
        task.add_done_callback(self._sessions.discard)
