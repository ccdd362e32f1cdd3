"""The agent's end of the control socket: few connections, each with one request of bounded size and time."""

import asyncio
import contextlib
import json
import logging
import os
import socket
import struct
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from edge_agent.config.places import Places
from edge_agent.config.rules import BadValueError
from edge_agent.control.place import bound, directory
from edge_agent.control.protocol import MAX_REQUEST_BYTES, error_data
from edge_agent.errors import AgentError, without_text

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 16
# So that those who watch leave room for those who change something.
MAX_WATCHING = 8
# Whoever connects and says nothing, or does not read, is left.
REQUEST_PATIENCE_S = 5.0
ANSWER_PATIENCE_S = 5.0
OBEY_PATIENCE_S = 15.0
WATCH_PERIOD_S = 1.0
# Of what is not read yet; beyond it a write waits.
BUFFER_BYTES = 1 << 16


class Handler(Protocol):
    """What the agent does on request."""

    def status(self) -> dict[str, Any]:
        """Give the status as plain values for JSON."""

    async def obey(self, command: str, request: dict[str, Any], who: str) -> dict[str, Any]:
        """Do what is asked for; raises AgentError or BadValueError."""


class ControlSocket:
    """Listens where the agent's configuration has it; use it in the event loop."""

    def __init__(self, places: Places, handler: Handler) -> None:
        self._places = places
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[Any]] = set()
        self._watching = 0

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._connections)

    async def start(self) -> None:
        """Take connections; raises OSError where it cannot be listened."""
        listener = bound(self._places)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=MAX_REQUEST_BYTES)

    async def close(self) -> None:
        """End, and leave no socket behind."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        with contextlib.suppress(OSError), directory(self._places.socket.parent) as folder:
            os.unlink(self._places.socket.name, dir_fd=folder)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        is_one_too_many = len(self._connections) >= MAX_CONNECTIONS
        self._connections.add(task)
        writer.transport.set_write_buffer_limits(BUFFER_BYTES)
        try:
            if is_one_too_many:
                await _write(
                    writer, error_data(AgentError(f"{MAX_CONNECTIONS} connections are open already"))
                )
            else:
                async with contextlib.aclosing(self._answers(reader, writer)) as answers:
                    async for answer in answers:
                        await _write(writer, answer)
        except (TimeoutError, OSError):
            pass
        except asyncio.CancelledError:
            pass  # the agent ends; nothing waits for this task
        except Exception as error:  # noqa: BLE001
            log.error("control socket: %s", without_text(error))  # noqa: TRY400
        finally:
            self._connections.discard(task)
            # Not wait_closed: whoever does not read would keep the task.
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> AsyncGenerator[dict[str, Any], None]:
        try:
            async with asyncio.timeout(REQUEST_PATIENCE_S):
                line = await reader.readline()
            if not line:
                return
            request = _parsed(line)
        except ValueError as error:
            yield error_data(AgentError(str(error)))
            return
        command = request.get("command")
        if command == "status" and request.get("watch") is True:
            async for status in self._watched(reader):
                yield status
        elif command == "status":
            yield self._handler.status()
        elif isinstance(command, str):
            try:
                async with asyncio.timeout(OBEY_PATIENCE_S):
                    # Once begun it is brought to its end, whether anybody waits for it or not.
                    answer = await asyncio.shield(self._handler.obey(command, request, _who(writer)))
            except (AgentError, BadValueError) as error:
                answer = error_data(error)
            except TimeoutError:
                answer = error_data(AgentError(f"not done within {OBEY_PATIENCE_S:g} s; it may still be"))
            except Exception as error:  # noqa: BLE001 - one request's fault is nobody else's
                log.error("control socket: %s", without_text(error))  # noqa: TRY400
                answer = error_data(error)
            yield answer
        else:
            yield error_data(AgentError("found no command"))

    async def _watched(self, reader: asyncio.StreamReader) -> AsyncGenerator[dict[str, Any], None]:
        if self._watching >= MAX_WATCHING:
            yield error_data(AgentError(f"{MAX_WATCHING} are watching already"))
            return
        self._watching += 1
        try:
            while True:
                yield self._handler.status()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(WATCH_PERIOD_S):
                        # Nothing more is expected; what comes is the end of the connection.
                        await reader.read(1)
                        return
        finally:
            self._watching -= 1


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("found no JSON") from None
    if not isinstance(request, dict):
        raise ValueError("found no JSON object")  # noqa: TRY004 - said to the other side
    return request


async def _write(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")
    async with asyncio.timeout(ANSWER_PATIENCE_S):
        await writer.drain()


def _who(writer: asyncio.StreamWriter) -> str:
    """Say who is at the other end, as the kernel knows it."""
    connection: socket.socket = writer.get_extra_info("socket")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", found)
    return f"user {uid} (process {pid})"
