"""The reference server as a program: built when it has to be, then started."""

import functools
import subprocess
from pathlib import Path

from tests.conftest import ROOT, Program

EXECUTABLE = ROOT / "reference_server" / "build" / "reference-server"


@functools.cache
def built() -> Path:
    """Give the executable, built and tried by `make reference` where that has not been done yet."""
    made = subprocess.run(["make", "reference"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout[-4000:] + made.stderr[-4000:]
    return EXECUTABLE


class ReferenceProgram(Program):
    """A reference server that listens on a free port of loopback."""

    def __init__(self, *options: str, listen: str = "127.0.0.1:0") -> None:
        super().__init__(str(built()), "--listen", listen, *options)
        self.address = self.wait_for_line(r"^listening (\S+:\d+)$")[1]
