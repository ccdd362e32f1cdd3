"""The file of records: SQLite, written by one thread; others may read it meanwhile."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from central_server.record import NewRecord, RecordBatch, StoredRecord

FILE_NAME = "records.db"
# How long SQLite waits for whoever has locked the file; a gateway tries again later.
BUSY_TIMEOUT_S = 2.0
# What is taken away at once, so that nothing waits long for it.
PRUNED_ROWS = 500
# Empty spools, one for each start of an agent, are known for this long after their last batch, so that no
# record that retention has taken away comes back; of more than these the oldest are forgotten. Whoever makes
# them up is not to drive out the records: they may take a tenth of the size, each with the longest name.
SPOOL_MEMORY_S = 366 * 86400
MAX_SPOOLS = 200_000
SPOOL_SHARE = 0.1
SPOOL_BYTES = 700

CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

SCHEMA = """
CREATE TABLE IF NOT EXISTS spool (
    id INTEGER PRIMARY KEY,
    spool_id TEXT NOT NULL UNIQUE,
    gateway TEXT NOT NULL,
    forgotten_through INTEGER NOT NULL DEFAULT 0,
    seen_ns INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY,
    spool INTEGER NOT NULL REFERENCES spool (id),
    sequence INTEGER NOT NULL,
    camera TEXT NOT NULL,
    at_ns INTEGER NOT NULL,
    received_ns INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (spool, sequence)
);
CREATE INDEX IF NOT EXISTS record_at ON record (at_ns);
CREATE INDEX IF NOT EXISTS record_camera_at ON record (camera, at_ns);
"""
FORGET_EMPTY = """
DELETE FROM spool WHERE NOT EXISTS (SELECT 1 FROM record WHERE record.spool = spool.id)
"""
BEYOND_MOST = "AND id <= (SELECT MAX(id) FROM spool) - ?"
NEWEST = """
SELECT spool_id, gateway, sequence, camera, at_ns, received_ns, kind, body
FROM record JOIN spool ON spool.id = record.spool
"""

Refused = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Retention:
    """How long and how much is kept; the oldest go first."""

    max_age_s: float = 90 * 86400.0
    max_bytes: int = 1000 << 20


def is_corrupt(error: sqlite3.Error) -> bool:
    """Whether the file is damaged, which no second attempt will mend."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in CORRUPT


class RecordStore:
    """Every method may raise sqlite3.Error.

    What `append` has returned from is on the disk (WAL, synchronous=FULL).
    """

    def __init__(self, path: Path, retention: Retention) -> None:
        self._retention = retention
        self._max_spools = min(MAX_SPOOLS, int(retention.max_bytes * SPOOL_SHARE / SPOOL_BYTES))
        self._path = path
        os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._file = _identity(path)
        self._db = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            for setting in ("journal_mode=WAL", "synchronous=FULL", "journal_size_limit=16777216"):
                self._db.execute(f"PRAGMA {setting}")
            self._db.executescript(SCHEMA)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()

    def has_lost_its_file(self) -> bool:
        """Whether somebody has taken the file away: what is written would be found by nobody."""
        try:
            return _identity(self._path) != self._file
        except FileNotFoundError:
            return True

    def append(self, batches: Sequence[RecordBatch]) -> list[Refused]:
        """Add batches, all or none; a record that is here already is kept as it is.

        Returns:
            For each batch what is refused, with the reason, besides what its reader refused.

        """
        with self._transaction():
            return [self._append(batch, time.time_ns()) for batch in batches]

    def _append(self, batch: RecordBatch, now_ns: int) -> Refused:
        if not batch.records:  # all of them refused: nothing is to be known of their spool
            return ()
        spool, forgotten_through = self._spool(batch, now_ns)
        refused = []
        for record in batch.records:
            if record.sequence > forgotten_through and not self._insert(spool, record, now_ns):
                (kept,) = self._db.execute(
                    "SELECT body FROM record WHERE spool = ? AND sequence = ?", (spool, record.sequence)
                ).fetchone()
                if kept != record.body:
                    refused.append((record.sequence, "another record has this sequence"))
        return tuple(refused)

    def _spool(self, batch: RecordBatch, now_ns: int) -> tuple[int, int]:
        self._db.execute(
            "INSERT INTO spool (spool_id, gateway, seen_ns) VALUES (?, ?, ?)"
            " ON CONFLICT (spool_id) DO UPDATE SET gateway = excluded.gateway, seen_ns = excluded.seen_ns",
            (batch.spool_id, batch.gateway, now_ns),
        )
        spool, forgotten_through = self._db.execute(
            "SELECT id, forgotten_through FROM spool WHERE spool_id = ?", (batch.spool_id,)
        ).fetchone()
        return spool, forgotten_through

    def _insert(self, spool: int, record: NewRecord, now_ns: int) -> bool:
        at_ns = min(record.time_ns, now_ns) if record.has_true_time else now_ns
        values = (
            spool,
            record.sequence,
            record.camera,
            at_ns,
            now_ns,
            record.kind,
            record.body,
        )
        return (
            self._db.execute(
                "INSERT INTO record (spool, sequence, camera, at_ns, received_ns, kind, body)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (spool, sequence) DO NOTHING",
                values,
            ).rowcount
            == 1
        )

    def prune(self) -> int:
        """Take away some of what is too old or too much; gives how many, 0 when nothing is."""
        rows = self._too_much()
        if rows:
            with self._transaction():
                self._db.executemany("DELETE FROM record WHERE id = ?", [row[:1] for row in rows])
                self._db.executemany(
                    "UPDATE spool SET forgotten_through = MAX(forgotten_through, ?) WHERE id = ?",
                    [(sequence, spool) for _, spool, sequence in rows],
                )
                self._db.executemany(
                    f"{FORGET_EMPTY} {BEYOND_MOST} AND id = ?",
                    [(self._max_spools, spool) for spool in {spool for _, spool, _ in rows}],
                )
        return len(rows)

    def _too_much(self) -> list[tuple[int, int, int]]:
        """Find some records, by id, spool and sequence, that have to go."""
        query = "SELECT id, spool, sequence FROM record"
        if self._used_bytes() > self._retention.max_bytes:
            return self._db.execute(f"{query} ORDER BY id LIMIT ?", (PRUNED_ROWS,)).fetchall()
        # By the arrival; a record's own time is never later, and has an index.
        oldest_ns = time.time_ns() - int(self._retention.max_age_s * 1e9)
        return self._db.execute(
            f"{query} WHERE at_ns < ? AND received_ns < ? ORDER BY at_ns LIMIT ?",
            (oldest_ns, oldest_ns, PRUNED_ROWS),
        ).fetchall()

    def forget_spools(self) -> None:
        """Forget empty spools that are too many."""
        with self._transaction():
            self._db.execute(f"{FORGET_EMPTY} {BEYOND_MOST}", (self._max_spools,))

    def forget_old_spools(self) -> None:
        """Forget empty spools that nobody has heard of for a year."""
        with self._transaction():
            self._db.execute(f"{FORGET_EMPTY} AND seen_ns < ?", (time.time_ns() - SPOOL_MEMORY_S * 10**9,))

    def _used_bytes(self) -> int:
        pages, free, page_bytes = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * page_bytes)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # a failed write has ended the transaction already
                self._db.execute("ROLLBACK")
            raise


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def read_records(
    path: Path, *, camera: str | None = None, since_ns: int | None = None, limit: int = 100
) -> list[StoredRecord]:
    """Read the newest records, the oldest of them first.

    Raises:
        sqlite3.Error: the file is none, or cannot be read now.

    """
    conditions = {"camera = ?": camera, "at_ns >= ?": since_ns}
    given = {condition: value for condition, value in conditions.items() if value is not None}
    where = f"WHERE {' AND '.join(given)}" if given else ""
    query = f"{NEWEST} {where} ORDER BY at_ns DESC, record.id DESC LIMIT ?"
    address = f"{path.absolute().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_S)) as db:
        rows = db.execute(query, (*given.values(), limit)).fetchall()
    return [StoredRecord(*row) for row in reversed(rows)]
