"""The control socket over a real Unix socket: its place, its modes, and whoever is at the other end."""

import asyncio
import contextlib
import json
import os
import re
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edge_agent.config.change import SetCamera, to_data
from edge_agent.config.places import Places, places_of
from edge_agent.config.rules import BadValueError
from edge_agent.control import place, server
from edge_agent.control.client import answers, ask
from edge_agent.control.place import RunningAlreadyError, lock, make_directories
from edge_agent.control.protocol import MAX_REQUEST_BYTES, NoAgentError, error_data, error_from
from edge_agent.control.server import MAX_CONNECTIONS, MAX_WATCHING, ControlSocket
from edge_agent.errors import AgentError, ConfigError, NamesTakenError, NotAllowedError, UsageError
from tests.polling import until


class Handler:
    """At our own seam: answers, fails, or takes its time."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any], str]] = []
        self.ended: list[str] = []
        self.fails_with: Exception | None = None
        self.takes_s = 0.0
        self.size_bytes = 0

    def status(self) -> dict[str, Any]:
        return {"cameras": [], "padding": "x" * self.size_bytes}

    async def obey(self, command: str, request: dict[str, Any], who: str) -> dict[str, Any]:
        self.asked.append((command, request, who))
        await asyncio.sleep(self.takes_s)
        if self.fails_with:
            raise self.fails_with
        self.ended.append(command)
        return {"done": command}


class Rig:
    """A control socket beside a configuration."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.places = places_of(config)
        make_directories(self.places)
        self.handler = Handler()
        self.control = ControlSocket(self.places, self.handler)

    async def ask(self, **request: Any) -> dict[str, Any]:
        return await asyncio.to_thread(ask, self.config, request)

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.places.socket))
        connection.settimeout(10.0)
        return connection


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path / "agent.toml")
    await rig.control.start()
    yield rig
    await rig.control.close()


async def test_asked_and_answered(rig: Rig) -> None:
    """One request a connection; who asks is told by the kernel."""
    assert await rig.ask(command="status") == {"cameras": [], "padding": ""}
    assert await rig.ask(command="change", change={"x": 1}) == {"done": "change"}

    command, request, who = rig.handler.asked[-1]
    assert (command, request["change"]) == ("change", {"x": 1})
    assert who == f"user {os.getuid()} (process {os.getpid()})"


async def test_it_is_for_its_owner_alone(rig: Rig) -> None:
    """Directory and socket; it is gone with the agent."""
    assert stat.S_IMODE(rig.places.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(rig.places.socket.parent.stat().st_mode) == 0o700
    await rig.control.close()

    assert not rig.places.socket.exists()
    with pytest.raises(NoAgentError, match="no agent runs: nobody listens at "):
        ask(rig.config, {"command": "status"})


async def test_the_systems_is_for_its_group_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the umask of the service is."""
    monkeypatch.setattr(place, "SYSTEM_RUNTIME", tmp_path)
    before = os.umask(0o077)
    try:
        place.bound(Places(tmp_path, tmp_path / "control.sock")).close()
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "control.sock").stat().st_mode) == 0o660


async def test_a_long_path_and_what_a_killed_agent_left(tmp_path: Path) -> None:
    """Longer than a socket's address may be; a socket that nobody listens at is replaced."""
    folder = tmp_path
    while len(str(folder)) < 300:
        folder /= "a-long-name-of-a-folder-" * 3
    folder.mkdir(parents=True)
    rig = Rig(folder / "agent.toml")
    await rig.control.start()
    left = ControlSocket(rig.places, rig.handler)
    await left.start()

    assert await rig.ask(command="status")
    await left.close()
    await rig.control.close()


def test_one_agent_for_one_configuration(tmp_path: Path) -> None:
    """The second is refused with the first one's process; what a killed one has left is no lock."""
    places = places_of(tmp_path / "agent.toml")
    make_directories(places)
    first = lock(places)
    with pytest.raises(RunningAlreadyError, match=rf"runs .* already \(process {os.getpid()}\)"):
        lock(places)
    os.close(first)
    os.close(lock(places))


def test_nobody_listens(tmp_path: Path) -> None:
    """No directory, a directory without a socket, a file in its place, a socket of a dead process."""
    config = tmp_path / "agent.toml"
    places = places_of(config)
    for make in (
        lambda: None,
        lambda: make_directories(places),
        lambda: places.socket.write_text(""),
        lambda: _left_socket(places),
    ):
        make()
        with pytest.raises(NoAgentError):
            ask(config, {"command": "status"})


def _left_socket(places: Places) -> None:
    places.socket.unlink()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(places.socket))


@pytest.mark.parametrize(
    "error",
    [
        BadValueError("fps", "found 7"),
        UsageError("a password needs a user"),
        ConfigError("x:1:1: bad"),
        NotAllowedError("x: cannot be written"),
        NamesTakenError(Path("/etc/x"), ["a", "b"]),
        AgentError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_is_raised_as_it_would_be_here(rig: Rig, error: Exception) -> None:
    """Its kind, its text and its key."""
    rig.handler.fails_with = error
    with pytest.raises(type(error)) as raised:
        await rig.ask(command="change")

    assert type(raised.value) is type(error)
    assert str(raised.value) == str(error)
    assert getattr(raised.value, "key", None) == getattr(error, "key", None)
    assert getattr(raised.value, "names", None) == getattr(error, "names", None)


async def test_an_error_that_is_not_expected_tells_nothing(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """A library's text may hold anything: the type alone, and the connection ends."""
    rig.handler.fails_with = RuntimeError("rtsp://u:canary@h/")
    with pytest.raises(AgentError, match=r"^internal error: RuntimeError$"):
        await rig.ask(command="change")
    assert "control socket: RuntimeError" in caplog.text
    assert "canary" not in caplog.text
    assert error_data(RuntimeError("canary")) == {"error": "internal error: RuntimeError", "kind": "agent"}
    assert type(error_from({"error": "new", "kind": "of a later version"})) is AgentError


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"nonsense\n",
        b"[" * 50_000 + b"\n",
        b'"status"\n',
        b"{}\n",
        b'{"command": 7}\n',
        b"\xff\xfe\n",
        b"x" * (MAX_REQUEST_BYTES + 1) + b"\n",
    ],
    ids=lambda line: repr(line[:20]),
)
async def test_whatever_is_said_is_answered(rig: Rig, line: bytes) -> None:
    """With an error, and the next one is served as ever."""
    with rig.connect() as connection:

        def talk() -> bytes:
            with contextlib.suppress(ConnectionError):
                connection.sendall(line)
            with contextlib.suppress(ConnectionError), connection.makefile("rb") as file:
                return file.readline()
            return b""

        said = await asyncio.to_thread(talk)

    # One that says far too much may be cut off before it reads.
    assert not said or "error" in json.loads(said)
    assert await rig.ask(command="status")


async def test_those_who_say_nothing_are_left(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as may be connected: one more is refused, and soon there is room again."""
    monkeypatch.setattr(server, "REQUEST_PATIENCE_S", 0.5)
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(rig.connect()) for _ in range(MAX_CONNECTIONS)]
        with pytest.raises(AgentError, match="connections are open already"):
            await rig.ask(command="status")
        await asyncio.sleep(1.0)
        assert await rig.ask(command="status")
        assert [await asyncio.to_thread(connection.recv, 1) for connection in silent] == [b""] * len(silent)


async def test_those_who_do_not_read_are_left(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they have asked for is not kept for them."""
    monkeypatch.setattr(server, "ANSWER_PATIENCE_S", 0.3)
    monkeypatch.setattr(server, "WATCH_PERIOD_S", 0.01)
    rig.handler.size_bytes = 1 << 18
    with rig.connect() as deaf:
        deaf.sendall(b'{"command": "status", "watch": true}\n')
        await until(lambda: rig.control.connections == 1, "the connection")
        await until(lambda: rig.control.connections == 0, "its end")


async def test_watching_goes_on_until_somebody_leaves(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One status after the other; those who watch leave room for others, and are forgotten once they go."""
    monkeypatch.setattr(server, "WATCH_PERIOD_S", 0.05)
    watch = {"command": "status", "watch": True}

    def first(count: int) -> list[dict[str, Any]]:
        following = answers(rig.config, watch)
        found = [next(following) for _ in range(count)]
        following.close()
        return found

    assert len(await asyncio.to_thread(first, 3)) == 3
    await until(lambda: rig.control.connections == 0, "the watcher is gone")
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_WATCHING):
            stack.enter_context(rig.connect()).sendall(json.dumps(watch).encode() + b"\n")
        await until(lambda: rig.control.connections == MAX_WATCHING, "all watch")
        with pytest.raises(AgentError, match=re.escape(f"{MAX_WATCHING} are watching already")):
            await asyncio.to_thread(first, 1)
        assert await rig.ask(command="status")


async def test_a_change_is_brought_to_its_end(rig: Rig) -> None:
    """Whoever asked for it may have gone."""
    rig.handler.takes_s = 0.3
    request = {"command": "change", "change": to_data(SetCamera("door", {"fps": 3}))}
    with rig.connect() as connection:
        connection.sendall(json.dumps(request).encode() + b"\n")
        await until(lambda: rig.handler.asked, "the request")
    await until(lambda: rig.handler.ended == ["change"], "its end")


async def test_an_agent_that_hangs_is_not_waited_for(rig: Rig) -> None:
    """The command says that it does not know what became of it."""
    rig.handler.takes_s = 5.0
    with pytest.raises(AgentError, match=r"did not answer within 0\.3 s; whether it did"):
        await asyncio.to_thread(ask, rig.config, {"command": "change"}, 0.3)
