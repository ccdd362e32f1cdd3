"""What the control servers are told on their command lines."""

import argparse
from dataclasses import dataclass

from bench.controls.spin import SPINS


@dataclass(frozen=True, slots=True)
class ControlOptions:
    """Where a control server listens, and what it does for each frame."""

    listen: str
    work_ms: float
    spin: str

    def work(self) -> None:
        """Do the work of one frame."""
        SPINS[self.spin](self.work_ms)

    def listening(self, port: int) -> str:
        """Give the line that says where it listens, with the real port."""
        return f"listening {self.listen.rpartition(':')[0]}:{port}"


def parser(description: str) -> argparse.ArgumentParser:
    """Make the parser of every control; argparse, for they carry no more than their authors would."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="port 0 takes a free one")
    made.add_argument("--work-ms", type=_milliseconds, default=5.0, metavar="MS", help="work for a frame")
    made.add_argument("--spin", choices=sorted(SPINS), default="cpu", help="by processor time or the clock")
    return made


def options(found: argparse.Namespace) -> ControlOptions:
    """Take from a parsed command line what every control has."""
    return ControlOptions(found.listen, found.work_ms, found.spin)


def _milliseconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 60_000:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected milliseconds of work from 0 to 60000")
    return value
