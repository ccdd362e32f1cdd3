"""Records to put, spools to open, and what is in their files."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from camera_ai import telemetry_pb2

from edge_agent.record import ClockTrust, Record, StateChange
from edge_agent.spool.rows import Batch, Position
from edge_agent.spool.spool import Spool
from tests.polling import wait_until

MAX_BYTES = 64 << 20


def record(number: int, camera: str = "door", filler: str = "") -> Record:
    """Make a record that can be told from all others by its number."""
    return Record(camera, time.time_ns(), ClockTrust.GOOD, StateChange("streaming", f"{number} {filler}"))


def number_of(body: bytes) -> int:
    """Give the number of a record; -1 for one that tells of dropped records."""
    message = telemetry_pb2.Record.FromString(body)
    return -1 if message.HasField("dropped") else int(message.camera_state.reason.split()[0])


def dropped_in(body: bytes) -> telemetry_pb2.Dropped | None:
    """Give what a record tells of dropped ones."""
    message = telemetry_pb2.Record.FromString(body)
    return message.dropped if message.HasField("dropped") else None


@contextlib.contextmanager
def opened(path: Path, max_bytes: int = MAX_BYTES) -> Iterator[Spool]:
    """Open a spool meanwhile."""
    spool = Spool.open(path, max_bytes)
    try:
        yield spool
    finally:
        assert spool.close(15.0)


def take(spool: Spool, after: Position | None = None, most: int = 1000) -> Batch | None:
    """Take a batch."""
    return spool.take(after or Position(), most, 1 << 20).result(15.0)


def take_all(spool: Spool) -> list[Batch]:
    """Take everything, without acknowledging it."""
    batches: list[Batch] = []
    while (batch := take(spool, batches[-1].end if batches else None)) is not None:
        batches.append(batch)
    return batches


def numbers(batches: list[Batch]) -> list[int]:
    """Give the numbers of the records in order."""
    return [number_of(row.body) for batch in batches for row in batch.rows]


def put_durably(spool: Spool, wanted: range) -> None:
    """Put records and wait until the disk has them."""
    before = rows_on_disk(spool)
    for number in wanted:
        spool.put(record(number))
    wait_until(lambda: rows_on_disk(spool) >= before + len(wanted), "the records are on the disk")


def rows_on_disk(spool: Spool) -> int:
    """Count, by reading them, the rows that the file has."""
    return sum(len(batch.ids) for batch in take_all(spool))


def committed(path: Path) -> list[tuple[str, int, int]]:
    """Read a file that nobody uses: spool id, sequence and number of each row."""
    with contextlib.closing(sqlite3.connect(path, timeout=0.1)) as db:
        rows = db.execute("SELECT spool_id, sequence, body FROM record ORDER BY id").fetchall()
    return [(spool_id, sequence, number_of(body)) for spool_id, sequence, body in rows]
