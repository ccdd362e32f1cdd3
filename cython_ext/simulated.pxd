from libc.stdint cimport int64_t
from posix.types cimport clockid_t

cdef int64_t spin(clockid_t clock, int64_t duration_ns) noexcept nogil
