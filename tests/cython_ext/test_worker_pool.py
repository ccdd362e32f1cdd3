"""`WorkerPool`: every task done once, by a free worker that is woken for it, and told to the loop once."""

import asyncio
import os
import re
import select
import sys
import threading
from typing import Any

import pytest

from cython_ext.worker_pool import MAX_WORKERS, WorkerPool
from tests.cython_ext.pool_threads import WAIT_S, Start, collect, thread_status, until_it_waits


def is_readable(pool: WorkerPool) -> bool:
    return bool(select.select([pool], [], [], 0)[0])


def test_a_task_is_done_and_its_result_collected(start: Start) -> None:
    """Task and result come back as the very objects; the worker is free again from then on."""
    pool, task = WorkerPool(1), object()
    start(pool, lambda found: (found, threading.current_thread().name))

    pool.submit(task)
    assert pool.free_workers == 0
    [(same_task, (seen, thread))] = collect(pool, 1)

    assert same_task is task
    assert seen is task
    assert thread == "worker-0"
    assert pool.free_workers == 1


def test_a_worker_counts_as_free_only_once_it_is_collected(start: Start) -> None:
    """A task for which no worker is free is refused, also when one is done but not yet collected."""
    pool = WorkerPool(2)
    start(pool, lambda task: task)
    pool.submit("a")
    pool.submit("b")
    assert select.select([pool], [], [], WAIT_S)[0]

    with pytest.raises(IndexError, match="submit: none of 2 workers is free"):
        pool.submit("c")

    assert sorted(task for task, _ in collect(pool, 2)) == ["a", "b"]
    pool.submit("c")
    assert collect(pool, 1) == [("c", "c")]


def test_the_worker_freed_last_is_taken_first(start: Start) -> None:
    """With one task at a time one worker does them all; its caches are warm."""
    pool = WorkerPool(4)
    start(pool, lambda task: threading.current_thread().name)

    names = set()
    for number in range(20):
        pool.submit(number)
        names.add(collect(pool, 1)[0][1])

    assert names == {"worker-0"}


def test_workers_work_side_by_side(start: Start) -> None:
    """All of them are in their work at once; nobody waits for another's."""
    pool, meet = WorkerPool(3), threading.Barrier(3)
    start(pool, lambda task: meet.wait(WAIT_S))

    for number in range(3):
        pool.submit(number)

    assert sorted(result for _, result in collect(pool, 3)) == [0, 1, 2]


def test_the_loop_is_told_once_for_all_that_it_has_not_collected(start: Start) -> None:
    """However many are done, the descriptor is written once; a collection leaves nothing to read."""
    pool = WorkerPool(3)
    for number in range(3):
        pool.submit(number)
    threads = start(pool, lambda number: -number)
    pool.stop()
    for thread in threads:
        thread.join(WAIT_S)

    counter = int.from_bytes(os.read(pool.fileno(), 8), sys.byteorder)

    assert counter == 1
    assert sorted(pool.collect()) == [(0, 0), (1, -1), (2, -2)]
    assert not is_readable(pool)
    assert pool.collect() == []


def test_what_work_raises_is_the_result(start: Start) -> None:
    """Whatever is raised, the thread goes on, and the traceback says where."""

    def fail(error: BaseException) -> None:
        raise error

    pool = WorkerPool(1)
    (thread,) = start(pool, fail)
    for error in (ValueError("bad"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()):
        pool.submit(error)
        [(task, result)] = collect(pool, 1)
        assert task is result is error
        assert result.__traceback__ is not None
    assert thread.is_alive()


def test_an_event_loop_reads_it(start: Start) -> None:
    """Thousands of tasks through asyncio: each is done once, by whichever worker is free."""
    pool, done, count = WorkerPool(4), [], 5000
    start(pool, lambda number: number * 2)

    async def main() -> None:
        loop, finished, numbers = asyncio.get_running_loop(), asyncio.Event(), iter(range(count))

        def fill() -> None:
            while pool.free_workers and (number := next(numbers, None)) is not None:
                pool.submit(number)

        def on_readable() -> None:
            done.extend(pool.collect())
            fill()
            if len(done) == count:
                finished.set()

        loop.add_reader(pool, on_readable)
        fill()
        await asyncio.wait_for(finished.wait(), WAIT_S)
        loop.remove_reader(pool)

    asyncio.run(main())

    assert sorted(done) == [(number, number * 2) for number in range(count)]
    assert pool.free_workers == 4


def test_a_task_wakes_the_worker_that_does_it_and_no_other(start: Start) -> None:
    """A worker without a task sleeps; not even now and then does it look whether there is one."""
    pool = WorkerPool(3)
    threads = start(pool, lambda task: task)
    for thread in threads:
        until_it_waits(thread)
    before = [int(thread_status(thread)["voluntary_ctxt_switches"]) for thread in threads]

    for number in range(200):
        pool.submit(number)
        collect(pool, 1)
    until_it_waits(threads[0])

    after = [int(thread_status(thread)["voluntary_ctxt_switches"]) for thread in threads]
    assert after[0] > before[0]
    assert after[1:] == before[1:]


def test_stopping_lets_what_was_submitted_be_done(start: Start) -> None:
    """Threads that start only after the stop do their one task, and end; the results can be collected."""
    pool = WorkerPool(3)
    pool.submit("a")
    pool.submit("b")
    pool.stop()
    for thread in start(pool, str.upper):
        thread.join(WAIT_S)
        assert not thread.is_alive()

    with pytest.raises(RuntimeError, match="submit: the pool has stopped"):
        pool.submit("c")
    assert sorted(pool.collect()) == [("a", "A"), ("b", "B")]
    assert pool.free_workers == 0


def test_a_stopped_pool_keeps_no_thread(start: Start) -> None:
    """Stopping twice is once; a thread that comes later leaves at once."""
    pool = WorkerPool(2)
    threads = start(pool, lambda task: task)
    pool.stop()
    pool.stop()
    for thread in threads:
        thread.join(WAIT_S)

    for _ in range(3):
        pool.run_worker(0, lambda task: task)

    assert not any(thread.is_alive() for thread in threads)


def test_a_worker_is_served_by_one_thread(start: Start) -> None:
    """A second thread for the same worker is refused."""
    pool = WorkerPool(1)
    (thread,) = start(pool, lambda task: task)
    until_it_waits(thread)

    with pytest.raises(RuntimeError, match="worker: 0 is already served by another thread"):
        pool.run_worker(0, lambda task: task)


@pytest.mark.parametrize(
    ("workers", "error", "message"),
    [
        (0, ValueError, f"workers: expected 1 to {MAX_WORKERS}, got 0"),
        (-1, ValueError, f"workers: expected 1 to {MAX_WORKERS}, got -1"),
        (MAX_WORKERS + 1, ValueError, f"workers: expected 1 to {MAX_WORKERS}, got {MAX_WORKERS + 1}"),
        (2**40, ValueError, f"workers: expected 1 to {MAX_WORKERS}, got {2**40}"),
        (10**30, ValueError, f"workers: expected 1 to {MAX_WORKERS}, got {10**30}"),
        (1.5, TypeError, "workers: expected an integer, got 1.5"),
        (None, TypeError, "workers: expected an integer, got None"),
    ],
)
def test_a_number_of_workers_that_cannot_be_is_named(
    workers: Any, error: type[Exception], message: str
) -> None:
    """The message says what was expected and what was found."""
    with pytest.raises(error, match=re.escape(message)):
        WorkerPool(workers)


@pytest.mark.parametrize(
    ("worker", "error", "message"),
    [
        (-1, ValueError, "worker: expected 0 to 1, got -1"),
        (2, ValueError, "worker: expected 0 to 1, got 2"),
        (2**64, ValueError, f"worker: expected 0 to 1, got {2**64}"),
        ("0", TypeError, "worker: expected an integer, got '0'"),
    ],
)
def test_a_worker_that_is_not_there_is_named(worker: Any, error: type[Exception], message: str) -> None:
    """The message says which there are."""
    with pytest.raises(error, match=re.escape(message)):
        WorkerPool(2).run_worker(worker, lambda task: task)
