"""kill -9 and files that end too early: what was committed is there, and no identity comes twice."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from edge_agent.spool.store import Store
from tests.edge_agent.spool import spools
from tests.edge_agent.spool.spools import opened, put_durably, record, take_all
from tests.polling import wait_until

# Puts records without end, and prints the number of each once the disk has it.
PUTTER = """
import sys
import time
from pathlib import Path
from edge_agent.spool.rows import Position
from edge_agent.spool.spool import Spool
from tests.edge_agent.spool import spools
spool = Spool.open(Path(sys.argv[1]), spools.MAX_BYTES)
number, after = int(sys.argv[2]), Position()
while True:
    for number in range(number, number + 7):
        spool.put(spools.record(number))
    number += 1
    while spool.status().in_memory > 1000:
        time.sleep(0.001)
    while (batch := spools.take(spool, after)) is not None:
        after = batch.end
        print(spools.number_of(batch.rows[-1].body), flush=True)
"""


def killed_while_putting(path: Path, first: int, after_lines: int) -> int:
    """Run a process that puts records; gives the last number that it has seen on the disk."""
    with subprocess.Popen(
        [sys.executable, "-c", PUTTER, str(path), str(first)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(after_lines):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().splitlines(keepends=True)
    whole = [int(line) for line in lines if line.endswith("\n")]
    return whole[-1] if whole else first - 1


def killed_again_and_again(path: Path, times: int, seed: int) -> None:
    draw = random.Random(seed)
    number = 0
    for _ in range(times):
        seen = killed_while_putting(path, number, draw.randint(1, 8))
        with opened(path) as opening:
            wait_until(lambda: opening.status().waiting, "the file is read")
            batches = take_all(opening)
        found = spools.numbers(batches)
        # All that was on the disk, and perhaps the last commit that nobody was told of; nothing twice.
        assert found == list(range(len(found)))
        assert len(found) > seen
        number = len(found)
    identities = [(row.spool_id, row.sequence) for batch in batches for row in batch.rows]
    assert len(set(identities)) == len(identities)


def test_killed_at_any_instant_all_that_was_committed_is_there(tmp_path: Path) -> None:
    """Three times."""
    killed_again_and_again(tmp_path / "spool.db", times=3, seed=1)


@pytest.mark.soak
def test_killed_a_hundred_times(tmp_path: Path) -> None:
    """A hundred times."""
    killed_again_and_again(tmp_path / "spool.db", times=100, seed=2)


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """Give the files of an agent that has died: most rows in the database, some in the log."""
    path = tmp_path / "dead" / "spool.db"
    with opened(path) as opening:
        put_durably(opening, range(150))
    with opened(path) as second:
        for start in range(150, 300, 10):
            put_durably(second, range(start, start + 10))
        copy = tmp_path / "cut"
        shutil.copytree(path.parent, copy)
    assert (copy / "spool.db-wal").stat().st_size > 0
    return copy


def offsets(size: int, times: int, seed: int) -> list[int]:
    """Choose where to cut: at ends of pages and frames, beside them, and anywhere."""
    draw = random.Random(seed)
    pages = [draw.randrange(0, size + 1, 4096) for _ in range(times // 3)]
    frames = [min(size, 32 + 4120 * draw.randrange(0, 1 + size // 4120)) for _ in range(times // 3)]
    anywhere = [draw.randrange(size + 1) for _ in range(times - 2 * (times // 3))]
    return sorted({*pages, *frames, *anywhere, 0, 1, 31, 32, 100, size - 1})


def truncated(files: Path, place: Path, times: int, seed: int) -> None:
    """Cut the file or its log, open, go on: identities that were given are never given to anything else."""
    given: dict[tuple[str, int], int] = {
        (spool_id, sequence): number for spool_id, sequence, number in _committed_in(files, place)
    }
    assert sorted(given.values()) == list(range(300))
    for name in ("spool.db", "spool.db-wal"):
        for size in offsets((files / name).stat().st_size, times, seed):
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(files, place)
            os.truncate(place / name, size)
            with opened(place / "spool.db") as opening:
                for number in range(1000, 1003):
                    opening.put(record(number))
                wait_until(
                    lambda: not opening.status().in_memory, f"{name} cut at {size}: new records are written"
                )
                batches = take_all(opening)
                assert opening.status().trouble == ""
            rows = [row for batch in batches for row in batch.rows]
            # Besides the records themselves there may be one that tells of rows that were damaged.
            found = [number for number in spools.numbers(batches) if number >= 0]
            assert found[-3:] == [1000, 1001, 1002], f"{name} cut at {size}"
            for row in rows:
                number = spools.number_of(row.body)
                if 0 <= number < 1000:
                    assert given[row.spool_id, row.sequence] == number, f"{name} cut at {size}"
                else:
                    assert (row.spool_id, row.sequence) not in given, f"{name} cut at {size}"
            # In the order in which they were put, each once.
            assert found == sorted(set(found))


def _committed_in(files: Path, place: Path) -> list[tuple[str, int, int]]:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(files, place)
    return spools.committed(place / "spool.db")


def test_a_file_or_log_that_ends_too_early_gives_nothing_wrong(cut: Path, tmp_path: Path) -> None:
    """At a few dozen offsets of each."""
    truncated(cut, tmp_path / "place", times=9, seed=3)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_file_or_log_cut_at_hundreds_of_offsets(cut: Path, tmp_path: Path) -> None:
    """At some five hundred offsets of each."""
    truncated(cut, tmp_path / "place", times=500, seed=4)


def test_a_log_from_another_file_is_not_mixed_in(cut: Path, tmp_path: Path) -> None:
    """A power cut may leave a log of an earlier time beside the file: no row of it is taken for another."""
    given = {identity[:2]: identity[2] for identity in _committed_in(cut, tmp_path / "place")}
    old_log = (cut / "spool.db-wal").read_bytes()
    place = tmp_path / "place"
    with opened(place / "spool.db") as opening:
        put_durably(opening, range(2000, 2050))
    given |= {identity[:2]: identity[2] for identity in spools.committed(place / "spool.db")}
    (place / "spool.db-wal").write_bytes(old_log)
    with opened(place / "spool.db") as second:
        put_durably(second, range(3000, 3003))
        rows = [row for batch in take_all(second) for row in batch.rows]
    for row in rows:
        number = spools.number_of(row.body)
        assert number >= 3000 or given[row.spool_id, row.sequence] == number


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    """What no death of a process can show: each commit is synced, which is SQLite's FULL, in its log."""
    store = Store(tmp_path / "spool.db")
    settings = [store._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")]
    store.close()

    assert settings == [2, "wal"]


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """Who was seen where, and when, is nobody else's business."""
    path = tmp_path / "state" / "spool.db"
    with opened(path) as opening:
        put_durably(opening, range(3))
        assert path.parent.stat().st_mode & 0o077 == 0
        for file in path.parent.glob("spool.db*"):
            if not file.name.endswith(".ballast"):
                assert file.stat().st_mode & 0o077 == 0
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            spools.committed(path)
