from libc.stdint cimport int32_t, int64_t, uint8_t

# Of a level: what medians and sums are counted in (`motion_grid.STEPS`).
cdef enum:
    STEPS = 16

cdef struct Light:
    float shift
    float slope
    float at

cdef inline int64_t steps(float value) noexcept nogil:
    """Round a level to whole steps, halves upwards."""
    cdef float exact = value * <float>STEPS + <float>0.5
    cdef int64_t whole = <int64_t>exact
    return whole - (exact < <float>whole)

cdef inline float lit_level(float level, Light light) noexcept nogil:
    """Give a level as it is seen under another light."""
    cdef float lit = level + (light.shift + light.slope * (level - light.at))
    return min(max(lit, <float>0), <float>255)

cdef Py_ssize_t lower_median(const int32_t[::1] counts, int64_t total) noexcept nogil

cdef Light fit_light(
    const float[::1] now,
    const float[::1] means,
    const uint8_t[::1] used,
    int32_t[::1] levels,
    int32_t[:, ::1] changes,
) noexcept nogil
