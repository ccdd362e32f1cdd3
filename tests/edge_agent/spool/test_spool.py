"""The spool keeps what is put, in order, bounded, through all that a disk can do."""

import contextlib
import os
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from camera_ai import telemetry_pb2

from edge_agent.record import ClockTrust, Motion, Record, StateChange
from edge_agent.spool import keeper, spool, store
from edge_agent.spool.rows import Batch
from edge_agent.spool.spool import Spool
from tests.disks import fill
from tests.edge_agent.spool import spools
from tests.edge_agent.spool.spools import numbers, opened, put_durably, record, take, take_all
from tests.polling import wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "spool.db"


def test_records_come_out_in_order_and_are_gone_once_acknowledged(path: Path) -> None:
    """What was acknowledged is never given again, not after a new start either; the rest is."""
    with opened(path) as first:
        put_durably(first, range(10))
        batch = take(first, most=4)
        assert batch is not None
        assert numbers([batch]) == [0, 1, 2, 3]
        assert [row.sequence for row in batch.rows] == [1, 2, 3, 4]
        first.acknowledge(batch)
        assert numbers(take_all(first)) == list(range(4, 10))
        assert first.status().waiting == 6
        assert first.status().uploaded == 4

    with opened(path) as second:
        assert numbers(take_all(second)) == list(range(4, 10))
        assert second.status().waiting == 6


def test_each_start_has_an_id_of_its_own_and_a_batch_is_of_one_id(path: Path) -> None:
    """Sequences begin at 1 for each start: no power cut can make an identity come twice."""
    for start in range(3):
        with opened(path) as opening:
            put_durably(opening, range(2 * start, 2 * start + 2))
    with opened(path) as last:
        batches = take_all(last)

    assert numbers(batches) == list(range(6))
    assert len({batch.spool_id for batch in batches}) == 3
    assert [[row.sequence for row in batch.rows] for batch in batches] == [[1, 2]] * 3


def test_rows_that_were_all_acknowledged_do_not_hide_later_ones(path: Path, monkeypatch) -> None:
    """An empty file takes new records behind those that are gone."""
    monkeypatch.setattr(spool, "DELETE_DELAY_S", 0.1)
    with opened(path) as opening:
        for start in (0, 5, 10):
            put_durably(opening, range(start, start + 5))
            batch = take(opening)
            assert batch is not None
            opening.acknowledge(batch)
            wait_until(lambda: opening._to_delete == 0, "the deletion")
        assert opening.status().waiting == 0
        put_durably(opening, range(15, 17))
        assert numbers(take_all(opening)) == [15, 16]


def test_a_batch_is_bounded_in_bytes(path: Path) -> None:
    """A batch holds at least one record and no more bytes than were asked for."""
    with opened(path) as opening:
        put_durably(opening, range(20))
        batch = opening.take(spool.Position(), 1000, 1).result(10.0)
        assert batch is not None
        assert numbers([batch]) == [0]


def test_records_of_cameras_that_cannot_be_written_are_left_out_and_counted(path: Path) -> None:
    """A figure that the contract cannot hold, or an endless text, harms nobody."""
    with opened(path) as opening:
        opening.put(Record("door", 0, ClockTrust.GOOD, Motion(-1, 0.5)))
        opening.put(Record("door" * 10_000, 0, ClockTrust.GOOD, Motion(1, 0.5)))
        opening.put(Record("door", 0, ClockTrust.GOOD, StateChange("streaming", "0 " + "x" * 100_000)))
        wait_until(lambda: opening.status().dropped == 2, "both are counted")
        wait_until(lambda: -1 in numbers(take_all(opening)), "the loss is told")
        assert 0 in numbers(take_all(opening))


def told_of(batches: list[Batch]) -> list[telemetry_pb2.Dropped]:
    """Give what records tell of dropped ones."""
    return [told for batch in batches for row in batch.rows if (told := spools.dropped_in(row.body))]


def test_above_its_size_the_oldest_go_counted_and_told(path: Path, monkeypatch) -> None:
    """The file stays near its bound, the newest records are all there, and Dropped records add up."""
    monkeypatch.setattr(spool, "LOSS_PERIOD_S", 0.2)
    most = 200 << 10
    with opened(path, max_bytes=most) as opening:
        for number in range(6000):
            opening.put(record(number, filler="x" * 60))
        opening.put(record(6000))
        wait_until(lambda: opening.status().dropped > 3000, "the oldest are dropped")
        wait_until(
            lambda: sum(told.records for told in told_of(take_all(opening))) == opening.status().dropped,
            "all of the loss is told",
        )
        batches = take_all(opening)
        status = opening.status()

    kept = [number for number in numbers(batches) if number >= 0]
    assert kept == list(range(6001 - len(kept), 6001))
    assert status.dropped == 6001 - len(kept)
    assert told_of(batches)[0].first_sequence == 1
    assert status.bytes <= most
    assert path.stat().st_size <= most + (1 << 20)


def test_putting_never_waits_for_a_locked_file_and_nothing_is_lost(path: Path, monkeypatch, caplog) -> None:
    """Somebody has the file locked: records stay in memory, are told of, and are written when it is free."""
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.1)
    with opened(path) as opening:
        put_durably(opening, range(3))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        second = Spool.open(path, spools.MAX_BYTES)
        wait_until(lambda: second.status().trouble, "the trouble is told")
        assert "locked" in second.status().trouble
        slowest_s = 0.0
        for number in range(3, 2000):
            begun_s = time.monotonic()
            second.put(record(number))
            slowest_s = max(slowest_s, time.monotonic() - begun_s)
        # A bound that only waiting for the lock could break.
        assert slowest_s < store.BUSY_TIMEOUT_S + 1.0
        assert second.status().waiting >= 1997
        other.execute("ROLLBACK")
    wait_until(lambda: not second.status().trouble, "the file is free", 30.0)
    wait_until(lambda: second.status().waiting == 2000, "all is written")
    assert numbers(take_all(second)) == list(range(2000))
    assert second.status().dropped == 0
    assert second.close()
    assert len([line for line in caplog.messages if "locked" in line]) <= 2


@pytest.mark.soak
def test_a_file_that_is_locked_for_half_a_minute(path: Path) -> None:
    """Ten records a second go on being put, at once, and all are there afterwards."""
    with opened(path) as opening:
        put_durably(opening, range(1))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        second = Spool.open(path, spools.MAX_BYTES)
        for number in range(1, 301):
            second.put(record(number))
            time.sleep(0.1)
        assert "locked" in second.status().trouble
        other.execute("ROLLBACK")
    wait_until(lambda: not second.status().in_memory, "all is written", 30.0)
    assert numbers(take_all(second)) == list(range(301))
    assert second.close()


def test_a_second_agent_on_the_same_file_is_told_so(path: Path, monkeypatch) -> None:
    """The first goes on; the second says that the file is locked."""
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.1)
    with opened(path) as first:
        put_durably(first, range(3))
        second = Spool.open(path, spools.MAX_BYTES)
        wait_until(lambda: "locked" in second.status().trouble, "the trouble is told")
        second.close()
        put_durably(first, range(3, 6))
        assert numbers(take_all(first)) == list(range(6))


def test_memory_is_bounded_while_the_disk_takes_nothing(path: Path, monkeypatch) -> None:
    """The oldest of what cannot be written go, counted, and are told of when the disk is back."""
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.1)
    monkeypatch.setattr(spool, "MAX_MEMORY_RECORDS", 100)
    with opened(path) as opening:
        put_durably(opening, range(1))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        second = Spool.open(path, spools.MAX_BYTES)
        for number in range(1, 1001):
            second.put(record(number))
        assert second.status().dropped == 900
        other.execute("ROLLBACK")
    wait_until(lambda: -1 in numbers(take_all(second)), "the loss is told", 30.0)
    rows = [row for batch in take_all(second) for row in batch.rows]
    (told,) = told_of(take_all(second))
    assert (told.records, told.first_sequence, told.last_sequence) == (900, 1, 900)
    assert [spools.number_of(row.body) for row in rows][1:-1] == list(range(901, 1001))
    assert second.close()


def test_what_the_disk_does_not_take_is_handed_out_from_memory(path: Path, monkeypatch) -> None:
    """A disk that cannot be opened for a minute keeps no record from the server."""
    monkeypatch.setattr(spool, "OVERTAKE_S", 0.5)
    path.parent.write_text("a file where the directory should be")
    opening = Spool.open(path, spools.MAX_BYTES)
    for number in range(10):
        opening.put(record(number))
    wait_until(lambda: take(opening) is not None, "records from memory", 30.0)
    batch = take(opening)
    assert batch is not None
    assert numbers([batch]) == list(range(10))
    opening.acknowledge(batch)
    assert opening.status().waiting == 0
    assert take(opening, batch.end) is None
    path.parent.unlink()
    opening.put(record(10))
    wait_until(lambda: not opening.status().trouble, "the directory can be made", 30.0)
    assert numbers(take_all(opening)) == [10]
    assert opening.close()


def taken(status: spool.SpoolStatus) -> bool:
    """Whether the disk has taken all, or takes none."""
    return not status.in_memory or bool(status.trouble)


def put_paced(opening: Spool, wanted: range) -> None:
    """Put no faster than a disk that is well takes it."""
    for number in wanted:
        opening.put(record(number, filler="x" * 100))
        if number % 500 == 499:
            wait_until(lambda: taken(opening.status()), "the disk takes it")


def test_on_a_full_disk_the_oldest_make_room_for_the_newest(small_disk: Path, monkeypatch) -> None:
    """Nothing fails, the oldest go and are told of, and the newest are on the disk, without a new start."""
    monkeypatch.setattr(spool, "LOSS_PERIOD_S", 0.2)
    path = small_disk / "spool.db"
    with opened(path) as opening:
        put_durably(opening, range(4000))
        fill(small_disk)
        put_paced(opening, range(4000, 12_000))
        wait_until(lambda: opening.status().dropped > 0, "the oldest are dropped", 30.0)
        fill(small_disk)
        wait_until(lambda: -1 in numbers(take_all(opening)), "the loss is told", 30.0)
        put_paced(opening, range(12_000, 12_100))
        wait_until(lambda: not opening.status().in_memory, "the newest are on the disk", 30.0)
        dropped = opening.status().dropped
        assert opening.status().trouble == ""
    rows = [number for _, _, number in spools.committed(path) if number >= 0]
    assert rows == list(range(dropped, 12_100))


def test_a_start_on_a_full_disk_goes_on_where_it_was(small_disk: Path) -> None:
    """The agent starts while the disk is full: what is there is handed out, and new records are kept, too."""
    path = small_disk / "spool.db"
    with opened(path) as opening:
        put_paced(opening, range(2000))
    filler = fill(small_disk)
    with opened(path) as second:
        put_paced(second, range(2000, 3000))
        wait_until(lambda: not second.status().in_memory, "new records are on the disk", 30.0)
        kept = [number for number in numbers(take_all(second)) if number >= 0]
        dropped = second.status().dropped
        assert kept == list(range(dropped, 3000))
        filler.unlink()
        put_paced(second, range(3000, 3100))
        wait_until(lambda: not second.status().in_memory, "room again")
        assert second.status().dropped == dropped


def test_a_read_only_disk_is_said_and_recovers_without_a_new_start(small_disk: Path) -> None:
    """Records wait in memory while the disk is read-only and are written when it is not any more."""
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    opening = Spool.open(small_disk / "spool.db", spools.MAX_BYTES)
    for number in range(10):
        opening.put(record(number))
    wait_until(lambda: "ead-only" in opening.status().trouble, "the trouble is told")
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    wait_until(lambda: not opening.status().trouble, "it is written again", 30.0)
    wait_until(lambda: numbers(take_all(opening)) == list(range(10)), "all is written")
    assert opening.close()


def damage_header(path: Path) -> None:
    path.write_bytes(b"no database at all" * 1000)


def damage_middle(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(os.urandom(10_000))


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


@pytest.mark.parametrize("damage", [damage_header, damage_middle, cut_off])
def test_a_damaged_file_is_set_aside_and_what_is_sound_is_kept(
    path: Path, damage: Callable[[Path], None], caplog
) -> None:
    """It is said, the file is kept once, nothing but what was put comes out, and new records go on."""
    for _ in range(2):
        with opened(path) as opening:
            put_durably(opening, range(2000))
        damage(path)
        with opened(path) as second:
            put_durably(second, range(2000, 2010))
            found = numbers(take_all(second))
            assert second.status().trouble == ""
            assert found[-10:] == list(range(2000, 2010))
            assert set(found) <= set(range(2010))
            batch = take(second)
            while batch is not None:
                second.acknowledge(batch)
                batch = take(second)
        if damage is not damage_header:
            # The damage is a few pages; a third of the file is there.
            assert len(found) > 100
        assert "was damaged" in caplog.text
    asides = [file.name for file in path.parent.iterdir() if "corrupt" in file.name]
    assert sorted(asides) in (["spool.db.corrupt"], ["spool.db.corrupt", "spool.db.corrupt-wal"])


def test_a_file_that_is_damaged_under_a_running_spool_is_replaced(path: Path, monkeypatch) -> None:
    """Whatever happens to the file meanwhile: records go on, none comes out that was not put."""
    with opened(path) as opening:
        put_durably(opening, range(3000))
        cut_off(path)
        damage_middle(path)
        (path.parent / "spool.db-wal").write_bytes(b"")
        for number in range(3000, 3010):
            opening.put(record(number))
        wait_until(
            lambda: set(range(3000, 3010)) <= set(numbers(take_all(opening))), "new records are there", 30.0
        )
        assert set(numbers(take_all(opening))) <= set(range(3010))


def test_a_file_that_is_removed_under_a_running_spool_is_made_anew(path: Path) -> None:
    """Somebody has tidied up: it is noticed, and records go on."""
    with opened(path) as opening:
        put_durably(opening, range(5))
        batch = take(opening)
        for file in path.parent.iterdir():
            file.unlink()
        for number in range(5, 8):
            opening.put(record(number))
        wait_until(lambda: numbers(take_all(opening)) == [5, 6, 7], "a new file", 30.0)
        assert batch is not None
        # The server has the old ones by now: that is no matter of the new file.
        opening.acknowledge(batch)
        assert numbers(take_all(opening)) == [5, 6, 7]
    assert [number for _, _, number in spools.committed(path)] == [5, 6, 7]


def test_a_row_that_the_disk_has_mangled_is_left_out_and_counted(path: Path) -> None:
    """A body or an identity with a wrong bit is not sent."""
    with opened(path) as opening:
        put_durably(opening, range(5))
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE record SET body = body || x'00' WHERE id = 2")
        db.execute("UPDATE record SET sequence = 77 WHERE id = 4")
    with opened(path) as second:
        assert numbers(take_all(second))[:3] == [0, 2, 4]
        wait_until(lambda: numbers(take_all(second)) == [0, 2, 4, -1], "the loss is told")
        assert second.status().dropped == 2


def test_any_thread_may_put(path: Path) -> None:
    """Eight threads at once: every record is there once, those of a thread in its order."""
    with opened(path) as opening:

        def put(first: int) -> None:
            for number in range(first, first + 500):
                opening.put(record(number))

        threads = [threading.Thread(target=put, args=(1000 * index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until(lambda: not opening.status().in_memory, "all is written")
        found = numbers(take_all(opening))
    assert len(found) == len(set(found)) == 4000
    for index in range(8):
        mine = [number for number in found if number // 1000 == index]
        assert mine == sorted(mine)


def test_the_retries_of_a_failing_disk_are_bounded(path: Path, monkeypatch) -> None:
    """However long it fails, attempts stay apart, and each fault is one line in the log."""
    monkeypatch.setattr(keeper, "FIRST_RETRY_S", 0.05)
    keeping = keeper.Keeper(path / "x", 1 << 20, lambda *_: None)
    path.parent.mkdir()
    path.write_text("in the way")
    waits_s = []
    for _ in range(12):
        keeping._retry_s = 0.0
        assert not keeping.open()
        waits_s.append(keeping.wait_s)
    assert waits_s[0] < 0.06
    assert waits_s[-1] > keeper.LAST_RETRY_S - 1.0
    assert max(waits_s) <= keeper.LAST_RETRY_S
