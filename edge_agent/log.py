"""The agent's log as `run` writes it: with times for a terminal or a file, with levels for the journal."""

import logging
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

INTERVAL_S = 1.0
# How many faults are kept apart at a time; beyond them the one that has been quiet longest is written out.
MOST_FAULTS = 512
# syslog's levels, as the journal reads them at the beginning of a line.
LEVELS = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}

# Marks a record, by `extra`, as of what somebody has done: none of these stands for another.
DEED = "deed"

Fault = tuple[str, str, object]


def begin() -> None:
    """Write the log as its reader wants it; called once, before anything runs."""
    root = logging.getLogger()
    if _goes_to_the_journal(sys.stderr):
        root.handlers[:] = [JournalHandler(sys.stderr)]
        return
    for handler in root.handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))


def error_prefix(stream: TextIO) -> str:
    """Give what makes a line an error in the journal; nothing where the stream leads elsewhere."""
    return f"<{LEVELS[logging.ERROR]}>" if _goes_to_the_journal(stream) else ""


def _goes_to_the_journal(stream: TextIO) -> bool:
    """Tell whether a stream is the one that systemd has connected to the journal, and nobody redirected."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


@dataclass(slots=True)
class _Written:
    """What became of one fault's lines in the last second."""

    at_s: float
    left_out: int = 0
    latest: logging.LogRecord | None = None


class JournalHandler(logging.StreamHandler[TextIO]):
    """Writes lines that begin with their level, ``<3>``; a repeating fault gets one line a second.

    A fault is a message of one logger, for one camera, whatever else is put into it. Its first line is
    written at once. Of what follows within a second the latest is written at the second's end, with the count
    of the others: the last line of a fault is always how things stand.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        interval_s: float = INTERVAL_S,
        most_faults: int = MOST_FAULTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream)
        self._interval_s = interval_s
        self._most_faults = most_faults
        self._clock = clock
        # Of the library's: it is held while a record is handled.
        self._guard = self.lock or threading.RLock()
        # In the order of their last line.
        self._faults: OrderedDict[Fault, _Written] = OrderedDict()
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or keep it until its fault's second is over; a deed is always written."""
        if getattr(record, DEED, False):
            self._put(record, 0)
            return
        fault = _fault(record)
        now_s = self._clock()
        written = self._faults.get(fault)
        if written is not None and now_s - written.at_s < self._interval_s:
            written.left_out += written.latest is not None
            written.latest = record
            self._wake_later()
            return
        self._write(fault, record, now_s, (written.left_out + (written.latest is not None)) if written else 0)
        while len(self._faults) > self._most_faults:
            _, oldest = self._faults.popitem(last=False)
            if oldest.latest is not None:
                self._put(oldest.latest, oldest.left_out)

    def write_late(self, *, all_of_them: bool = False) -> None:
        """Write what has been kept for its second, and forget the faults that have been quiet for one."""
        with self._guard:
            now_s = self._clock()
            for fault, written in list(self._faults.items()):
                if now_s - written.at_s < self._interval_s and not all_of_them:
                    break
                if written.latest is None:
                    del self._faults[fault]
                else:
                    self._write(fault, written.latest, now_s, written.left_out)

    def close(self) -> None:
        """Write what is left, and end."""
        self.write_late(all_of_them=True)
        with self._guard:
            if self._timer is not None:
                self._timer.cancel()
        super().close()

    def _write(self, fault: Fault, record: logging.LogRecord, now_s: float, left_out: int) -> None:
        self._faults[fault] = _Written(now_s)
        self._faults.move_to_end(fault)
        self._put(record, left_out)

    def _put(self, record: logging.LogRecord, left_out: int) -> None:
        try:
            text = self.format(record) + (f" (and {left_out} more like it)" if left_out else "")
            prefix = f"<{LEVELS.get(record.levelno, LEVELS[logging.INFO])}>"
            # Each line of a traceback is one of the journal's, too.
            self.stream.write("".join(f"{prefix}{line}\n" for line in text.splitlines()))
            self.flush()
        except Exception:  # noqa: BLE001 - as the library's handlers do: a log that fails stops nothing
            self.handleError(record)

    def _wake_later(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._interval_s, self._wake)
            self._timer.name = "log"
            self._timer.daemon = True
            self._timer.start()

    def _wake(self) -> None:
        with self._guard:
            self._timer = None
            self.write_late()
            if any(written.latest is not None for written in self._faults.values()):
                self._wake_later()


def _fault(record: logging.LogRecord) -> Fault:
    template = str(record.msg)
    camera = record.args[0] if template.startswith("camera %s") and isinstance(record.args, tuple) else None
    return record.name, template, camera
