"""The spool: takes records from any thread, keeps them on disk by a thread of its own, hands them out."""

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from edge_agent import wire
from edge_agent.clock import Clock
from edge_agent.record import Dropped, Record
from edge_agent.spool.keeper import Keeper
from edge_agent.spool.rows import Batch, Loss, Position, Row
from edge_agent.thread_names import show_name

log = logging.getLogger(__name__)

# What memory holds until the disk has it, be that for a moment or, in trouble, for long.
MAX_MEMORY_RECORDS = 10_000
MAX_MEMORY_BYTES = 2 << 20
# A record that is larger is a fault of whoever made it.
MAX_RECORD_BYTES = 8 << 10
# A record after a pause is written at once; those that follow so soon share the next commit.
COMMIT_DELAY_S = 0.1
COMMIT_ROWS = 500
# What was acknowledged goes with the next commit, or after this long; a deletion lost is a second sending.
DELETE_DELAY_S = 2.0
# Losses are told of at most this often.
LOSS_PERIOD_S = 5.0
# A file that could not be opened for this long may be overtaken by what is in memory.
OVERTAKE_S = 60.0
CLOSE_TIMEOUT_S = 2.0
# A disk that takes so long over one thing, as flash does that dies, is trouble that it does not tell itself.
SILENT_DISK_S = 15.0


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """How the spool is."""

    waiting: int
    """Records that the server has not acknowledged."""
    in_memory: int
    """Those of them that the disk does not have yet."""
    bytes: int
    """What they take of the file."""
    dropped: int
    """Records lost since the start, for want of room."""
    refused: int
    """Records that the server will never take, since the start."""
    uploaded: int
    """Records that the server acknowledged, since the start."""
    last_uploaded_s: float | None
    """time.monotonic() of the last acknowledgement."""
    trouble: str
    """What is wrong with the file, in plain words; empty while nothing is."""


@dataclass(frozen=True, slots=True)
class _Request:
    after: Position
    most_rows: int
    most_bytes: int
    answer: "Future[Batch | None]"


class Spool:
    """Keeps records until they are acknowledged.

    Each opening has an id of its own and counts from 1: whatever a power cut has taken from the end of the
    file, no identity is ever given twice.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.spool_id = str(uuid.uuid4())
        self._changed = threading.Condition()
        self._sequence = 0
        self._memory: deque[Row] = deque()
        self._memory_bytes = 0
        self._written_s = -COMMIT_DELAY_S
        self._through = Position()
        self._to_delete = 0
        self._deletion_s = 0.0
        self._requests: deque[_Request] = deque()
        self._loss = Loss()
        self._told_s = -LOSS_PERIOD_S
        self._dropped = self._refused = self._uploaded = 0
        self._last_uploaded_s: float | None = None
        self._closing = False
        self._on_news: Callable[[], None] = _nobody
        self._stored = (0, 0, "")
        self._writing = 0
        self._busy_since_s: float | None = None
        self._clock = Clock()
        self._keeper = Keeper(path, max_bytes, self._lost)
        self._thread = threading.Thread(target=self._run, name="spool", daemon=True)

    @classmethod
    def open(cls, path: Path, max_bytes: int) -> "Spool":
        """Begin. The file is opened by the spool's thread: no disk, however slow, is waited for here."""
        spool = cls(path, max_bytes)
        spool._thread.start()
        return spool

    def put(self, record: Record) -> None:
        """Take a record; from any thread; never blocks, and never raises for a record of the contract."""
        try:
            body = wire.build_record(record)
        except (TypeError, ValueError):
            log.exception("a record of camera %s is none of the contract and left out", record.camera)
            body = b""
        if len(body) > MAX_RECORD_BYTES:
            log.error("a record of camera %s has %d bytes and is left out", record.camera, len(body))
        if not 0 < len(body) <= MAX_RECORD_BYTES:
            self._lost(1, 0, "", range(0))
            return
        with self._changed:
            self._add(body)
            self._changed.notify()

    def status(self) -> SpoolStatus:
        """Tell how it is; from any thread, never blocks."""
        with self._changed:
            rows, used_bytes, trouble = self._stored
            in_memory = self._writing + len(self._memory)
            silent_s = time.monotonic() - self._busy_since_s if self._busy_since_s is not None else 0.0
            if not trouble and silent_s > SILENT_DISK_S:
                trouble = f"the disk has not answered for {silent_s:.0f} s; new records are kept in memory"
            return SpoolStatus(
                waiting=max(0, rows - self._to_delete) + in_memory,
                in_memory=in_memory,
                bytes=used_bytes,
                dropped=self._dropped,
                refused=self._refused,
                uploaded=self._uploaded,
                last_uploaded_s=self._last_uploaded_s,
                trouble=trouble,
            )

    def resize(self, max_bytes: int) -> None:
        """Hold so many bytes on disk from now on."""
        self._keeper.max_bytes = max_bytes

    def on_news(self, callback: Callable[[], None]) -> None:
        """Call this, from the spool's thread, whenever there may be more to take."""
        self._on_news = callback

    def take(self, after: Position, most_rows: int, most_bytes: int) -> "Future[Batch | None]":
        """Ask for the next rows after a position, oldest first; the answer is None where there are none."""
        answer: Future[Batch | None] = Future()
        with self._changed:
            if self._closing:
                answer.set_result(None)
            else:
                self._requests.append(_Request(after, most_rows, most_bytes, answer))
                self._changed.notify()
        return answer

    def acknowledge(self, batch: Batch, refused: int = 0) -> None:
        """Forget rows that the server has, or will never take."""
        with self._changed:
            if batch.ids:
                if not self._to_delete:
                    self._deletion_s = time.monotonic()
                self._to_delete += len(batch.ids)
                self._through = Position(batch.end.file, batch.ids[-1])
            else:
                while self._memory and self._memory[0].sequence <= batch.last_sequence:
                    self._memory_bytes -= len(self._memory.popleft().body)
            self._refused += refused
            self._uploaded += len(batch.rows) - refused
            self._last_uploaded_s = time.monotonic()
            self._changed.notify()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Write what waits and close; False when the disk takes longer: the thread is left to it."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _add(self, body: bytes, told: int = 0) -> None:
        self._sequence += 1
        self._memory.append(Row(self.spool_id, self._sequence, body, told))
        self._memory_bytes += len(body)
        self._shed()

    def _shed(self) -> None:
        while len(self._memory) > MAX_MEMORY_RECORDS or self._memory_bytes > MAX_MEMORY_BYTES:
            row = self._memory.popleft()
            self._memory_bytes -= len(row.body)
            sequences = range(row.sequence, row.sequence + 1)
            self._lost(0 if row.told else 1, row.told, row.spool_id, sequences)

    def _lost(self, records: int, told: int, spool_id: str, sequences: range) -> None:
        with self._changed:
            self._dropped += records
            self._loss.add(records + told, sequences if spool_id == self.spool_id else range(0))

    # From here on: the spool's thread.

    def _run(self) -> None:
        show_name()
        while True:
            with self._changed:
                while (wait_s := self._idle_s()) > 0:
                    self._changed.wait(wait_s)
                closing = self._closing
                self._busy_since_s = time.monotonic()
            try:
                self._work()
            except Exception:
                log.exception("spool: internal error")
                time.sleep(1.0)
            with self._changed:
                self._busy_since_s = None
            if closing:
                break
        self._keeper.close()
        with self._changed:
            if self._memory:
                log.error("%d records could not be written before the end", len(self._memory))
            requests, self._requests = self._requests, deque()
        for request in requests:
            if request.answer.set_running_or_notify_cancel():
                request.answer.set_result(None)

    def _idle_s(self) -> float:
        """How long there is nothing to do."""
        if self._closing or self._requests:
            return 0.0
        now_s = time.monotonic()
        waits_s = [3600.0]
        if self._memory:
            waits_s.append(self._commit_s() - now_s)
        if self._to_delete:
            waits_s.append(self._deletion_s + DELETE_DELAY_S - now_s)
        if self._loss.records:
            waits_s.append(self._told_s + LOSS_PERIOD_S - now_s)
        if self._keeper.trouble or not self._keeper.is_open:
            waits_s.append(0.0)
        return max(0.0, min(waits_s), self._keeper.wait_s)

    def _commit_s(self) -> float:
        """When what is in memory is to be written: soon after the last commit, or at once when it is much."""
        return self._written_s + (COMMIT_DELAY_S if len(self._memory) < COMMIT_ROWS else 0.0)

    def _work(self) -> None:
        was_open = self._keeper.is_open
        opened = self._keeper.open()
        if opened and self._is_write_due():
            self._write()
        elif not (opened and was_open):
            stored = self._measured()
            with self._changed:
                self._stored = stored
            self._on_news()
        with self._changed:
            requests, self._requests = self._requests, deque()
            through = self._through
        for request in requests:
            if request.answer.set_running_or_notify_cancel():
                request.answer.set_result(self._next(request, through))

    def _is_write_due(self) -> bool:
        if self._keeper.wait_s:
            return False
        now_s = time.monotonic()
        with self._changed:
            return (
                self._closing
                or bool(self._keeper.trouble)
                or (bool(self._memory) and now_s >= self._commit_s())
                or (bool(self._to_delete) and now_s >= self._deletion_s + DELETE_DELAY_S)
                or (bool(self._loss.records) and now_s >= self._told_s + LOSS_PERIOD_S)
            )

    def _write(self) -> None:
        """Write what is in memory, some rows a commit, until nothing is or a commit fails."""
        more = True
        while more:
            with self._changed:
                rows = [self._memory.popleft() for _ in range(min(COMMIT_ROWS, len(self._memory)))]
                self._memory_bytes -= sum(len(row.body) for row in rows)
                self._writing = len(rows)
                self._tell_of_loss()
                through, to_delete = self._through, self._to_delete
            rows = rows[self._keeper.write(rows, through) :]
            stored = self._measured()
            with self._changed:
                if not self._keeper.trouble:
                    self._to_delete -= to_delete
                self._stored, self._writing = stored, 0
                self._memory.extendleft(reversed(rows))
                self._memory_bytes += sum(len(row.body) for row in rows)
                self._shed()
                more = bool(self._memory) and not self._keeper.trouble
                self._written_s = time.monotonic()
        self._on_news()

    def _tell_of_loss(self) -> None:
        """Put a record of what was lost, once the disk takes records."""
        now_s = time.monotonic()
        if self._loss.records and not self._keeper.trouble and now_s >= self._told_s + LOSS_PERIOD_S:
            self._told_s = now_s
            loss, self._loss = self._loss, Loss()
            body = Dropped(loss.records, loss.first_sequence, loss.last_sequence)
            self._add(wire.build_record(Record("", *self._clock.look(), body)), loss.records)

    def _measured(self) -> tuple[int, int, str]:
        used_bytes = self._keeper.used_bytes if not self._keeper.trouble else self._stored[1]
        return self._keeper.rows, used_bytes, self._keeper.trouble

    def _next(self, request: _Request, through: Position) -> Batch | None:
        batch = self._keeper.read(request.after, through, request.most_rows, request.most_bytes)
        if batch is not None or not self._keeper.may_pass(OVERTAKE_S):
            return batch
        rows: list[Row] = []
        size_bytes = 0
        with self._changed:
            for row in self._memory:
                if row.sequence <= request.after.memory_sequence:
                    continue
                size_bytes += len(row.body)
                if len(rows) == request.most_rows or (rows and size_bytes > request.most_bytes):
                    break
                rows.append(row)
        if not rows:
            return None
        return Batch(tuple(rows), (), replace(request.after, memory_sequence=rows[-1].sequence))


def _nobody() -> None:
    """Nobody waits for news."""
