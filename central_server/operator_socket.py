"""A Unix socket for the operator of this machine: one JSON object a line, asked and answered; bounded.

Asked `{"command": "wish", "gateway": NAME or null, "camera": NAME, "fps": 2}` (or `"watched": true`, or
`"masks": [[[x, y], …], …]`), it answers `{"gateway": NAME, "told": AGENTS}`. Asked `{"command": "gateways"}`,
it answers a line for each agent that watches, then `{"end": true}`. What cannot be done is `{"error": TEXT}`.
"""

import asyncio
import contextlib
import errno
import json
import logging
import os
import socket
import time
from pathlib import Path
from typing import Any

from central_server.errors import ListenError
from central_server.wish import FrameRate, Masks, Viewing, Wish, polygons_from
from central_server.wishes import Watcher, WishError, Wishes

log = logging.getLogger(__name__)

# Masks at their largest, as JSON.
MAX_LINE_BYTES = 256 * 1024
MAX_CONNECTIONS = 8
# Whoever connects and says nothing, or does not read, is left.
PATIENCE_S = 10.0
MAX_NAME_CHARS = 128
MAX_CAMERAS_SHOWN = 1000


class OperatorSocket:
    """Listens at a path, for the owner of the process alone."""

    def __init__(self, path: Path, wishes: Wishes) -> None:
        self._path = path
        self._wishes = wishes
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    def bind(self) -> None:
        """Take the path; what a server that was killed has left there is replaced.

        Raises:
            ListenError: another server listens there, or it cannot be listened there.

        """
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._remove_stale()
            before = os.umask(0o177)
            try:
                bound.bind(str(self._path))
            finally:
                os.umask(before)
        except OSError as error:
            bound.close()
            raise ListenError(f"--control {self._path}: {error.strerror or error}") from error
        bound.setblocking(False)
        self._socket = bound

    async def start(self) -> None:
        """Take connections."""
        assert self._socket is not None, "bind() comes first"  # noqa: S101
        self._server = await asyncio.start_unix_server(self._serve, sock=self._socket, limit=MAX_LINE_BYTES)

    async def close(self) -> None:
        """End, and leave nothing behind."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
            self._path.unlink(missing_ok=True)

    def _remove_stale(self) -> None:
        if not self._path.is_socket():
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
            trial.settimeout(1.0)
            try:
                trial.connect(str(self._path))
            except ConnectionRefusedError:
                self._path.unlink(missing_ok=True)
                return
        raise OSError(errno.EADDRINUSE, "another server listens there")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        refused = len(self._connections) >= MAX_CONNECTIONS
        self._connections.add(task)
        try:
            async with asyncio.timeout(PATIENCE_S):
                if refused:
                    _write(writer, {"error": f"{MAX_CONNECTIONS} connections are open already"})
                else:
                    await self._answer(reader, writer)
                await writer.drain()
        except TimeoutError:
            # What it does not read would be kept for it, and the connection with it.
            writer.transport.abort()
        except ConnectionError:
            pass
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                _write(writer, {"error": f"found a line longer than {MAX_LINE_BYTES} bytes"})
                return
            if not line:
                return
            try:
                answers = self._obey(json.loads(line))
            except (WishError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
                answers = [{"error": _reason(error)}]
            for answer in answers:
                _write(writer, answer)
                await writer.drain()

    def _obey(self, asked: Any) -> list[dict[str, Any]]:
        if not isinstance(asked, dict):
            raise TypeError("found no JSON object")
        match asked.get("command"):
            case "wish":
                camera, wish = _name(asked["camera"], "camera"), _wish_from(asked)
                gateway = None if asked.get("gateway") is None else _name(asked["gateway"], "gateway")
                gateway, told = self._wishes.wish(gateway, camera, wish)
                log.info(
                    "wished of camera %r of gateway %r: %s; told %d", camera, gateway, _shown(wish), told
                )
                return [{"gateway": gateway, "told": told}]
            case "gateways":
                return [*(_described(watcher) for watcher in self._wishes.watchers), {"end": True}]
            case _:
                raise ValueError("found no command that is known, expected wish or gateways")


def _write(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    if isinstance(error, RecursionError | json.JSONDecodeError | UnicodeDecodeError):
        return "found no JSON"
    return str(error)


def _name(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARS:
        raise ValueError(f"{what}: expected text of at most {MAX_NAME_CHARS} characters")
    return value


def _wish_from(asked: dict[str, Any]) -> Wish:
    given = [key for key in ("fps", "watched", "masks") if key in asked]
    if len(given) != 1:
        raise ValueError("expected one of fps, watched and masks")
    value = asked[given[0]]
    match given[0]:
        case "fps":
            return FrameRate(float(value))
        case "watched":
            if not isinstance(value, bool):
                raise TypeError("watched: expected true or false")
            return Viewing(value)
        case _:
            return Masks(polygons_from(value))


def _shown(wish: Wish) -> str:
    match wish:
        case FrameRate():
            return f"{wish.frames_per_second:g} frames a second" if wish.stands else "its own rate"
        case Viewing():
            return "someone is watching" if wish.watched else "nobody is watching"
        case Masks():
            return f"{len(wish.polygons)} regions to ignore"


def _described(watcher: Watcher) -> dict[str, Any]:
    cameras = sorted(watcher.cameras)
    return {
        "gateway": watcher.gateway,
        "agent_version": watcher.agent_version,
        "cameras": cameras[:MAX_CAMERAS_SHOWN],
        "since": watcher.since.isoformat(timespec="seconds"),
        "for_s": round(time.monotonic() - watcher.since_s, 1),
        "peer": watcher.peer,
    }
