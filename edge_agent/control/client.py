"""The commands' end of the control socket: light, so that they answer at once."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edge_agent.config.file import SYSTEM_PATH
from edge_agent.config.places import Places, places_of
from edge_agent.control.place import directory, short_path
from edge_agent.control.protocol import (
    MAX_ANSWER_BYTES,
    MAX_REQUEST_BYTES,
    NoAccessError,
    NoAgentError,
    error_from,
)
from edge_agent.errors import AgentError

CONNECT_TIMEOUT_S = 2.0
ANSWER_TIMEOUT_S = 20.0


def ask(config_path: Path, request: dict[str, Any], timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
    """Ask the running agent of a configuration; gives its one answer.

    Raises:
        NoAgentError: none runs.
        NoAccessError: its socket is not for this user.
        AgentError: it does not answer, or refuses: the error is the one that it had.
        BadValueError: likewise, for a value.

    """
    return next(answers(config_path, request, timeout_s))


def answers(
    config_path: Path, request: dict[str, Any], timeout_s: float = ANSWER_TIMEOUT_S
) -> Iterator[dict[str, Any]]:
    """Ask, and give one answer after the other, each within the timeout; raises as `ask`."""
    places = places_of(config_path)
    line = json.dumps(request).encode() + b"\n"
    if len(line) > MAX_REQUEST_BYTES:
        raise AgentError(f"too much for one request to the running agent: {len(line)} bytes")
    with _connected(config_path) as connection:
        try:
            connection.settimeout(timeout_s)
            connection.sendall(line)
            yield from _read(connection, places, timeout_s)
        except TimeoutError:
            raise AgentError(
                f"{places.socket}: the agent did not answer within {timeout_s:g} s; whether it did what was"
                " asked for is not known"
            ) from None
        except OSError as error:
            raise NoAgentError(f"{places.socket}: the agent has ended: {error.strerror}") from None


def _read(connection: socket.socket, places: Places, timeout_s: float) -> Iterator[dict[str, Any]]:
    buffer = b""
    deadline_s = time.monotonic() + timeout_s
    while True:
        connection.settimeout(max(0.01, deadline_s - time.monotonic()))
        received = connection.recv(1 << 16)
        buffer += received
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            answer = _answer(line, places)
            if "error" in answer:
                raise error_from(answer)
            yield answer
            deadline_s = time.monotonic() + timeout_s
        if not received:
            raise NoAgentError(f"{places.socket}: the agent has ended")
        if len(buffer) > MAX_ANSWER_BYTES:
            raise AgentError(f"{places.socket}: found an answer of more than {MAX_ANSWER_BYTES} bytes")


def _answer(line: bytes, places: Places) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        answer = json.loads(line)
        if isinstance(answer, dict):
            return answer
    raise AgentError(f"{places.socket}: found no JSON object in the answer")


@contextlib.contextmanager
def _connected(config_path: Path) -> Iterator[socket.socket]:
    places = places_of(config_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(CONNECT_TIMEOUT_S)
        try:
            with directory(places.socket.parent) as folder:
                connection.connect(short_path(folder, places.socket.name))
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            raise NoAgentError(
                f"no agent runs: nobody listens at {places.socket}{_hint(config_path)}"
            ) from None
        except PermissionError:
            raise NoAccessError(f"{places.socket}: not for this user; {who_may(places)}") from None
        except TimeoutError:
            raise AgentError(f"{places.socket}: the agent takes no connections") from None
        except OSError as error:
            raise NoAgentError(f"{places.socket}: {error.strerror}") from None
        yield connection


def _hint(config_path: Path) -> str:
    """Say where the system's own agent is asked, if another was meant."""
    with contextlib.suppress(OSError):
        if config_path != SYSTEM_PATH and places_of(SYSTEM_PATH).socket.exists():
            return f"; the system's agent is asked with --config {SYSTEM_PATH}"
    return ""


def who_may(places: Places) -> str:
    """Say in words who may reach a socket."""
    import grp
    import pwd

    for path in (places.socket, places.socket.parent):
        try:
            found = os.stat(path)  # noqa: PTH116 - beside its kin
        except OSError:
            continue
        with contextlib.suppress(KeyError):
            group = grp.getgrgid(found.st_gid).gr_name
            owner = pwd.getpwuid(found.st_uid).pw_name
            if found.st_mode & 0o070:
                return f"it is for {owner} and the group {group}: use sudo, or be added to the group"
            return f"it is for {owner} alone"
    return "it is for its owner"
