"""`spin_cpu` and `spin_wall`: time that is used, by one clock or the other."""

import threading
import time
from collections.abc import Callable

import pytest

from cython_ext import reference
from cython_ext.simulated import spin_cpu, spin_wall

Spin = Callable[[float], int]
BOTH = pytest.mark.parametrize("spin", [spin_cpu, spin_wall])


@pytest.mark.parametrize("spin", [spin_cpu, reference.spin_cpu])
def test_spin_cpu_uses_the_threads_own_time(spin: Spin) -> None:
    """The thread's processor time advances by at least what was asked for, and by what is answered."""
    before = time.thread_time_ns()
    used_ns = spin(20)
    advanced_ns = time.thread_time_ns() - before

    assert 20_000_000 <= used_ns <= advanced_ns


def test_spin_cpu_does_not_count_what_other_threads_use() -> None:
    """Four threads of 30 ms each use 120 ms of the process, however many cores there are."""
    before = time.process_time_ns()
    threads = [threading.Thread(target=spin_cpu, args=(30,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert time.process_time_ns() - before >= 120_000_000


@pytest.mark.parametrize("spin", [spin_wall, reference.spin_wall])
def test_spin_wall_lets_time_pass(spin: Spin) -> None:
    """The monotonic clock advances by at least what was asked for, and by what is answered."""
    before = time.monotonic_ns()
    passed_ns = spin(20)
    advanced_ns = time.monotonic_ns() - before

    assert 20_000_000 <= passed_ns <= advanced_ns


@BOTH
@pytest.mark.parametrize("ms", [0, 0.0, 0.25, 3])
def test_a_short_spin_is_one(spin: Spin, ms: float) -> None:
    """Zero, fractions and whole numbers are milliseconds."""
    assert spin(ms) >= ms * 1e6


@BOTH
@pytest.mark.parametrize("ms", [-1, -1e-9, float("nan"), float("inf"), -float("inf"), 60_000.1, 10**30])
def test_a_time_out_of_range_is_refused(spin: Spin, ms: float) -> None:
    """Only 0 to a minute; the message says what was found."""
    with pytest.raises(ValueError, match="ms: expected 0 to 60000 milliseconds, got"):
        spin(ms)


@BOTH
def test_what_is_no_number_is_refused(spin: Spin) -> None:
    """Text is not read as a number."""
    with pytest.raises(TypeError):
        spin("5")  # type: ignore[arg-type]
