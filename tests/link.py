"""A TCP link that can be cut, held up in either direction, and mended: a proxy of its own thread."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any

CHUNK_BYTES = 16 << 10


class Link:
    """Forwards connections to an address; as a context manager it ends itself.

    Attributes:
        address: where to connect to.
        up_bytes, down_bytes: what has been carried to and from the far end.

    """

    def __init__(self, far: str) -> None:
        self._far = far
        self.up_bytes = 0
        self.down_bytes = 0
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._is_up = True
        self._may_go_down = asyncio.Event()
        self._may_go_down.set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="link", daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._accept, "127.0.0.1", 0))
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"

    def __enter__(self) -> "Link":
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._server.close()
        self._do(asyncio.sleep(0.05))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    def cut(self) -> None:
        """End every connection at once and take no new ones."""
        self._do(self._cut())

    def mend(self) -> None:
        """Take connections again, in both directions."""
        self._is_up = True
        self._loop.call_soon_threadsafe(self._may_go_down.set)

    def hold_down(self) -> None:
        """Let nothing come back from the far end, while all goes up."""
        self._do(self._hold_down())

    async def _hold_down(self) -> None:
        self._may_go_down.clear()

    async def _cut(self) -> None:
        self._is_up = False
        for writer in self._open:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_up:
            writer.transport.abort()
            return
        host, _, port = self._far.rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._open |= ends
        try:
            await asyncio.wait(
                (
                    asyncio.create_task(self._carry(reader, far_writer, up=True)),
                    asyncio.create_task(self._carry(far_reader, writer, up=False)),
                ),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            self._open -= ends
            for end in ends:
                end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if up:
                    self.up_bytes += len(data)
                else:
                    await self._may_go_down.wait()
                    self.down_bytes += len(data)
                writer.write(data)
                await writer.drain()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10.0)
