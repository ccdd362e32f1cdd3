"""What a check has found."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much it matters."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; things work."""
    PROBLEM = "problem"
    """Something does not work, or will not for long."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; its texts hold no password."""

    subject: str
    """What it is about: gateway, clock, network, server, or a camera by name."""
    level: Level
    found: str
    advice: str = ""
    """What to do, the exact command where there is one."""


def ok(subject: str, found: str) -> Finding:
    """Find something as it should be."""
    return Finding(subject, Level.OK, found)


def note(subject: str, found: str, advice: str = "") -> Finding:
    """Find something worth knowing."""
    return Finding(subject, Level.NOTE, found, advice)


def problem(subject: str, found: str, advice: str = "") -> Finding:
    """Find something that does not work."""
    return Finding(subject, Level.PROBLEM, found, advice)
