"""Bytes that come one at a time: a peer that is neither silent nor of any use."""

import asyncio

DRIP_INTERVAL_S = 0.05
MOST_BYTES = 1 << 16
"""What waits at most; the rest is discarded."""


class Drip:
    """Writes to a connection a byte at a time, and goes on for ever: after its last byte with spaces."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.transport = writer.transport
        self._writer = writer
        self._waiting = bytearray()
        self._task = asyncio.create_task(self._run())

    def write(self, data: bytes) -> None:
        """Take bytes."""
        self._waiting += data[: MOST_BYTES - len(self._waiting)]

    def close(self) -> None:
        """Let go of the connection, which is the session's."""
        self._task.cancel()

    async def _run(self) -> None:
        while not self.transport.is_closing():
            self._writer.write(bytes(self._waiting[:1]) or b" ")
            del self._waiting[:1]
            await asyncio.sleep(DRIP_INTERVAL_S)
