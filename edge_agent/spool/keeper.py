"""The spool's file through all that can happen to it: locked, full, read-only, damaged, removed."""

import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from edge_agent.spool.ballast import Ballast
from edge_agent.spool.rows import Batch, Position, Row
from edge_agent.spool.salvage import salvage, set_aside
from edge_agent.spool.store import CorruptError, Store, is_broken, is_corrupt, is_full

log = logging.getLogger(__name__)

FIRST_RETRY_S = 0.5
LAST_RETRY_S = 15.0
# With less room within the file, on a full disk, the oldest rows have to go before new ones are written.
LITTLE_ROOM_BYTES = 64 << 10
# On a full disk so few rows are written at a time, for that takes little room; after so many attempts none.
FULL_ROWS = 32
FULL_ATTEMPTS = 3
# A disk that damages each new file at once is left alone for a while.
REPLACE_PERIOD_S = 10.0

OnLoss = Callable[[int, int, str, range], None]
"""Takes the number of records lost, of others that they told of, their spool id and their sequences."""


class Keeper:
    """Opens the file, writes and reads rows, and tries again; for the spool's thread alone.

    Attributes:
        trouble: what is wrong with the file, in words; empty while it is well.
        max_bytes: how much it may hold; any thread may set it.

    """

    def __init__(self, path: Path, max_bytes: int, on_loss: OnLoss) -> None:
        self.trouble = ""
        self._path = path
        self.max_bytes = max_bytes
        self._on_loss = on_loss
        self._ballast = Ballast(path.with_name(f"{path.name}.ballast"))
        self._store: Store | None = None
        self._file = 0
        self._is_full = False
        self._replaced_s = -REPLACE_PERIOD_S
        self._retry_delay_s = FIRST_RETRY_S
        self._retry_s = 0.0
        self._since_s = time.monotonic()

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""
        return self._store is not None

    @property
    def rows(self) -> int:
        """How many rows the file has, as far as is known."""
        return self._store.rows if self._store is not None else 0

    @property
    def used_bytes(self) -> int:
        """What they take; 0 where that cannot be told."""
        with contextlib.suppress(sqlite3.Error):
            return self._store.used_bytes if self._store is not None else 0
        return 0

    @property
    def wait_s(self) -> float:
        """How long to leave the file alone: until the next attempt."""
        return max(0.0, self._retry_s - time.monotonic()) if self.trouble else 0.0

    def may_pass(self, patience_s: float) -> bool:
        """Whether memory's rows may be sent: the file takes none, and its own went first or are lost."""
        if not self.trouble:
            return False
        return self._store is not None or time.monotonic() - self._since_s > patience_s

    def open(self) -> bool:
        """Open the file if it is not; tells whether it is open."""
        if self._store is None and not self.wait_s:
            with self._watched("opened"):
                self._store = self._opened()
                self._ballast.take()
        return self._store is not None

    def write(self, rows: Sequence[Row], through: Position) -> int:
        """Add rows and take away those that were acknowledged, durably.

        Returns:
            How many of the rows are on the disk; with the others there is `trouble`.

        """
        written = 0
        if not self.open() or self._store is None:
            return 0
        with self._watched("written"):
            if not self._store.is_there():
                self._begin_again()
                return 0
            self._let_grow()
            through_id = through.disk_id if through.file == self._file else 0
            most, failures, done = len(rows), 0, False
            while written < len(rows) or not done:
                part = rows[written : written + most]
                try:
                    if self.trouble:
                        self._store.touch()
                    self._store.write(part, through_id)
                except sqlite3.Error as error:
                    failures += 1
                    if not is_full(error) or failures > FULL_ATTEMPTS:
                        raise
                    most = FULL_ROWS
                    self._make_room()
                else:
                    failures, done = 0, True
                    written += len(part)
            self._well()
            while self._store.used_bytes > self.max_bytes and self._store.rows:
                self._evict()
        return written

    def read(self, after: Position, through: Position, most_rows: int, most_bytes: int) -> Batch | None:
        """Read the next rows that were not acknowledged; None where there are none, or none can be read."""
        if not self.open() or self._store is None:
            return None
        ends = (after, through, Position(self._file))
        after_id = max(end.disk_id for end in ends if end.file == self._file)
        with self._watched("read"):
            rows, ids, damaged = self._store.read(after_id, most_rows, most_bytes)
            if damaged:
                log.error("spool %s: %d records are damaged and left out", self._path, len(damaged))
                self._on_loss(len(damaged), 0, "", range(0))
                self._store.discard(damaged)
            if rows:
                return Batch(rows, ids, Position(self._file, ids[-1], after.memory_sequence))
        return None

    def close(self) -> None:
        """Close the file; the room of its log is kept for the next start."""
        if self._store is not None:
            self._store.close()
            self._store = None
            self._ballast.take(plenty_bytes=0)

    def _opened(self) -> Store:
        try:
            return Store(self._path)
        except CorruptError as error:
            return self._replaced(str(error))

    def _replaced(self, reason: str) -> Store:
        """Begin a new file in place of a damaged one, with what is sound in that."""
        aside = set_aside(self._path)
        self._file += 1
        store = Store(self._path)
        saved = salvage(aside, store)
        log.error(
            "spool %s was damaged (%s): it is kept as %s; a new one is begun with the %d sound records of it",
            self._path,
            reason,
            aside.name,
            saved,
        )
        return store

    def _begin_again(self) -> None:
        log.error("spool %s is no longer there: a new one is begun", self._path)
        self.close()
        self._file += 1
        self.open()

    def _make_room(self) -> None:
        """On a full disk: let go what was kept for this, and the oldest rows where no room is left within."""
        assert self._store is not None  # noqa: S101 - it has just been written
        self._ballast.release()
        self._is_full = True
        self._store.keep_size()
        with contextlib.suppress(sqlite3.Error):
            self._store.recycle_log()
        if self._store.free_bytes < LITTLE_ROOM_BYTES:
            self._evict()
            with contextlib.suppress(sqlite3.Error):
                self._store.recycle_log()

    def _let_grow(self) -> None:
        """Let the file grow again once the disk has room."""
        if self._is_full and self._store is not None and self._ballast.take():
            self._is_full = False
            self._store.let_grow()

    def _evict(self) -> None:
        assert self._store is not None  # noqa: S101 - it has just been written
        for spool_id, first, last, records, told in self._store.evict():
            self._on_loss(records, told, spool_id, range(first, last + 1))

    @contextlib.contextmanager
    def _watched(self, doing: str) -> Iterator[None]:
        """Take note of what fails, and replace a damaged file; the next attempt finds the new one."""
        try:
            yield
        except CorruptError as error:
            self._replace(error)
        except OSError as error:
            self._failed(f"cannot be {doing}: {error}")
        except sqlite3.Error as error:
            if is_corrupt(error):
                self._replace(error)
                return
            if is_broken(error):
                self.close()
            self._failed(f"cannot be {doing}: {error}")

    def _replace(self, reason: Exception) -> None:
        self.close()
        now_s = time.monotonic()
        if now_s < self._replaced_s + REPLACE_PERIOD_S:
            self._failed(f"is damaged again: {reason}")
            return
        self._replaced_s = now_s
        try:
            self._store = self._replaced(str(reason))
        except (sqlite3.Error, OSError, CorruptError) as error:
            self._failed(f"is damaged ({reason}) and cannot be replaced: {error}")

    def _failed(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.error("spool %s %s; new records are kept in memory meanwhile", self._path, trouble)
        if not self.trouble:
            self._since_s = time.monotonic()
            self._retry_delay_s = FIRST_RETRY_S
        self.trouble = trouble
        self._retry_s = time.monotonic() + self._retry_delay_s
        self._retry_delay_s = min(2 * self._retry_delay_s, LAST_RETRY_S)

    def _well(self) -> None:
        if self.trouble:
            log.warning("spool %s is written again", self._path)
        self.trouble = ""
