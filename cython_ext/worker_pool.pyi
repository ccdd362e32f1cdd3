"""Hands tasks from an event loop to threads and results back; docstrings in full in `worker_pool.pyx`."""

from collections.abc import Callable
from typing import Self, final

# Cython adds these to a compiled module.
__test__: dict[str, str]

MAX_WORKERS: int

@final
class WorkerPool:
    """Workers that each have at most one task; their threads are the caller's."""

    def __new__(cls, workers: int) -> Self: ...
    @property
    def workers(self) -> int:
        """How many workers there are."""

    @property
    def free_workers(self) -> int:
        """How many workers have nothing to do."""

    def submit(self, task: object) -> None:
        """Give a task to a free worker; IndexError when there is none, RuntimeError once stopped."""

    def collect(self) -> list[tuple[object, object]]:
        """Return each (task, result) completed since the last call, and free their workers."""

    def fileno(self) -> int:
        """Return the descriptor that is readable while there is something to collect."""

    def run_worker(self, worker: int, work: Callable[..., object]) -> None:
        """Serve a worker in the calling thread until the pool has stopped."""

    def stop(self) -> None:
        """Take no more tasks; each thread ends after the one that it has."""

    def close(self) -> None:
        """Stop, drop what was not collected, and close the descriptor once no thread serves a worker."""
