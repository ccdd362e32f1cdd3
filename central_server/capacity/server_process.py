"""A central server as a child process, and what it uses."""

import contextlib
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from central_server.errors import ServerError

# Loading a large model for each of many workers takes its time.
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0
LISTENING = re.compile(rb"^listening (\S+)$", re.MULTILINE)
MAX_LOG_BYTES = 64 << 10


class ServerProcess:
    """`central-server serve` on a free port of loopback; ends with the `with` block, or with its thread.

    Raises:
        ServerError: it does not start; with the line that it said itself.

    """

    def __init__(self, *options: str) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "central_server.capacity.child",
                "serve",
                "--listen",
                "127.0.0.1:0",
                *options,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._folder = Path("/proc") / str(self._process.pid)
        try:
            self.address = self._wait_for_address()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def processor_s(self) -> float:
        """Give the processor time used so far, user and system, of all threads."""
        # The name before it, in brackets, may hold anything.
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_bytes(self) -> int:
        """Give the most resident memory since the start, or since `reset_peak`."""
        match = re.search(r"^VmHWM:\s+(\d+) kB$", (self._folder / "status").read_text(), re.MULTILINE)
        return int(match[1]) * 1024 if match else 0

    def reset_peak(self) -> None:
        """Count the peak from now on, where the system lets us."""
        with contextlib.suppress(OSError):
            (self._folder / "clear_refs").write_text("5")

    def check(self) -> None:
        """See that it still runs.

        Raises:
            ServerError: it has ended, with its last line.

        """
        if self._process.poll() is not None:
            raise ServerError(f"the server under measure has ended: {self._last_line()}")

    def stop(self) -> None:
        """End it, gently first."""
        try:
            self._process.terminate()
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._log.close()

    def _wait_for_address(self) -> str:
        out = self._process.stdout
        assert out is not None, "a pipe was asked for"  # noqa: S101
        said, deadline_s = b"", time.monotonic() + START_TIMEOUT_S
        while not (match := LISTENING.search(said)):
            ready, _, _ = select.select([out], [], [], max(0.0, deadline_s - time.monotonic()))
            if not ready:
                raise ServerError(f"the server under measure does not listen within {START_TIMEOUT_S:g} s")
            part = os.read(out.fileno(), 4096)
            if not part:
                self._process.wait(STOP_TIMEOUT_S)
                raise ServerError(self._last_line())
            said += part
        return match[1].decode()

    def _last_line(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - MAX_LOG_BYTES))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("central-server: ") if lines else f"code {self._process.returncode}"
