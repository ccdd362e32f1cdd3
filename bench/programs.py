"""The project's programs and a camera, started for a measure and ended after it."""

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
WALKERS = ROOT / "tests" / "media" / "walkers.mp4"
GSTREAMER_CAMERA = ROOT / "tests" / "gstreamer" / "gst_rtsp_server.py"
START_TIMEOUT_S = 60.0


class Started:
    """A program with its first line of interest read; as a context manager it ends with the block."""

    def __init__(self, pattern: str, *command: str | Path) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
        )
        output = self.process.stdout
        if output is None:
            raise RuntimeError("no pipe to read from")
        for line in output:
            if match := re.search(pattern, line):
                self.said = match[1]
                return
        raise RuntimeError(f"{command} ended without a line {pattern!r}")

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def usage(self) -> psutil.Process:
        """The process, to be asked for memory and processor time."""
        return psutil.Process(self.process.pid)

    def processor_s(self) -> float:
        """Give the processor time used so far, user and system."""
        times = self.usage.cpu_times()
        return float(times.user + times.system)

    def stop(self) -> None:
        """End it, gently first."""
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self.process.kill()
        self.process.wait()


def server(*options: str, listen: str = "127.0.0.1:0") -> Started:
    """Start a central server; `said` is its address."""
    return Started(r"listening (\S+)", BIN / "central-server", "serve", "--listen", listen, *options)


def gstreamer_camera(*options: str, port: str = "0") -> Started:
    """Start GStreamer's RTSP server; `said` is its port."""
    return Started(r"ready (\d+)", "/usr/bin/python3", GSTREAMER_CAMERA, *options, "--port", port)


def edge_agent(config: Path, *arguments: str) -> None:
    """Run a command of the agent."""
    subprocess.run([BIN / "edge-agent", "--config", config, *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def running_agent(config: Path, results: Path) -> Iterator[psutil.Process]:
    """Run the agent with its results in a file."""
    process = subprocess.Popen(
        [BIN / "edge-agent", "--config", config, "--log-level", "warning", "run", "--results", results]
    )
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(15)


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
