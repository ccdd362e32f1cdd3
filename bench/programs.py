"""The project's programs and a camera, started for a measure and ended after it."""

import contextlib
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from bench.usage import Usage

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
WALKERS = ROOT / "tests" / "media" / "walkers.mp4"
GSTREAMER_CAMERA = ROOT / "tests" / "gstreamer" / "gst_rtsp_server.py"
REFERENCE = ROOT / "reference_server" / "build" / "reference-server"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
# Of what a program has said before it ended.
MOST_SAID = 500
# What is started ends with the measure, even if that is killed (of util-linux; it becomes the program).
TIED = ("setpriv", "--pdeathsig", "KILL", "--")


class Started:
    """A program with its first line of interest read; as a context manager it ends with the block.

    Raises:
        RuntimeError: it ended, or said nothing of interest in time; with what it said instead.

    """

    def __init__(self, pattern: str, *command: str | Path) -> None:
        self._command = " ".join(map(str, command))
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the program
        self.process = subprocess.Popen(
            (*TIED, *command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
            cwd=ROOT,
        )
        try:
            self.said = self._wait_for(pattern)
        except BaseException:
            self.kill()
            raise

    def _wait_for(self, pattern: str) -> str:
        patience = threading.Timer(START_TIMEOUT_S, self.process.kill)
        patience.start()
        try:
            for line in self.process.stdout or ():
                if match := re.search(pattern, line):
                    return match[1]
        finally:
            patience.cancel()
        self.process.wait(STOP_TIMEOUT_S)
        raise RuntimeError(f"{self._command}: no line {pattern!r}; it said: {self._complaint()}")

    def check(self, patience_s: float = 0) -> None:
        """See that it still runs, and goes on doing so for a while.

        Raises:
            RuntimeError: it has ended; with the last that it said.

        """
        if patience_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)
        if (code := self.process.poll()) is not None:
            raise RuntimeError(f"{self._command}: ended with code {code}; it said: {self._complaint()}")

    def _complaint(self) -> str:
        self._errors.seek(0)
        return " ".join(self._errors.read()[-MOST_SAID:].split()) or "nothing"

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def usage(self) -> Usage:
        """What it uses, with the processes that it started."""
        return Usage(self.process.pid)

    def processor_s(self) -> float:
        """Give the processor time used so far, user and system."""
        return self.usage.processor_s()

    def tell(self, line: str = "") -> None:
        """Write a line to its standard input."""
        if self.process.stdin is not None:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def stop(self) -> None:
        """End it, gently first."""
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        finally:
            self._close()

    def kill(self) -> None:
        """End it at once, as a power cut would, with the processes that it started."""
        self._end_at_once()
        self._close()

    def last_lines(self) -> list[str]:
        """End it at once, and give the lines that it has printed since its start and nobody has read."""
        self._end_at_once()
        return self.process.stdout.readlines() if self.process.stdout is not None else []

    def _end_at_once(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self.process.pid).children(recursive=True):
                process.kill()
        self.process.kill()
        self.process.wait()

    def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                # What was not written yet has no reader any more.
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._errors.close()


def server(*options: str, listen: str = "127.0.0.1:0") -> Started:
    """Start a central server; `said` is its address."""
    return Started(r"listening (\S+)", BIN / "central-server", "serve", "--listen", listen, *options)


def reference_server(*options: str) -> Started:
    """Start the C++ reference server; `said` is its address.

    Raises:
        RuntimeError: it is not built.

    """
    if not REFERENCE.exists():
        raise RuntimeError(f"no {REFERENCE.relative_to(ROOT)}: build it with `make reference`")
    return Started(r"listening (\S+)", REFERENCE, "--listen", "127.0.0.1:0", *options)


def module(pattern: str, name: str, *options: str) -> Started:
    """Start a module of the bench as a program of its own."""
    return Started(pattern, sys.executable, "-m", name, *options)


def gstreamer_camera(*options: str, port: str = "0") -> Started:
    """Start GStreamer's RTSP server; `said` is its port."""
    return Started(r"ready (\d+)", "/usr/bin/python3", GSTREAMER_CAMERA, *options, "--port", port)


def edge_agent(config: Path, *arguments: str) -> None:
    """Run a command of the agent."""
    subprocess.run([BIN / "edge-agent", "--config", config, *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def running_agent(config: Path, results: Path) -> Iterator[Usage]:
    """Run the agent with its results in a file."""
    process = subprocess.Popen(
        [*TIED, BIN / "edge-agent", "--config", config, "--log-level", "warning", "run", "--results", results]
    )
    try:
        yield Usage(process.pid)
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


def read_results(path: Path) -> list[dict[str, Any]]:
    """Give the records that are written so far."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def wait_for_results(path: Path, count: int, timeout_s: float) -> list[dict[str, Any]]:
    """Wait for so many detected frames; fewer come back when time runs out."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        records = read_results(path)
        if (
            sum(record["outcome"] == "detected" for record in records) >= count
            or time.monotonic() > deadline_s
        ):
            return records
        time.sleep(0.05)
