"""What can go wrong in the edge agent, as exceptions whose text is one clear line for a person.

AgentError             the root: the command line prints it as `edge-agent: TEXT` and exits with 1
├── UsageError         what was typed is wrong (exit code 2)
├── ConfigError        a file of the configuration is unreadable, or a value in it is wrong
│   ├── NotAllowedError    a file is not for whoever runs this
│   └── NamesTakenError    cameras that are to be added are there already
├── CaptureError       a camera, device or file did not open, or ended (capture/errors.py)
└── ClipError          a file cannot be served as a camera (rtsp/clip.py)

No text of these ever carries a password. An import that is refused has one line of text for each bad row.
"""

from collections.abc import Sequence
from pathlib import Path

LONGEST_LINE = 300
MOST_CALLS = 20


def one_line(text: str) -> str:
    """Make text from outside fit for a line of the log: bounded, no control characters."""
    seen = "".join(c if c.isprintable() else " " for c in text[: 4 * LONGEST_LINE])
    return " ".join(seen.split())[:LONGEST_LINE]


def without_text(error: BaseException) -> str:
    """Tell of an error that nobody expected: its type and where, not its text, which may hold anything.

    Of endless recursion the last calls say enough.
    """
    import traceback

    return (
        f"{type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__, -MOST_CALLS))}".rstrip()
    )


class AgentError(Exception):
    """An expected failure; its text is one line that names what was found, where, and what was expected."""

    exit_code = 1


class UsageError(AgentError):
    """An argument or option has a value that cannot be meant."""

    exit_code = 2


class ConfigError(AgentError):
    """A configuration or secrets file cannot be read, or something in it is not allowed."""


class NotAllowedError(ConfigError):
    """A file is not for whoever runs this: the service, or root, may be able to do it."""


class NamesTakenError(ConfigError):
    """Cameras that are to be added are there already."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        super().__init__(f"{path}: there is a camera {names[0]} already; set-camera changes it")
        self.path = path
        self.names = tuple(names)
