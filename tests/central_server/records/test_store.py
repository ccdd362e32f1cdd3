"""The file of records: bounded by age and size, and idempotent even for what is gone again."""

import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from central_server.record import NewRecord, RecordBatch
from central_server.records.store import PRUNED_ROWS, RecordStore, Retention, read_records


def records(spool_id: str, sequences: range, size_bytes: int = 10) -> RecordBatch:
    made = tuple(
        NewRecord(sequence, "door", time.time_ns(), True, "motion", bytes(size_bytes))
        for sequence in sequences
    )
    return RecordBatch(spool_id, "shop", made, (), sequences[-1])


def prune_all(store: RecordStore) -> int:
    count = 0
    while pruned := store.prune():
        count += pruned
    return count


def test_beyond_the_size_the_oldest_go_and_do_not_come_back(tmp_path: Path) -> None:
    """What retention took away is acknowledged when it comes again, and stays away."""
    path = tmp_path / "records.db"
    store = RecordStore(path, Retention(max_bytes=1 << 20))
    spool_id = str(uuid.uuid4())
    store.append([records(spool_id, range(1, 5001), 500)])
    pruned = prune_all(store)
    kept = [record.sequence for record in read_records(path, limit=10_000)]
    assert 1000 < pruned < 5000
    assert kept == list(range(pruned + 1, 5001))
    assert path.stat().st_size < 5 << 20

    assert store.append([records(spool_id, range(1, 5001), 500)]) == [()]
    assert [record.sequence for record in read_records(path, limit=10_000)] == kept
    store.close()


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    """By the time of arrival; what came later stays."""
    path = tmp_path / "records.db"
    store = RecordStore(path, Retention(max_age_s=0.5))
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    store.append([records(first, range(1, 1201))])
    assert store.prune() == 0
    time.sleep(0.6)
    store.append([records(second, range(1, 11))])
    assert prune_all(store) == 1200
    assert {record.spool_id for record in read_records(path, limit=10_000)} == {second}
    store.forget_spools()
    store.forget_old_spools()
    store.append([records(first, range(1, 2))])
    assert {record.spool_id for record in read_records(path)} == {second}
    store.close()


def test_made_up_spools_do_not_drive_out_the_records(tmp_path: Path) -> None:
    """Thousands of spools of one record each, with long names: bounded, and the newest is kept."""
    path = tmp_path / "records.db"
    store = RecordStore(path, Retention(max_bytes=1 << 20))
    for _ in range(40):
        store.append(
            [replace(records(str(uuid.uuid4()), range(1, 2)), gateway="😀" * 128) for _ in range(100)]
        )
        store.forget_spools()
        prune_all(store)
    honest = str(uuid.uuid4())
    store.append([records(honest, range(1, 101))])
    prune_all(store)
    assert {record.sequence for record in read_records(path, limit=100)} == set(range(1, 101))
    store.close()
    assert path.stat().st_size < 2 << 20


def test_records_of_a_clock_that_was_ahead_keep_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's clock was a year ahead when they came: what came later, and is too old now, goes."""
    path = tmp_path / "records.db"
    store = RecordStore(path, Retention(max_age_s=0.5))
    with monkeypatch.context() as ahead:
        year_later_ns = time.time_ns() + 365 * 86400 * 10**9
        ahead.setattr("central_server.records.store.time.time_ns", lambda: year_later_ns)
        store.append([records(str(uuid.uuid4()), range(1, PRUNED_ROWS + 1))])
    store.append([records(str(uuid.uuid4()), range(1, 11))])
    time.sleep(0.6)
    assert prune_all(store) == 10
    store.close()


def test_reading_gives_the_newest_of_a_camera_in_order(tmp_path: Path) -> None:
    """By camera, time and number; oldest first."""
    path = tmp_path / "records.db"
    store = RecordStore(path, Retention())
    spool_id = str(uuid.uuid4())
    now_ns = time.time_ns()
    made = tuple(
        NewRecord(
            sequence, ("door", "yard")[sequence % 2], now_ns - 10**9 * (100 - sequence), True, "motion", b""
        )
        for sequence in range(1, 101)
    )
    store.append([RecordBatch(spool_id, "shop", made, (), 100)])
    of_door = read_records(path, camera="door", limit=3)
    since = read_records(path, since_ns=now_ns - 10 * 10**9 - 1, limit=1000)
    store.close()
    assert [record.sequence for record in of_door] == [96, 98, 100]
    assert [record.sequence for record in since] == list(range(90, 101))


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    """What is acknowledged has been synced: SQLite's FULL, in its log."""
    store = RecordStore(tmp_path / "records.db", Retention())
    settings = [store._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")]
    store.close()

    assert settings == [2, "wal"]
