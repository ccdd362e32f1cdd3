"""The thread that writes records: batches in, acknowledgements out; no disk is waited for anywhere else."""

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from central_server import wire
from central_server.errors import BadMessageError
from central_server.record import RecordBatch
from central_server.records.store import FILE_NAME, RecordStore, Refused, Retention, is_corrupt

log = logging.getLogger(__name__)

# Batches of as many calls share one commit; there are no more at a time.
MAX_WAITING = 32
# The bounds are looked after this often, and after this many new records.
PRUNE_PERIOD_S = 60.0
PRUNE_ROWS = 5000
# After its work the thread rests as long as that took, up to this.
LONGEST_REST_S = 0.05
FORGET_PERIOD_S = 3600.0
CLOSE_TIMEOUT_S = 2.0


class NotStoredError(Exception):
    """The disk does not take the records now; they are not acknowledged."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a batch."""

    last_sequence: int
    refused: Refused


@dataclass(frozen=True, slots=True)
class _Job:
    message: bytes
    answer: "asyncio.Future[Stored]"


class RecordWriter:
    """Stores batches for the event loop that made it."""

    def __init__(self, directory: Path, retention: Retention) -> None:
        self._path = directory / FILE_NAME
        self._retention = retention
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(MAX_WAITING)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._store: RecordStore | None = None
        self._trouble = ""
        self._pruned_s = self._forgot_s = time.monotonic()
        self._unpruned = 0
        self._thread = threading.Thread(target=self._run, name="records", daemon=True)

    def start(self) -> None:
        """Begin; the file is opened by the thread."""
        self._thread.start()

    async def store(self, message: bytes) -> Stored:
        """Store a RecordBatch's records and wait until they are durable.

        Raises:
            BadMessageError: it is none.
            NotStoredError: they cannot be stored now.

        """
        # Given back when the thread is done with the batch, even if its call has gone meanwhile.
        await self._room.acquire()
        job = _Job(message, self._loop.create_future())
        self._jobs.put(job)
        return await job.answer

    def close(self) -> bool:
        """End the thread after what it has in hand; False when the disk makes that last longer."""
        self._jobs.put(None)
        self._thread.join(CLOSE_TIMEOUT_S)
        return not self._thread.is_alive()

    # From here on: the thread.

    def _run(self) -> None:
        closing = False
        while not closing:
            jobs, closing = self._next_jobs()
            begun_s = time.monotonic()
            batches = [(job, batch) for job in jobs if (batch := self._parsed(job)) is not None]
            if batches:
                self._append(batches)
            self._keep_bounds()
            if not closing:
                # Records are not urgent, frames are: gateways that come back with a backlog take half a core.
                time.sleep(min(time.monotonic() - begun_s, LONGEST_REST_S))
        if self._store is not None:
            self._store.close()

    def _next_jobs(self) -> tuple[list[_Job], bool]:
        """Wait for a job and give all that are there, and whether the end has come."""
        jobs: list[_Job] = []
        try:
            job = self._jobs.get(timeout=PRUNE_PERIOD_S)
            while job is not None:
                jobs.append(job)
                job = self._jobs.get_nowait()
        except queue.Empty:
            return jobs, False
        return jobs, True

    def _parsed(self, job: _Job) -> RecordBatch | None:
        try:
            return wire.parse_batch(job.message)
        except BadMessageError as error:
            self._answer([(job, error)])
        except Exception:  # a fault of ours: this batch is to blame, and the thread goes on
            log.exception("records: internal error")
            self._answer([(job, NotStoredError("internal error"))])
        return None

    def _append(self, batches: Sequence[tuple[_Job, RecordBatch]]) -> None:
        try:
            all_refused = self._opened().append([batch for _, batch in batches])
        except (sqlite3.Error, OSError) as error:
            self._failed(error)
            reason = f"the records cannot be stored now: {error}"
            self._answer([(job, NotStoredError(reason)) for job, _ in batches])
            return
        except Exception:  # a fault of ours: these batches are not acknowledged, and the thread goes on
            log.exception("records: internal error")
            self._answer([(job, NotStoredError("internal error")) for job, _ in batches])
            return
        self._unpruned += sum(len(batch.records) for _, batch in batches)
        if self._trouble:
            log.warning("records are stored again")
            self._trouble = ""
        self._answer(
            [
                (job, Stored(batch.last_sequence, batch.refused + refused))
                for (job, batch), refused in zip(batches, all_refused, strict=True)
            ]
        )

    def _opened(self) -> RecordStore:
        if self._store is not None and self._store.has_lost_its_file():
            log.error("records: %s was taken away; a new one is begun", self._path)
            self._store.close()
            self._store = None
        if self._store is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._store = RecordStore(self._path, self._retention)
        return self._store

    def _failed(self, error: sqlite3.Error | OSError) -> None:
        if str(error) != self._trouble:
            log.error("records cannot be stored: %s: %s", self._path, error)
            self._trouble = str(error)
        # The next attempt opens the file anew.
        if self._store is not None:
            self._store.close()
            self._store = None
        if isinstance(error, sqlite3.Error) and is_corrupt(error):
            self._set_aside()

    def _set_aside(self) -> None:
        """Move a damaged file away, once: what was acknowledged is in it, and is for people to look at."""
        aside = self._path.with_name(f"{FILE_NAME}.corrupt")
        if aside.exists():
            log.error("records: %s is damaged, and %s is there already: move both away", self._path, aside)
            return
        try:
            for suffix in ("", "-wal"):
                source = self._path.with_name(FILE_NAME + suffix)
                if source.exists():
                    source.rename(aside.with_name(aside.name + suffix))
            self._path.with_name(f"{FILE_NAME}-shm").unlink(missing_ok=True)
        except OSError as error:
            log.error("records: %s cannot be moved away: %s", self._path, error)  # noqa: TRY400 - no fault of ours
            return
        log.error("records: %s was damaged; it is now %s, and a new one is begun", self._path, aside)

    def _keep_bounds(self) -> None:
        """Take away what is too old or too much; while batches wait, no more than has come."""
        now_s = time.monotonic()
        is_due = now_s >= self._pruned_s + PRUNE_PERIOD_S or self._unpruned >= PRUNE_ROWS
        if not is_due:
            return
        try:
            # Also where none can be stored, or none come: what has to go makes room, and goes in its time.
            store = self._opened()
            store.forget_spools()
            while pruned := store.prune():
                self._unpruned -= pruned
                if self._unpruned <= 0 and not self._jobs.empty():
                    return
            self._pruned_s = now_s
            self._unpruned = 0
            if now_s >= self._forgot_s + FORGET_PERIOD_S:
                self._forgot_s = now_s
                store.forget_old_spools()
        except (sqlite3.Error, OSError) as error:
            self._pruned_s = now_s
            self._failed(error)

    def _answer(self, answers: Sequence[tuple[_Job, Stored | Exception]]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._tell, answers)
        except RuntimeError:  # the loop has closed
            return

    def _tell(self, answers: Sequence[tuple[_Job, Stored | Exception]]) -> None:
        for job, answer in answers:
            self._room.release()
            if job.answer.done():
                continue
            if isinstance(answer, Exception):
                job.answer.set_exception(answer)
            else:
                job.answer.set_result(answer)
