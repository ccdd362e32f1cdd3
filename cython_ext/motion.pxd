from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t

from cython_ext.motion_light cimport Light

cdef struct Shares:
    float mean
    float deviation
    float restless

cdef void reduce_to_cells(
    const uint8_t* luma,
    Py_ssize_t stride,
    Py_ssize_t height,
    Py_ssize_t width,
    Py_ssize_t side,
    Py_ssize_t row_step,
    uint16_t[::1] sums,
    float[:, ::1] means,
) noexcept nogil

cdef class MotionBackground:
    cdef readonly object grid, cells, mean, deviation, foreground
    cdef readonly int64_t frames
    cdef float least_levels, noise_factor
    cdef Py_ssize_t least_cells
    cdef int64_t differing, changed
    cdef bint is_busy
    cdef const uint8_t[::1] ignored
    cdef float[:, ::1] cell_rows
    cdef float[::1] now, means, deviations, lit, base, limits, still, still_s
    cdef uint8_t[::1] marks, used, front
    cdef uint16_t[::1] sums
    cdef int32_t[::1] levels, sizes, patch
    cdef int32_t[:, ::1] changes
    cdef void begin(self) noexcept nogil
    cdef void choose_used(self) noexcept nogil
    cdef void compare(self, Light light) noexcept nogil
    cdef void note_rest(self, Light light, float elapsed_s) noexcept nogil
    cdef int64_t find_patches(self) noexcept nogil
    cdef Py_ssize_t gather_patch(self, Py_ssize_t start) noexcept nogil
    cdef bint is_plain(self, Py_ssize_t count) noexcept nogil
    cdef bint is_forgotten(self, Py_ssize_t count) noexcept nogil
    cdef bint is_uncovered(self, Py_ssize_t count) noexcept nogil
    cdef bint is_lit(self, Py_ssize_t count) noexcept nogil
    cdef void learn(self, Shares shares, bint learning) noexcept nogil
