"""The work of the published servers: a loop in Python, which holds the GIL."""

import time


def spin_cpu(work_ms: float) -> None:
    """Spin until the calling thread has used `work_ms` of its own processor time."""
    until_s = time.thread_time() + work_ms / 1e3
    while time.thread_time() < until_s:
        pass


def spin_wall(work_ms: float) -> None:
    """Spin until `work_ms` have passed by the clock, whoever else used the core meanwhile."""
    until_s = time.perf_counter() + work_ms / 1e3
    while time.perf_counter() < until_s:
        pass


SPINS = {"cpu": spin_cpu, "wall": spin_wall}
