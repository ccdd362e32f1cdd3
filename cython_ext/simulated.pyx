"""Work that is only time: a stand-in for a model when the load itself is what is measured."""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, clock_gettime, timespec
from posix.types cimport clockid_t

MAX_MS = 60_000


cdef inline int64_t now_ns(clockid_t clock) noexcept nogil:
    cdef timespec time
    clock_gettime(clock, &time)
    return <int64_t>time.tv_sec * 1_000_000_000 + time.tv_nsec


cdef int64_t spin(clockid_t clock, int64_t duration_ns) noexcept nogil:
    """Read the clock until it has advanced by `duration_ns`; return by how much it did."""
    cdef int64_t start = now_ns(clock)
    cdef int64_t elapsed = 0
    while elapsed < duration_ns:
        elapsed = now_ns(clock) - start
    return elapsed


def spin_cpu(ms):
    """Use processor time of the calling thread: what others on the same core use does not count.

    Args:
        ms: milliseconds of CLOCK_THREAD_CPUTIME_ID to use, 0 to 60,000.

    Returns:
        Nanoseconds used, at least what was asked for.

    Raises:
        ValueError: another number, NaN included.

    Releases the GIL, unless there is nothing to do.

    """
    return _spin(CLOCK_THREAD_CPUTIME_ID, ms)


def spin_wall(ms):
    """Be busy until time has passed, whether or not the thread was running.

    Surplus threads share the same passing time, so they seem to do more than their cores can: only for
    comparison with published tables that were measured like this.

    Args:
        ms: milliseconds of CLOCK_MONOTONIC to let pass, 0 to 60,000.

    Returns:
        Nanoseconds passed, at least what was asked for.

    Raises:
        ValueError: another number, NaN included.

    Releases the GIL, unless there is nothing to do.

    """
    return _spin(CLOCK_MONOTONIC, ms)


def _spin(clock, ms):
    if not 0 <= ms <= MAX_MS:
        raise ValueError(f"ms: expected 0 to {MAX_MS} milliseconds, got {ms!r}")
    cdef clockid_t which = clock
    cdef double milliseconds = ms
    cdef int64_t duration_ns = <int64_t>(milliseconds * 1e6)
    cdef int64_t elapsed
    if duration_ns == 0:
        # Handing the GIL over and back would be all the work.
        return 0
    with nogil:
        elapsed = spin(which, duration_ns)
    return elapsed
