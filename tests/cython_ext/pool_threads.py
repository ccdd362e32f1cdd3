"""What the worker pool's tests share: its threads, the loop's part, and how one sees a thread at rest."""

import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cython_ext.worker_pool import WorkerPool

WAIT_S = 30.0

Work = Callable[[Any], object]
Start = Callable[[WorkerPool, Work], list[threading.Thread]]


def collect(pool: WorkerPool, count: int) -> list[tuple[Any, Any]]:
    """Collect this many completions, as a loop would: woken by the descriptor."""
    results: list[tuple[Any, Any]] = []
    while len(results) < count:
        readable, _, _ = select.select([pool], [], [], WAIT_S)
        assert readable, f"only {len(results)} of {count} tasks were completed"
        results += pool.collect()
    assert len(results) == count
    return results


def thread_status(thread: threading.Thread) -> dict[str, str]:
    lines = Path(f"/proc/self/task/{thread.native_id}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def until_it_waits(thread: threading.Thread) -> None:
    """Wait until a thread sleeps, and has nothing left to wake it."""
    give_up_s = time.monotonic() + WAIT_S
    calm = 0
    while calm < 20:
        assert time.monotonic() < give_up_s, "the thread never came to rest"
        calm = calm + 1 if thread_status(thread)["State"].startswith("S") else 0
        time.sleep(0.002)
