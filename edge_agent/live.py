"""A running agent's configuration: read again when its files change, changed on request, always whole."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from edge_agent.config import reading
from edge_agent.config.change import Change, perform
from edge_agent.config.reading import Marks, Reading
from edge_agent.errors import AgentError, ConfigError, without_text
from edge_agent.file_thread import FileThread

log = logging.getLogger(__name__)

# A change is taken in when two looks in a row have found the same: within twice this.
LOOK_PERIOD_S = 0.4
# What cannot be used may become so with nothing to be seen of it: its mode, its disk, the authorities' file.
RETRY_PERIOD_S = 5.0


class LiveConfiguration:
    """Takes one change after the other, wherever it comes from; lives in the event loop.

    Attributes:
        current: what is in effect.
        error: why the files, as they are now, are not; empty while they are.
        read_s: when what is in effect was read, by time.monotonic().
        read_unix_s: the same in seconds since the Unix epoch.

    """

    def __init__(
        self,
        path: Path,
        first: Reading,
        files: FileThread,
        on_change: Callable[[Reading], Awaitable[None]],
        kept: Path,
        error: str = "",
    ) -> None:
        """Begin with `first`; `kept` is where a copy of what is in effect stays, for a start without it.

        `error` is why `first` is that copy already.
        """
        self.path = path
        self.current = first
        self.error = error
        self._kept = kept
        self.read_s, self.read_unix_s = time.monotonic(), time.time()
        self._files = files
        self._on_change = on_change
        self._lock = asyncio.Lock()
        self._seen = first.marks
        self._tried_s = time.monotonic()

    async def change(self, change: Change) -> None:
        """Write a change to the files and put it into effect.

        Raises:
            AgentError: it cannot be written; what is in effect stays.
            BadValueError: a value in it may not be.

        """
        async with self._lock:
            await self._files.do(perform, self.path, change)
            try:
                await self._take()
            except AgentError as error:
                raise ConfigError(f"it is written, and not in effect: {error}") from None

    async def read_again(self, *, is_retry: bool = False) -> None:
        """Put the files' present state into effect; what cannot be used is told in the log."""
        async with self._lock:
            try:
                await self._take(is_retry=is_retry)
            except AgentError:
                return
        log.info("configuration read again: %d cameras", len(self.current.config.cameras))

    async def follow(self) -> None:
        """Follow the files until cancelled."""
        pending: Marks | None = None
        if not self.error:
            await self._keep()
        while True:
            await asyncio.sleep(LOOK_PERIOD_S)
            try:
                marks = await self._look()
                is_retry_due = bool(self.error) and time.monotonic() >= self._tried_s + RETRY_PERIOD_S
                if marks == self._seen and not is_retry_due:
                    pending = None
                elif marks in (pending, self._seen):
                    await self.read_again(is_retry=marks == self._seen)
                    pending = None
                else:
                    pending = marks
            except Exception as error:  # noqa: BLE001 - a fault of ours: they are followed all the same
                log.error("following the configuration: %s", without_text(error))  # noqa: TRY400

    async def _take(self, *, is_retry: bool = False) -> None:
        # What changes after this look is found by the next one.
        self._seen = await self._look()
        self._tried_s = time.monotonic()
        try:
            new = await self._files.do(reading.read, self.path, before=self.current)
            await self._on_change(new)
        except AgentError as error:
            if not is_retry or str(error) != self.error:
                self._tell(str(error))
            raise
        self._tell("")
        self.read_s, self.read_unix_s = time.monotonic(), time.time()
        self.current, self._seen = new, new.marks
        await self._keep()

    async def _keep(self) -> None:
        try:
            await self._files.do(reading.keep, self.path, self._kept, self.current.config)
        except AgentError as error:  # the files hang: there are graver things, and they are told
            log.debug("no copy of the configuration is kept: %s", error)

    async def _look(self) -> Marks:
        server = self.current.config.server
        return await self._files.do(reading.look, self.path, server.ca if server is not None else None)

    def _tell(self, problem: str) -> None:
        if problem:
            log.error("the configuration stays as it was: %s", problem)
        elif self.error:
            log.info("the configuration is in order again")
        self.error = problem
