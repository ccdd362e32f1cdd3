"""How the light has changed between a picture and its background, and what it makes of each level."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from cython_ext import motion_grid as rules

cdef int MOST_CHANGE = 255 * STEPS
cdef int LEAST_GROUP = rules.LEAST_GROUP
cdef int LEAST_SPAN = rules.LEAST_SPAN
cdef float LEAST_SLOPE = rules.LEAST_SLOPE
cdef float MOST_SLOPE = rules.MOST_SLOPE

if STEPS != rules.STEPS:
    raise ImportError(f"built with {STEPS} steps a level, expected {rules.STEPS}")


cdef Py_ssize_t lower_median(const int32_t[::1] counts, int64_t total) noexcept nogil:
    """Find the bin that holds the lower median of `total` counted values, at least one."""
    cdef int64_t passed = 0
    cdef Py_ssize_t i
    for i in range(counts.shape[0] - 1):
        passed += counts[i]
        if 2 * passed >= total:
            return i
    return counts.shape[0] - 1


cdef Light fit_light(
    const float[::1] now,
    const float[::1] means,
    const uint8_t[::1] used,
    int32_t[::1] levels,
    int32_t[:, ::1] changes,
) noexcept nogil:
    """Fit a resistant line through the medians of the dark and the bright half of the cells that are used.

    `levels` has a bin for each level, `changes` for each half one for each step, from -255 levels on.
    """
    cdef Light light
    cdef Py_ssize_t i, change, split, dark_at, bright_at
    cdef int64_t total = 0, bright = 0
    cdef bint is_bright
    light.shift = light.slope = light.at = 0
    levels[:] = 0
    changes[:, :] = 0
    for i in range(used.shape[0]):
        if used[i]:
            levels[<Py_ssize_t>means[i]] += 1
            total += 1
    if total == 0:
        return light
    split = lower_median(levels, total)
    for i in range(used.shape[0]):
        if used[i]:
            is_bright = means[i] >= <float>(split + 1)
            changes[is_bright, steps(now[i] - means[i]) + MOST_CHANGE] += 1
            bright += is_bright
    if bright * LEAST_GROUP >= total:
        dark_at = lower_median(levels[: split + 1], total - bright)
        bright_at = split + 1 + lower_median(levels[split + 1 :], bright)
        if bright_at - dark_at >= LEAST_SPAN:
            change = lower_median(changes[0], total - bright)
            light.slope = <float>(lower_median(changes[1], bright) - change) / <float>STEPS
            light.slope = light.slope / <float>(bright_at - dark_at)
            light.slope = min(max(light.slope, LEAST_SLOPE), MOST_SLOPE)
            light.shift = <float>(change - MOST_CHANGE) / <float>STEPS
            light.at = <float>dark_at
            return light
    for i in range(changes.shape[1]):
        changes[0, i] += changes[1, i]
    light.shift = <float>(lower_median(changes[0], total) - MOST_CHANGE) / <float>STEPS
    return light
