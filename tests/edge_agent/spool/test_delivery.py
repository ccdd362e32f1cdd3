"""Gateway, link and server die again and again while records flow: each arrives, once, in its order."""

import contextlib
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, ServerProgram
from tests.edge_agent.spool.spools import number_of
from tests.link import Link
from tests.polling import wait_until

PROGRAM = Path(__file__).with_name("gateway_program.py")
# Numbers of a gateway's start begin at a multiple of this.
START = 1_000_000


class Trial:
    """A gateway, a link that can be cut, and a server that keeps records."""

    def __init__(self, folder: Path, start_server: Callable[..., ServerProgram], rate: int) -> None:
        self._folder = folder
        self._rate = rate
        self._options = ("--detector", "simulated:1", "--data", str(folder / "data"))
        self._start_server = start_server
        self.server = start_server(*self._options)
        self.link = Link(self.server.address)
        self.last_seen: list[int] = []
        self._start_gateway()

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self.link.__exit__()

    def restart_gateway(self) -> None:
        """Kill it and start it again."""
        self.kill_gateway()
        self._start_gateway()

    def _start_gateway(self) -> None:
        self.last_seen.append(len(self.last_seen) * START - 1)
        self._process = self._run(self.last_seen[-1] + 1, self._rate)

    def _run(self, first: int, rate: int) -> "subprocess.Popen[str]":
        spool = str(self._folder / "spool.db")
        command = [sys.executable, str(PROGRAM), spool, self.link.address, str(first), str(rate)]
        environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'proto'}", "PATH": "/usr/bin:/bin"}
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def kill_gateway(self) -> None:
        """Kill it, and note the last record that it has said to be on its disk."""
        self._process.send_signal(signal.SIGKILL)
        output, _ = self._process.communicate()
        lines = [line for line in output.splitlines(keepends=True) if line.endswith("\n")]
        self.last_seen[-1] = int(lines[-1]) if lines else self.last_seen[-1]

    def restart_server(self) -> None:
        """Kill it and start it again where it was."""
        self.server.kill()
        self.server = self._start_server(*self._options, listen=self.server.address)

    def cut(self) -> None:
        """Cut the link for a moment."""
        self.link.cut()
        time.sleep(0.05)
        self.link.mend()

    def lose_acknowledgements(self) -> None:
        """Let records arrive and be stored, and no acknowledgement come back, until the link is cut."""
        self.link.hold_down()
        time.sleep(0.3)
        self.cut()

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        address = f"{(self._folder / 'data' / 'records.db').as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as db:
            return db.execute(query).fetchall()

    def records(self) -> list[int]:
        """Give the numbers of all records of the server, in the order of their arrival."""
        return [number_of(body) for (body,) in self._ask("SELECT body FROM record ORDER BY id")]

    def count(self) -> int:
        """Count them; the file may not be there yet."""
        try:
            return int(self._ask("SELECT COUNT(*) FROM record")[0][0])
        except sqlite3.OperationalError:
            return 0

    def wait_for_more(self) -> None:
        """Wait until records arrive."""
        before = self.count()
        wait_until(lambda: self.count() > before, "records arrive", 30.0)

    def finish(self) -> None:
        """Let everything that waits be uploaded, then check what there is."""
        self.kill_gateway()
        self._process = self._run(0, 0)
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0
        numbers = self.records()
        assert len(numbers) == len(set(numbers)), "a record is there twice"
        for start, last in enumerate(self.last_seen):
            arrived = [number for number in numbers if number // START == start]
            # All up to some point, in order; and at least what was known to be on the disk.
            assert arrived == list(range(start * START, start * START + len(arrived)))
            assert start * START + len(arrived) > last, "a record that was on the disk is lost"
        assert numbers == sorted(numbers)
        assert len(numbers) > 100


def trial(folder: Path, start_server: Callable[..., ServerProgram], events: list[str], rate: int) -> None:
    draw = random.Random(len(events))
    draw.shuffle(events)
    with Trial(folder, start_server, rate) as chaos:
        deaths = {
            "gateway": chaos.restart_gateway,
            "server": chaos.restart_server,
            "cut": chaos.cut,
            "acks": chaos.lose_acknowledgements,
        }
        chaos.wait_for_more()
        for event in events:
            time.sleep(draw.random() * 0.2)
            deaths[event]()
            if event != "cut" or draw.random() < 0.3:
                chaos.wait_for_more()
        chaos.finish()


def test_each_record_arrives_once_in_order_whatever_dies(tmp_path: Path, start_server) -> None:
    """Ten cuts, and the gateway, the server and acknowledgements lost twice each."""
    events = 10 * ["cut"] + 2 * ["gateway", "server", "acks"]
    trial(tmp_path, start_server, events, rate=1000)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_deaths(tmp_path: Path, start_server) -> None:
    """Forty cuts, and thirty times each of the others."""
    trial(tmp_path, start_server, 40 * ["cut"] + 30 * ["gateway", "server", "acks"], rate=2000)
