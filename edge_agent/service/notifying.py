"""The agent as systemd sees it: ready, what it is doing in a line, alive, reading again, stopping.

The messages are datagrams to the socket that systemd names in NOTIFY_SOCKET (sd_notify(3)). Where there is
none, everything here does nothing.
"""

import asyncio
import faulthandler
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping

from edge_agent.errors import one_line
from edge_agent.state import CameraState

log = logging.getLogger(__name__)

TICK_S = 1.0
# How often the watchdog is fed, as a share of the time that it allows.
FEEDS = 4


class Notifier:
    """Sends systemd its messages; never waits, and never fails: whoever reads them is not worth a camera."""

    def __init__(self, address: str | None, watchdog_s: float | None = None) -> None:
        """Send to a Unix socket (an abstract one begins with ``@``); None sends nowhere."""
        self.watchdog_s = watchdog_s
        """Within how many seconds systemd expects to be told that the agent is alive; None for never."""
        self._socket: socket.socket | None = None
        if address:
            self._address = "\0" + address[1:] if address.startswith("@") else address
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)

    @classmethod
    def from_environment(cls) -> "Notifier":
        """Take what systemd has set; no program that this one starts is to find it."""
        address = os.environ.pop("NOTIFY_SOCKET", None)
        watchdog_us = os.environ.pop("WATCHDOG_USEC", "")
        meant_for = os.environ.pop("WATCHDOG_PID", "")
        meant = watchdog_us.isdecimal() and meant_for in ("", str(os.getpid()))
        return cls(address, int(watchdog_us) / 1e6 if meant and int(watchdog_us) else None)

    @property
    def listens(self) -> bool:
        """Whether there is anybody to tell."""
        return self._socket is not None

    def send(self, **assignments: str | int) -> bool:
        """Send assignments, as in ``send(READY=1)``; False where systemd has no room for them now."""
        if self._socket is not None:
            message = "\n".join(f"{key}={value}" for key, value in assignments.items())
            try:
                self._socket.sendto(message.encode(), self._address)
            except OSError:
                return False
        return True

    def close(self) -> None:
        """Send nothing any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Service:
    """Tells systemd how the agent does; use it in the event loop.

    The watchdog is fed by progress: by a task in the event loop, and only when every one of `parts` has moved
    since it was last fed. A loop that hangs, or a part that has died, is so found out; a machine under load,
    or cameras that are down, are not: these move, if slowly.
    """

    def __init__(
        self,
        notifier: Notifier,
        status: Callable[[], str],
        parts: Mapping[str, Callable[[], object]] | None = None,
    ) -> None:
        """Take what to tell.

        Args:
            notifier: where to.
            status: gives the agent's status in a line, without any password.
            parts: by name, functions that give another value each time their part has moved.

        """
        self._notifier = notifier
        self._status = status
        self._parts = dict(parts or {})
        self._told = ""
        # A READY that got lost would have the service killed as one that never started.
        self._owes_ready = False
        self._seen = {name: value() for name, value in self._parts.items()}
        self._moved: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def ready(self) -> None:
        """Tell that the agent is up, or that it has read its configuration again."""
        if not self._notifier.listens:
            return
        self._told = self._line()
        self._owes_ready = not self._notifier.send(READY=1, STATUS=self._told)
        if self._task is None:
            # What the watchdog's SIGABRT finds is worth knowing: all threads' stacks go to standard error.
            faulthandler.enable()
            self._task = asyncio.create_task(self._go_on_telling(), name="service")

    def reloading(self) -> None:
        """Tell that the configuration is being read again; `ready` ends it."""
        self._notifier.send(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)

    def stopping(self) -> None:
        """Tell that the agent ends; nothing is told after this."""
        if self._task is not None:
            self._task.cancel()
        self._notifier.send(STOPPING=1, STATUS="stopping")
        self._notifier.close()

    async def _go_on_telling(self) -> None:
        watchdog_s = self._notifier.watchdog_s
        feed_s = watchdog_s / FEEDS if watchdog_s else None
        fed_s = time.monotonic()
        while True:
            if self._owes_ready:
                self._owes_ready = not self._notifier.send(READY=1, STATUS=self._told)
            self._tell_status()
            self._look_for_progress()
            is_due = feed_s is not None and time.monotonic() - fed_s >= feed_s
            if is_due and self._moved >= set(self._parts) and self._notifier.send(WATCHDOG=1):
                self._moved.clear()
                fed_s = time.monotonic()
            await asyncio.sleep(min(TICK_S, feed_s / 2) if feed_s else TICK_S)

    def _tell_status(self) -> None:
        line = self._line()
        if line != self._told and self._notifier.send(STATUS=line):
            self._told = line

    def _line(self) -> str:
        try:
            return one_line(self._status())
        except Exception:
            log.exception("the status cannot be told")
            return "running; the status cannot be told"

    def _look_for_progress(self) -> None:
        for name, value in self._parts.items():
            seen = value()
            if seen != self._seen[name]:
                self._seen[name] = seen
                self._moved.add(name)


def status_line(cameras: Iterable[CameraState], server: str, waiting_records: int | None = None) -> str:
    """Put the agent's status into a line: ``12 of 14 cameras streaming; server connected``.

    Args:
        cameras: the states of the cameras that are to run.
        server: ``connected``, or ``not connected`` and why.
        waiting_records: how many records the server has not acknowledged; None where there are none.

    """
    states = list(cameras)
    streaming = sum(state is CameraState.STREAMING for state in states)
    noun = "camera" if len(states) == 1 else "cameras"
    parts = [f"{streaming} of {len(states)} {noun} streaming" if states else "no camera"]
    parts.append(f"server {server or 'not connected yet'}")
    if waiting_records is not None:
        parts.append(f"{waiting_records} {'record' if waiting_records == 1 else 'records'} waiting")
    return "; ".join(parts)
