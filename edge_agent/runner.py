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
from edge_agent.config import AgentConfig, ServerConfig
from edge_agent.config.file import load_to_run
from edge_agent.config.secrets import Secrets
from edge_agent.errors import AgentError
from edge_agent.result import Result
from edge_agent.results import ResultWriter
from edge_agent.service import Notifier, Service, status_line

if TYPE_CHECKING:
    from rich.console import Console

log = logging.getLogger(__name__)

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
    config, secrets = load_to_run(config_path)
    assert config.server is not None, "load_to_run demands one"  # noqa: S101
    log_output.begin()
    with contextlib.ExitStack() as outputs:
        writer = outputs.enter_context(ResultWriter(results)) if results else None
        view = _View(config.server, outputs) if table else None

        def on_result(result: Result) -> None:
            if writer is not None:
                writer.write(result)
            if view is not None:
                view.table.add(result)

        asyncio.run(_Run(config_path, config.server, on_result, view).until_stopped(config, secrets))
    _leave_hung_threads()
    return 0


class _View:
    """The live table, and the log moved above it."""

    def __init__(self, server: ServerConfig, outputs: contextlib.ExitStack) -> None:
        from edge_agent.table import LiveTable

        self.table = LiveTable(server.address)
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
        self, config_path: Path, server: ServerConfig, on_result: OnResult, view: _View | None
    ) -> None:
        self._config_path = config_path
        self._server = server
        self._on_result = on_result
        self._view = view
        self._server_status = ""
        self._stopping = asyncio.Event()
        self._reloading = asyncio.Event()

    async def until_stopped(self, config: AgentConfig, secrets: Secrets) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reloading.set)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        gateway = config.gateway.name or socket.gethostname()
        agent = Agent(self._server, self._on_result, self._tell_server_status, gateway=gateway)
        if self._view is not None:
            self._view.table.watch = agent.watch
        service = Service(Notifier.from_environment(), lambda: self._in_a_line(agent))
        try:
            await self._apply(agent, config, secrets)
            service.ready()
            while not self._stopping.is_set():
                await self._next_signal()
                if self._reloading.is_set():
                    self._reloading.clear()
                    service.reloading()
                    await self._reload(agent)
                    service.ready()
        finally:
            service.stopping()
            await agent.stop()

    async def _next_signal(self) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (self._stopping, self._reloading)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _reload(self, agent: Agent) -> None:
        """Go over to the file's present state; a file that cannot be used changes nothing."""
        try:
            # In a thread: a file on a mount that hangs is not to stop every camera.
            config, secrets = await asyncio.to_thread(load_to_run, self._config_path, may_be_empty=True)
        except AgentError as error:
            log.error("the configuration stays as it was: %s", error)  # noqa: TRY400 - a person's mistake
            return
        if config.server != self._server:
            log.warning("the server's settings have changed: they take effect when the agent starts again")
        await self._apply(agent, config, secrets)
        log.info("configuration read again: %d cameras", len(agent.cameras))

    async def _apply(self, agent: Agent, config: AgentConfig, secrets: Secrets) -> None:
        await agent.apply(config, secrets.password)
        if self._view is not None:
            self._view.table.show(agent.cameras)

    def _in_a_line(self, agent: Agent) -> str:
        statuses = [agent.watch(name)[0] for name in agent.cameras]
        return status_line([status.state for status in statuses if status], self._server_status)

    def _tell_server_status(self, status: str) -> None:
        self._server_status = status
        if self._view is not None:
            self._view.table.server_status = status


def _leave_hung_threads() -> None:
    """End the process where a capture thread hangs in a library call: it could not end by itself now."""
    if any(thread.name.startswith("capture-") for thread in threading.enumerate()):
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)
