"""What systemd is told, received as systemd does: datagrams on a real socket."""

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from edge_agent.service.notifying import Notifier, Service, status_line
from edge_agent.state import CameraState

WATCHDOG_S = 0.2


class Systemd:
    """The receiving end of NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)

    def told(self) -> list[dict[str, str]]:
        """Give the messages that came since the last time."""
        messages = []
        while True:
            try:
                text = self._socket.recv(65536).decode()
            except BlockingIOError:
                return messages
            messages.append(dict(line.split("=", 1) for line in text.splitlines()))

    async def next(self, key: str) -> str:
        """Wait for a message that has this key; gives its value."""
        while True:
            for message in self.told():
                if key in message:
                    return message[key]
            await asyncio.sleep(0.01)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    """Listen where a service's messages go."""
    listening = Systemd(tmp_path / "notify")
    yield listening
    listening.close()


def service_of(systemd: Systemd, **parts: "itertools.count[int]") -> Service:
    """Make a service with parts that move whenever they are looked at."""
    moving = {name: count.__next__ for name, count in parts.items()}
    return Service(Notifier(str(systemd.path), WATCHDOG_S), lambda: "all is well", moving)


async def test_ready_reloading_and_stopping_are_told_in_their_turn(systemd: Systemd) -> None:
    """With the status at the beginning, and nothing more after the end."""
    service = service_of(systemd)

    service.ready()
    service.reloading()
    service.ready()
    service.stopping()
    service.ready()

    first, second, third, last = systemd.told()
    assert first == {"READY": "1", "STATUS": "all is well"}
    assert second["RELOADING"] == "1"
    assert second["MONOTONIC_USEC"].isdecimal()
    assert third["READY"] == "1"
    assert last["STOPPING"] == "1"


async def test_a_status_that_changes_is_told_once(systemd: Systemd) -> None:
    """In one line, whatever is in it."""
    status = "one"
    service = Service(Notifier(str(systemd.path), WATCHDOG_S), lambda: status)
    service.ready()
    status = "two\nWATCHDOG=1"

    assert await systemd.next("STATUS") == "one"
    assert await systemd.next("STATUS") == "two WATCHDOG=1"
    await systemd.next("WATCHDOG")
    assert not [message for message in systemd.told() if "STATUS" in message]
    service.stopping()


async def test_what_systemd_has_no_room_for_is_told_later(systemd: Systemd) -> None:
    """At a busy start its socket is full: that the agent is up, and how, is not lost."""
    status = "starting"
    service = Service(Notifier(str(systemd.path), WATCHDOG_S), lambda: status)
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as others:
        others.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                others.sendto(b"OTHER=1", str(systemd.path))
    service.ready()
    status = "all is well"
    await asyncio.sleep(WATCHDOG_S)

    assert {key for message in systemd.told() for key in message} == {"OTHER"}
    told: list[dict[str, str]] = []
    async with asyncio.timeout(20):
        while not any(message.get("STATUS") == "all is well" for message in told):
            told += systemd.told()
            await asyncio.sleep(0.01)
    assert told[0] == {"READY": "1", "STATUS": "starting"}
    service.stopping()


async def test_the_watchdog_is_fed_while_every_part_moves(systemd: Systemd) -> None:
    """Again and again."""
    service = service_of(systemd, cameras=itertools.count(), others=itertools.count())
    service.ready()

    for _ in range(3):
        assert await systemd.next("WATCHDOG") == "1"
    service.stopping()


async def test_a_part_that_stands_still_starves_the_watchdog(systemd: Systemd) -> None:
    """Although the event loop and the other part go on."""
    service = service_of(systemd, cameras=itertools.count(), others=itertools.repeat(7))  # type: ignore[arg-type]
    service.ready()

    await asyncio.sleep(3 * WATCHDOG_S)

    assert not [message for message in systemd.told() if "WATCHDOG" in message]
    service.stopping()


async def test_a_status_that_fails_is_no_reason_to_die(systemd: Systemd) -> None:
    """The watchdog is fed all the same."""

    def broken() -> str:
        raise ValueError

    service = Service(Notifier(str(systemd.path), WATCHDOG_S), broken)
    service.ready()

    await systemd.next("WATCHDOG")
    service.stopping()


async def test_without_systemd_nothing_is_told_or_started() -> None:
    """And nothing runs for it."""
    service = Service(Notifier(None), lambda: "unseen")
    service.ready()
    service.reloading()

    assert [task for task in asyncio.all_tasks() if task.get_name() == "service"] == []
    service.stopping()


async def test_nobody_who_listens_is_no_error(systemd: Systemd) -> None:
    """A socket that has gone."""
    systemd.close()
    systemd.path.unlink()
    service = service_of(systemd)

    service.ready()
    service.stopping()


def test_the_environment_is_taken_and_not_handed_on(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As sd_notify(3) has it; a watchdog that is another process's is not ours."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(systemd.path))
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    with closing(Notifier.from_environment()) as ours:
        assert ours.watchdog_s == 30.0
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & set(os.environ)

    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    with closing(Notifier.from_environment()) as others:
        assert others.watchdog_s is None


def test_an_abstract_socket_is_reached() -> None:
    """Its name begins with a zero byte, written as @."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0camera-ai-test-{os.getpid()}")
        with closing(Notifier(f"@camera-ai-test-{os.getpid()}")) as notifier:
            notifier.send(READY=1)

        assert listening.recv(100) == b"READY=1"


@pytest.mark.parametrize(
    ("states", "server", "waiting", "line"),
    [
        ([], "", None, "no camera; server not connected yet"),
        (
            [CameraState.STREAMING],
            "connected",
            1,
            "1 of 1 camera streaming; server connected; 1 record waiting",
        ),
        (
            [CameraState.STREAMING] * 12 + [CameraState.OFFLINE, CameraState.STALLED],
            "connected",
            3,
            "12 of 14 cameras streaming; server connected; 3 records waiting",
        ),
        (
            [CameraState.CONNECTING, CameraState.SLOW],
            "not connected: refused",
            0,
            "0 of 2 cameras streaming; server not connected: refused; 0 records waiting",
        ),
    ],
)
def test_the_status_is_a_line(states: list[CameraState], server: str, waiting: int | None, line: str) -> None:
    """Cameras, server, records."""
    assert status_line(states, server, waiting) == line
