"""Hands tasks from an event loop to threads and results back: `worker_pool.hpp` for Python.

A task wakes the one thread that will do it, which waits without the GIL. Completions wake the loop through
one descriptor, once for all that it has not collected yet.
"""

cimport cython

import operator

MAX_WORKERS = 1024


@cython.final
@cython.auto_pickle(False)
cdef class WorkerPool:
    """Workers that each have at most one task; nothing ever waits in here.

    The threads are the caller's: ``threading.Thread(target=pool.run_worker, args=(number, work))`` for each
    worker. One thread, the event loop's, calls all else, and reads `fileno` to learn when to `collect`:
    ``loop.add_reader(pool, on_readable)``.

    Args:
        workers: how many, 1 to 1,024.

    Raises:
        TypeError, ValueError: another number.
        RuntimeError: the system gives no descriptor.

    """

    # What the native pool has in hand stays in `held`, at its worker's place: a task, then (task, result). So
    # the pointers in there are only told from null, and the garbage collector sees everything.

    def __cinit__(self, workers):
        self.workers = _integer("workers", workers, 1, MAX_WORKERS)
        self.native.reset(new NativePool(self.workers))
        self.completions.reserve(self.workers)
        self.held = [None] * self.workers
        self.served = [False] * self.workers

    @property
    def free_workers(self):
        """How many workers have nothing to do; 0 once the pool has stopped."""
        return 0 if self.stopped or self.closed else self.native.get().free_workers()

    def submit(self, task):
        """Give a task, any object, to a free worker and wake its thread.

        Raises:
            IndexError: no worker is free; one is, once the loop has collected what it did.
            RuntimeError: the pool has stopped.

        """
        if self.stopped:
            raise RuntimeError("submit: the pool has stopped")
        cdef int worker = self.native.get().next_worker()
        if worker < 0:
            raise IndexError(f"submit: none of {self.workers} workers is free")
        self.held[worker] = task
        self.native.get().submit(<void*>task)

    def collect(self):
        """Take what has been completed since the last call, and free those workers.

        Returns:
            (task, result) for each, first completed first; empty when there is none, or the pool is closed.

        """
        cdef list results = []
        if self.closed:
            return results
        self.native.get().collect(self.completions)
        for completion in self.completions:
            results.append(self.held[completion.worker])
            self.held[completion.worker] = None
        return results

    def fileno(self):
        """Return the descriptor that is readable while there is something to collect.

        It may also be readable when there no longer is. It belongs to the pool: take it out of the event loop
        before `close`.

        Raises:
            ValueError: the pool is closed.

        """
        if self.closed:
            raise ValueError("fileno: the pool is closed")
        return self.native.get().fd()

    def run_worker(self, worker, work):
        """Serve a worker in the calling thread: call ``work(task)`` for each of its tasks, until the stop.

        What `work` returns is the result. What it raises, SystemExit and the like included, is the result
        instead: the thread goes on, and whoever collects tells an exception from an answer.

        A task submitted before the stop is still done. The calling thread waits without the GIL.

        Args:
            worker: its number, 0 to below `workers`; each is served by one thread at a time.
            work: called with the GIL held; it releases it where it can.

        Raises:
            TypeError, ValueError: another number.
            RuntimeError: another thread serves this worker.

        """
        cdef int number = _integer("worker", worker, 0, self.workers - 1)
        if self.closed:
            return
        if self.served[number]:
            raise RuntimeError(f"worker: {number} is already served by another thread")
        self.served[number] = True
        try:
            self._serve(number, work)
        finally:
            self.served[number] = False
            self._release()

    cdef int _serve(self, int worker, work) except -1:
        cdef NativePool* native = self.native.get()
        cdef void* taken
        with nogil:
            taken = native.wait(worker)
        while taken != NULL and not self.closed:
            task = self.held[worker]
            try:
                result = work(task)
            except BaseException as error:
                result = error
            if self.closed:
                break
            self.held[worker] = (task, result)
            # From here on the loop alone decides how long they live.
            task = result = None
            with nogil:
                native.complete(worker, taken)
                taken = native.wait(worker)
        return 0

    def stop(self):
        """Take no more tasks; each thread ends after the one that its worker has. Does not wait for them."""
        self.stopped = True
        if not self.closed:
            self.native.get().stop()

    def close(self):
        """Stop, drop every task and result not collected, and close the descriptor.

        While a thread still serves a worker, the descriptor stays open; the last one to leave closes it, and
        what it has worked on is dropped. A thread that hangs for ever keeps the pool, and harms nobody.
        """
        self.stop()
        self.closed = True
        self.held = [None] * self.workers
        self._release()

    cdef int _release(self) except -1:
        if self.closed and not any(self.served):
            self.native.reset()
        return 0


def _integer(name, value, least, most):
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {value!r}") from None
    if not least <= number <= most:
        raise ValueError(f"{name}: expected {least} to {most}, got {value!r}")
    return number
