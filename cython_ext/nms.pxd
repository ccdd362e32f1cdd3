from libc.stdint cimport int64_t

cdef double iou(const float[:, ::1] boxes, Py_ssize_t a, Py_ssize_t b) noexcept nogil

cdef Py_ssize_t keep_best(
    const float[:, ::1] boxes,
    const float[::1] scores,
    const int[::1] class_ids,
    const Py_ssize_t[::1] order,
    double iou_threshold,
    bint class_agnostic,
    Py_ssize_t max_candidates,
    int64_t[::1] kept,
) noexcept nogil
