"""What a program uses: processor time, memory, threads, descriptors; with the processes that it started."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import psutil


class Usage:
    """A process and its descendants, looked at from outside; sums over all of them."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    def processor_s(self) -> float:
        """Give the processor time so far, user and system, of all threads, also of those that ended."""
        return self._sum(_processor_ns) / 1e9

    def resident_bytes(self) -> int:
        """Give the resident memory; pages that processes share count in each of them."""
        return self._sum(lambda pid: _kilobytes(pid, "status", "VmRSS") * 1024)

    def peak_bytes(self) -> int:
        """Give the most resident memory that there was."""
        return self._sum(lambda pid: _kilobytes(pid, "status", "VmHWM") * 1024)

    def proportional_bytes(self) -> int:
        """Give the memory in which a page that n processes share counts 1/n in each (PSS)."""
        return self._sum(lambda pid: _kilobytes(pid, "smaps_rollup", "Pss") * 1024)

    def once_bytes(self) -> int:
        """Give the memory in which pages that these processes share among them count once.

        Others' use of the same pages does not matter: of one process it is all of its resident memory. Of
        several it is what each has for itself, and the most that one of them shares.
        """
        private, shared = [], []
        for pid in self._pids():
            private.append(
                sum(_kilobytes(pid, "smaps_rollup", f"Private_{kind}") for kind in ("Clean", "Dirty"))
            )
            shared.append(_kilobytes(pid, "smaps_rollup", "Rss") - private[-1])
        return (sum(private) + max(shared)) * 1024

    def threads(self) -> int:
        """Count the threads."""
        return self._sum(lambda pid: len(list(Path(f"/proc/{pid}/task").iterdir())))

    def descriptors(self) -> int:
        """Count the open file descriptors."""
        return self._sum(lambda pid: len(list(Path(f"/proc/{pid}/fd").iterdir())))

    def _pids(self) -> list[int]:
        return [process.pid for process in (self._process, *self._process.children(recursive=True))]

    def _sum(self, figure: Callable[[int], int]) -> int:
        return sum(figure(pid) for pid in self._pids())


def _processor_ns(pid: int) -> int:
    # The id of a process's clock, as clock_getcpuclockid(3) makes it; /proc/PID/stat has ticks of 10 ms.
    return time.clock_gettime_ns((~pid << 3) | 2)


def _kilobytes(pid: int, file: str, key: str) -> int:
    match = re.search(rf"^{key}:\s+(\d+) kB$", Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)
    if match is None:
        raise RuntimeError(f"/proc/{pid}/{file} has no {key}")
    return int(match[1])
