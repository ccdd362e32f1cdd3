"""What is left when something ends too early: no figures of a dead server, no program of a dead bench."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bench import programs
from bench.load import offer
from bench.programs import ROOT, Started
from bench.servers.run import run
from bench.servers.variants import Variant, Work
from tests.polling import wait_until
from tests.processes import has_ended

# Says that it listens, and has nothing there.
GONE = "import sys; print('listening 127.0.0.1:9', flush=True); sys.exit('out of memory')"


def test_a_server_that_ends_under_the_load_has_no_figures() -> None:
    def start(work: Work) -> Started:
        server = programs.server("--detector", work.detector)
        threading.Timer(2.5, server.process.kill).start()
        return server

    with pytest.raises(RuntimeError, match=r"central-server serve .* ended with code -9"):
        run(Variant("central", "central server", start), Work(0), 2, 5.0)


def test_a_server_that_has_ended_tells_why_nobody_reaches_it() -> None:
    with (
        Started(r"listening (\S+)", sys.executable, "-c", GONE) as server,
        pytest.raises(RuntimeError, match="ended with code 1; it said: out of memory"),
    ):
        offer(server, 1, duration_s=0.1, connect_timeout_s=0.5)


def test_a_program_that_runs_has_no_complaint() -> None:
    with Started(r"(ready)", sys.executable, "-m", "bench.spinner", "0.01") as spinner:
        spinner.check()


@pytest.mark.parametrize("kind", ["freezing", "deaf", "leaving"])
def test_a_client_that_misbehaves_tells_how_often(kind: str) -> None:
    def counted() -> bool:
        return int((client.process.stdout or iter(())).readline()) > 1  # type: ignore[union-attr]

    with (
        programs.server("--detector", "simulated:0") as server,
        programs.module(r"(ready)", "bench.misbehaving", kind, server.said) as client,
    ):
        client.tell()
        wait_until(counted, "it counts")
        assert all(int(line) > 1 for line in client.last_lines())


def command_line(process: psutil.Process) -> str:
    """Give it in one line; empty for one that has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.fixture
def peers() -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """Run `bench peers` until its client misbehaves; gives it, and all that it has started."""
    command = [sys.executable, "-m", "bench", "peers", "--quick", "--cameras", "1"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as bench:

        def children() -> list[psutil.Process]:
            return psutil.Process(bench.pid).children(recursive=True)

        def has_begun() -> bool:
            lines = [command_line(child) for child in children()]
            return all(
                any(name in line for line in lines)
                for name in ("central-server serve", "bench.misbehaving", "capacity.load")
            )

        try:
            wait_until(has_begun, "it measures", 60)
            yield bench, children()
        finally:
            bench.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_ends_a_bench_ends_all_that_it_has_started(
    peers: tuple[subprocess.Popen[bytes], list[psutil.Process]], number: signal.Signals
) -> None:
    bench, started = peers
    bench.send_signal(number)
    code = bench.wait(30)

    assert code == (-number if number is signal.SIGKILL else 128 + number)
    # The load ends by itself in any case, after its seconds.
    wait_until(lambda: all(map(has_ended, started)), "all have ended", 30)


def test_a_report_is_kept_before_the_next_is_measured(tmp_path: Path) -> None:
    """A measure that is broken off loses only what was not measured."""
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench", "servers", "--quick", "--only", "central", "--json", str(file)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as bench:
        wait_until(file.exists, "the first report is written", 60)
        os.kill(bench.pid, signal.SIGTERM)

    kept = json.loads(file.read_text())["reports"]
    assert kept[0]["title"].startswith("as published")
    assert len(kept) < 4
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
