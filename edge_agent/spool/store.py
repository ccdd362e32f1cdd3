"""The file that the spool keeps: SQLite, used by one thread through one connection."""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from edge_agent.spool.rows import Row

log = logging.getLogger(__name__)

# How long SQLite itself waits for whoever has locked the file; the spool's thread then tries again.
BUSY_TIMEOUT_S = 1.0
# The log beside the file is carried over into it at this many pages, and written over. That is less than what
# the ballast frees: on a full disk the file can always take what the log holds.
LOG_PAGES = 64
MOST_PAGES = 2**30
# How much of what is stored goes at once when something has to.
EVICTED_PART = 16

CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY,
    spool_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    told INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
)
"""
FIRST_ROWS = "SELECT id, spool_id, sequence, body, told, checksum FROM record"


class CorruptError(Exception):
    """The file is no spool, or a part of it is missing."""


def is_full(error: sqlite3.Error) -> bool:
    """Whether there was no room on the disk."""
    return _code(error) == sqlite3.SQLITE_FULL


def is_corrupt(error: sqlite3.Error) -> bool:
    """Whether the file is damaged, which no second attempt will mend."""
    return _code(error) in CORRUPT


def is_broken(error: sqlite3.Error) -> bool:
    """Whether it failed in a way that may be the connection's: the file is to be opened anew."""
    return _code(error) in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}


def as_text(data: bytes) -> str:
    """Read text, which may be damaged."""
    return data.decode("utf-8", "replace")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


class Store:
    """Rows in the order in which they were put; every method may raise sqlite3.Error.

    Power cuts: each commit is on the disk before it returns (WAL, synchronous=FULL). One connection has the
    file to itself (locking_mode=EXCLUSIVE): a second agent is told that it is locked, and there is no shared
    memory file whose loss could kill the process.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Raises:
            CorruptError: it is damaged.
            sqlite3.Error, OSError: it cannot be opened now.

        """
        self._path = path
        self.rows = 0
        self._last_id = 0
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._db = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        self._db.text_factory = as_text
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._db.close()
            if is_corrupt(error):
                raise CorruptError(str(error)) from error
            raise
        except BaseException:
            self._db.close()
            raise
        self._inode = os.stat(path).st_ino  # noqa: PTH116 - compared with the same call's
        # Never given twice while the file is open, though its last row may be deleted.
        self.rows, self._last_id = self._db.execute(
            "SELECT COUNT(*), IFNULL(MAX(id), 0) FROM record"
        ).fetchone()

    def _prepare(self) -> None:
        self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
        # Its pages are few and its rows are read once.
        self._db.execute("PRAGMA cache_size=-512")
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise CorruptError(" ".join(str(verdict).split()))
        with self._transaction():
            self._db.execute(SCHEMA)

    @property
    def used_bytes(self) -> int:
        """What the records take of the file."""
        return (self._pragma("page_count") - self._pragma("freelist_count")) * self._pragma("page_size")

    @property
    def free_bytes(self) -> int:
        """What is free within the file."""
        return self._pragma("freelist_count") * self._pragma("page_size")

    def _pragma(self, name: str) -> int:
        value: int = self._db.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    def is_there(self) -> bool:
        """Whether the path still leads to this file: nobody has removed or replaced it."""
        try:
            return os.stat(self._path).st_ino == self._inode  # noqa: PTH116
        except FileNotFoundError:
            return False

    def write(self, rows: Sequence[Row], through_id: int) -> None:
        """Add rows at the end and take away those up to an id, durably or not at all."""
        with self._transaction():
            if through_id:
                self._delete("id <= ?", (through_id,))
            first_id = self._last_id + 1
            self._insert(zip(range(first_id, first_id + len(rows)), rows, strict=True))
            self._last_id += len(rows)
            self.rows += len(rows)

    def touch(self) -> None:
        """Write something that is of no consequence, to see whether the disk takes it."""
        (number,) = self._db.execute("PRAGMA user_version").fetchone()
        with self._transaction():
            self._db.execute(f"PRAGMA user_version={(number + 1) % 1000}")

    def restore(self, rows: Sequence[tuple[int, Row]]) -> None:
        """Add salvaged rows at the places that they had."""
        before = self._db.total_changes
        with self._transaction():
            self._insert(rows)
        self._last_id = max(self._last_id, *(id_ for id_, _ in rows))
        self.rows += self._db.total_changes - before

    def _insert(self, rows: Iterable[tuple[int, Row]]) -> None:
        self._db.executemany(
            "INSERT OR IGNORE INTO record (id, spool_id, sequence, told, checksum, body)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [(id_, row.spool_id, row.sequence, row.told, row.checksum, row.body) for id_, row in rows],
        )

    def read(
        self, after_id: int, most_rows: int, most_bytes: int
    ) -> tuple[tuple[Row, ...], tuple[int, ...], list[int]]:
        """Read the next rows of one spool id.

        Returns:
            The rows, none where there are no more; their ids; and the ids of damaged rows on the way.

        """
        rows: list[Row] = []
        ids: list[int] = []
        damaged: list[int] = []
        size_bytes = 0
        cursor = self._db.execute(f"{FIRST_ROWS} WHERE id > ? ORDER BY id LIMIT ?", (after_id, most_rows))
        for id_, spool_id, sequence, body, told, checksum in cursor:
            if not is_sound(spool_id, sequence, body, told, checksum):
                damaged.append(id_)
                continue
            row = Row(spool_id, sequence, body, told)
            size_bytes += len(body)
            if rows and (spool_id != rows[0].spool_id or size_bytes > most_bytes):
                break
            rows.append(row)
            ids.append(id_)
        cursor.close()
        return tuple(rows), tuple(ids), damaged

    def evict(self) -> list[tuple[str, int, int, int, int]]:
        """Take away the oldest part of the rows.

        Returns:
            For each spool id among them: its first and last sequence, the number of records lost, and of
            others that they told of.

        """
        oldest = "id IN (SELECT id FROM record ORDER BY id LIMIT ?)"
        oldest_by_spool = f"FROM record WHERE {oldest} GROUP BY spool_id ORDER BY MIN(id)"
        most = (max(1, self.rows // EVICTED_PART),)
        with self._transaction():
            gone: list[tuple[str, int, int, int, int]] = self._db.execute(
                f"SELECT spool_id, MIN(sequence), MAX(sequence), SUM(told = 0), SUM(told) {oldest_by_spool}",
                most,
            ).fetchall()
            self._delete(oldest, most)
        return gone

    def discard(self, ids: Sequence[int]) -> None:
        """Take away damaged rows."""
        with self._transaction():
            for id_ in ids:
                self._delete("id = ?", (id_,))

    def keep_size(self) -> None:
        """Let the file grow no more: what does not fit into it fails as on a full disk."""
        self._db.execute("PRAGMA max_page_count=1")

    def let_grow(self) -> None:
        """End that."""
        self._db.execute(f"PRAGMA max_page_count={MOST_PAGES}")

    def recycle_log(self) -> None:
        """Carry the log over into the file, so that it is written from its start again."""
        self._db.execute("PRAGMA wal_checkpoint(RESTART)")

    def close(self) -> None:
        """Close; what cannot be carried over now is found in the log when the file is opened again."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()

    def _delete(self, where: str, values: Sequence[int]) -> None:
        self.rows -= self._db.execute(f"DELETE FROM record WHERE {where}", values).rowcount  # noqa: S608 - ours

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        rows, last_id = self.rows, self._last_id
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self.rows, self._last_id = rows, last_id
            with contextlib.suppress(sqlite3.Error):  # a failed write has ended the transaction already
                self._db.execute("ROLLBACK")
            raise


def is_sound(spool_id: object, sequence: object, body: object, told: object, checksum: object) -> bool:
    """Whether a row is as it was written."""
    return (
        isinstance(spool_id, str)
        and isinstance(sequence, int)
        and isinstance(body, bytes)
        and isinstance(told, int)
        and Row(spool_id, sequence, body, told).checksum == checksum
    )
