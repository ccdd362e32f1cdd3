"""`edge-agent run`: the agent until SIGTERM or Ctrl-C; SIGHUP reads the configuration again."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edge_agent import log as log_output
from edge_agent.agent import Agent
from edge_agent.config import reading
from edge_agent.config.places import Places, places_of
from edge_agent.config.reading import Reading
from edge_agent.control.handler import AgentHandler
from edge_agent.control.place import lock, make_directories
from edge_agent.control.server import ControlSocket
from edge_agent.errors import ConfigError, without_text
from edge_agent.file_thread import FileThread
from edge_agent.live import LiveConfiguration
from edge_agent.result import Result
from edge_agent.results import ResultWriter
from edge_agent.service.notifying import Notifier, Service, status_line
from edge_agent.snapshot import ServerStatus, Snapshots
from edge_agent.spool.spool import Spool

if TYPE_CHECKING:
    from rich.console import Console

log = logging.getLogger(__name__)

SPOOL_NAME = "spool.db"
KEPT_NAME = "last-good.toml"

OnResult = Callable[[Result], None]


def run(config_path: Path, results: str | None, table: bool) -> int:
    """Run every enabled camera until told to stop.

    Args:
        config_path: the configuration file.
        results: a file for JSON Lines, ``-`` for standard output, None for none.
        table: whether to draw the live table on the terminal.

    Returns:
        The exit code.

    Raises:
        AgentError: the configuration, or the results' file, cannot be used.

    """
    # Until the event loop takes it over: the file is about to be read anyway.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    first, error = _first_reading(config_path)
    log_output.begin()
    if error:
        log.error("with the configuration that was in use before: %s", error)
    with contextlib.ExitStack() as outputs:
        places = _own_places(config_path, outputs)
        writer = outputs.enter_context(ResultWriter(results)) if results else None
        view = _View(outputs) if table else None
        on_result = writer.write if writer is not None else _nobody
        asyncio.run(_Run(config_path, first, on_result, view, places, error).until_stopped())
    _leave_hung_threads()
    return 0


def _first_reading(config_path: Path) -> tuple[Reading, str]:
    """Read the configuration; where that cannot be used, as it was last, and why that is so.

    Raises:
        ConfigError: it cannot be used, and none was in use before.

    """
    try:
        return reading.read(config_path), ""
    except ConfigError as error:
        try:
            # A mistake, or what a power cut left of the file, is no reason to leave the cameras alone.
            return reading.read_kept(config_path, places_of(config_path).state / KEPT_NAME), str(error)
        except ConfigError:
            raise error from None


def _own_places(config_path: Path, outputs: contextlib.ExitStack) -> Places | None:
    """Make the agent's directories and take their lock; None where they cannot be made: it runs without.

    Raises:
        RunningAlreadyError: another agent runs with this configuration.

    """
    places = places_of(config_path)
    try:
        make_directories(places)
        outputs.callback(os.close, lock(places))
    except OSError as error:
        # A file system that is full or read-only is no reason to leave the cameras alone.
        log.error("%s: %s: no control socket and no lock", places.state, error.strerror)  # noqa: TRY400
        return None
    return places


def _nobody(_: Result) -> None:
    """Nobody wants the results."""


class _View:
    """The live table, and the log moved above it."""

    def __init__(self, outputs: contextlib.ExitStack) -> None:
        from edge_agent.table import LiveTable

        self.table = LiveTable()
        outputs.enter_context(self.table)
        root = logging.getLogger()
        handlers, root.handlers = root.handlers, [_rich_handler(self.table.console)]
        outputs.callback(setattr, root, "handlers", handlers)


def _rich_handler(console: "Console") -> logging.Handler:
    from rich.logging import RichHandler

    handler = RichHandler(console=console, show_path=False, log_time_format="%Y-%m-%d %H:%M:%S")
    handler.setFormatter(logging.Formatter("%(message)s"))
    return handler


class _Run:
    """One run in its event loop."""

    def __init__(
        self,
        config_path: Path,
        first: Reading,
        on_result: OnResult,
        view: _View | None,
        places: Places | None,
        error: str,
    ) -> None:
        assert first.config.server is not None, "a reading has one"  # noqa: S101
        self._view = view
        self._places = places
        self._server = ServerStatus()
        self._stopping = asyncio.Event()
        self._reloading = asyncio.Event()
        self._files = FileThread()
        # The disk may be away: then records wait in memory, and go up from there.
        state = places.state if places is not None else places_of(config_path).state
        self._live = LiveConfiguration(config_path, first, self._files, self._apply, state / KEPT_NAME, error)
        self._spool = Spool.open(state / SPOOL_NAME, first.config.gateway.spool_mb << 20)
        self._agent = Agent(
            first.config.server,
            on_result,
            self._server.tell,
            self._spool.put,
            gateway=_gateway_name(first),
            authorities=first.authorities,
        )
        self._snapshots = Snapshots(self._agent, self._live, self._server, self._spool, _gateway_name(first))

    async def until_stopped(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reloading.set)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        if self._view is not None:
            self._view.table.take = self._snapshots.take
        service = Service(Notifier.from_environment(), self._in_a_line, {"cameras": self._agent.rounds})
        control = await self._listening()
        following = asyncio.create_task(self._live.follow(), name="configuration")
        obeying = asyncio.create_task(self._read_on_request(service), name="reading again")
        self._agent.upload(self._spool, self._snapshots.gateway)
        try:
            await self._apply(self._live.current)
            service.ready()
            await self._stopping.wait()
        finally:
            service.stopping()
            following.cancel()
            obeying.cancel()
            if control is not None:
                await control.close()
            self._files.close()
            await self._agent.stop()
            await asyncio.to_thread(self._spool.close)

    async def _listening(self) -> ControlSocket | None:
        if self._places is None:
            return None
        handler = AgentHandler(self._live, self._snapshots.take, self._spool.put)
        control = ControlSocket(self._places, handler)
        try:
            await control.start()
        except OSError as error:
            log.error("%s: %s: no control socket", self._places.socket, error.strerror)  # noqa: TRY400
            return None
        return control

    async def _read_on_request(self, service: Service) -> None:
        """Obey SIGHUP; beside the wait for the end, for files may hang."""
        while True:
            await self._reloading.wait()
            self._reloading.clear()
            service.reloading()
            try:
                await self._live.read_again()
            except Exception as error:  # noqa: BLE001 - a fault of ours: the next one is obeyed all the same
                log.error("reading the configuration again: %s", without_text(error))  # noqa: TRY400
            service.ready()

    async def _apply(self, new: Reading) -> None:
        assert new.config.server is not None, "a reading has one"  # noqa: S101
        self._snapshots.gateway = _gateway_name(new)
        self._agent.use(new.config.server, new.authorities, self._snapshots.gateway)
        self._spool.resize(new.config.gateway.spool_mb << 20)
        await self._agent.apply(new.config, new.secrets.password)

    def _in_a_line(self) -> str:
        states = [runner.status.state for runner in self._agent.cameras.values() if runner.camera.enabled]
        return status_line(states, self._server.text, self._spool.status().waiting)


def _gateway_name(found: Reading) -> str:
    return found.config.gateway.name or socket.gethostname()


def _leave_hung_threads() -> None:
    """End the process where a capture thread hangs in a library call: it could not end by itself now."""
    if any(thread.name.startswith(("capture-", "hung-")) for thread in threading.enumerate()):
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)
