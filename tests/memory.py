"""How much memory a process has and had."""

import re
from pathlib import Path


class Memory:
    """The resident memory of a process, in bytes; by default this one."""

    def __init__(self, pid: int | str = "self") -> None:
        self._folder = Path("/proc") / str(pid)

    def resident_bytes(self) -> int:
        """Give what it has now."""
        return self._read("VmRSS")

    def peak_bytes(self) -> int:
        """Give the most it had since the start, or since `reset_peak`."""
        return self._read("VmHWM")

    def reset_peak(self) -> None:
        """Count the peak from what it has now."""
        (self._folder / "clear_refs").write_text("5")

    def _read(self, key: str) -> int:
        match = re.search(rf"^{key}:\s+(\d+) kB$", (self._folder / "status").read_text(), re.MULTILINE)
        assert match is not None, f"no {key}"
        return int(match[1]) * 1024
