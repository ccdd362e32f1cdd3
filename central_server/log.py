"""The log on stderr: what comes from outside can neither forge a line nor steer a terminal."""

import logging
import sys


def visible(text: str) -> str:
    """Write what cannot be printed as Python would escape it, e.g. the beginning of a terminal's command."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class Formatter(logging.Formatter):
    """One line a record; a traceback follows in lines that are indented, so that none looks like a record."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Give the line."""
        return visible(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """Give the line, and the traceback where there is one."""
        line, *traceback = super().format(record).splitlines()
        return "\n".join((line, *(f"  {visible(part)}" for part in traceback)))


def start_log(level: str) -> None:
    """Log to stderr from this level on: debug, info, warning or error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
