"""`WorkerPool`: nothing is kept alive, open or waited for longer than need be, and nothing pulled away."""

import gc
import os
import resource
import select
import subprocess
import sys
import threading
import weakref

import pytest

from cython_ext.worker_pool import WorkerPool
from tests.cython_ext.pool_threads import WAIT_S, Start, collect, until_it_waits


class Thing:
    """An object that can be weakly referred to."""

    def __init__(self, holds: object = None) -> None:
        self.holds = holds


def test_closing_closes_the_descriptor_and_drops_the_rest(start: Start) -> None:
    """A task that no thread took and a result that nobody collected both go; the pool then takes nothing."""
    pool, tasks, results = WorkerPool(3), [Thing(), Thing()], [Thing()]
    seen = [weakref.ref(thing) for thing in (*tasks, *results)]
    for task in tasks:
        pool.submit(task)
    thread = threading.Thread(target=pool.run_worker, args=(0, lambda task: results.pop()))
    thread.start()
    assert select.select([pool], [], [], WAIT_S)[0]
    descriptor = pool.fileno()
    del task
    tasks.clear()
    pool.stop()
    thread.join(WAIT_S)
    assert all(ref() is not None for ref in seen)

    pool.close()
    pool.close()

    assert [ref() for ref in seen] == [None, None, None]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with pytest.raises(ValueError, match="fileno: the pool is closed"):
        pool.fileno()
    with pytest.raises(RuntimeError, match="submit: the pool has stopped"):
        pool.submit(Thing())
    assert pool.collect() == []
    assert pool.free_workers == 0
    pool.run_worker(0, lambda task: task)


def test_a_worker_that_hangs_outlives_the_closed_pool() -> None:
    """Nothing is pulled away under it: when it is done at last, all goes, its result too."""
    pool, begun, end = WorkerPool(2), threading.Event(), threading.Event()
    seen: list[weakref.ref[Thing]] = []

    def hang(task: Thing) -> Thing:
        begun.set()
        end.wait(WAIT_S)
        result = Thing(task)
        seen.append(weakref.ref(result))
        return result

    task = Thing()
    seen.append(weakref.ref(task))
    pool.submit(task)
    threads = [threading.Thread(target=pool.run_worker, args=(number, hang)) for number in range(2)]
    for thread in threads:
        thread.start()
    assert begun.wait(WAIT_S)
    descriptor = pool.fileno()
    pool.close()
    del pool, task
    gc.collect()
    os.fstat(descriptor)

    end.set()
    for thread in threads:
        thread.join(WAIT_S)

    assert [ref() for ref in seen] == [None, None]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.parametrize("done", [False, True], ids=["never taken", "never collected"])
def test_a_cycle_through_the_pool_is_collected(done: bool) -> None:
    """A pool that holds what holds the pool is no leak, even when it was never closed."""
    pool = WorkerPool(1)
    task = Thing(pool)
    seen, descriptor = weakref.ref(task), pool.fileno()
    pool.submit(task)
    if done:
        pool.stop()
        pool.run_worker(0, lambda task: [task, task.holds])
    del pool, task
    assert seen() is not None

    gc.collect()

    assert seen() is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_nothing_lives_longer_than_it_is_needed(start: Start) -> None:
    """A worker that waits again, and a pool that was collected from, hold on to neither task nor result."""
    pool = WorkerPool(1)
    (thread,) = start(pool, Thing)
    task = Thing()
    task_ref = weakref.ref(task)
    pool.submit(task)
    [(same, result)] = collect(pool, 1)
    result_ref = weakref.ref(result)
    until_it_waits(thread)

    del task, same, result

    assert task_ref() is None
    assert result_ref() is None


def test_references_are_neither_lost_nor_left(start: Start) -> None:
    """After thousands of rounds, failures among them, an object is referred to as often as before."""
    pool, task, result, error = WorkerPool(2), Thing(), Thing(), ValueError()

    def work(found: tuple[Thing, bool]) -> Thing:
        if found[1]:
            raise error
        return result

    threads = start(pool, work)
    before = [sys.getrefcount(thing) for thing in (task, result, error)]

    for number in range(3000):
        pool.submit((task, number % 3 == 0))
        collect(pool, 1)
        error.__traceback__ = None
    for thread in threads:
        until_it_waits(thread)

    assert [sys.getrefcount(thing) for thing in (task, result, error)] == before


def test_pools_come_and_go() -> None:
    """A thousand pools, half of them never closed, leave no descriptor and no thread behind."""
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208

    for number in range(1000):
        pool = WorkerPool(2)
        thread = threading.Thread(target=pool.run_worker, args=(number % 2, lambda task: task))
        thread.start()
        pool.submit(number)
        pool.stop()
        thread.join(WAIT_S)
        if number % 4 < 2:
            pool.close()
    del pool, thread

    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208
    assert threading.active_count() == threads


def test_without_a_descriptor_there_is_no_pool() -> None:
    """The error says why; nothing is left behind, and the next pool is as any other."""
    spare = os.open("/dev/null", os.O_RDONLY)
    os.close(spare)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
    try:
        with pytest.raises(RuntimeError, match="eventfd: Too many open files"):
            WorkerPool(2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert WorkerPool(2).fileno() == spare


EXIT = """
import threading, time
from cython_ext.worker_pool import WorkerPool

class AtTheVeryEnd:
    def __del__(self, sleep=time.sleep):
        sleep(1.5)

def work(task):
    begun.set()
    time.sleep(1.0)
    print("after the end", flush=True)

begun, pool, last = threading.Event(), WorkerPool(2), AtTheVeryEnd()
for number in range(2):
    threading.Thread(target=pool.run_worker, args=(number, work), daemon=True).start()
pool.submit(None)
assert begun.wait(20)
print("main is done", flush=True)
"""


def test_a_program_ends_while_its_workers_wait_and_work() -> None:
    """Daemon threads, one waiting and one amid its work, neither keep the interpreter nor break its end."""
    done = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, "main is done\n", "")
