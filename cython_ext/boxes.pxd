cdef Py_ssize_t mark_rows(
    const float[:, ::1] values, Py_ssize_t first, Py_ssize_t objectness, float threshold, int[::1] hits
) noexcept nogil

cdef Py_ssize_t mark_columns(
    const float[:, ::1] values, Py_ssize_t first, Py_ssize_t objectness, float threshold, int[::1] hits
) noexcept nogil

cdef Py_ssize_t fill_ssd(
    const float[:, ::1] encodings,
    const float[:, ::1] logits,
    const float[:, ::1] anchors,
    Py_ssize_t frame_w,
    Py_ssize_t frame_h,
    float threshold,
    float min_score,
    const unsigned char[::1] wanted,
    const int[::1] hits,
    float[:, ::1] boxes,
    float[::1] scores,
    int[::1] class_ids,
) noexcept nogil

cdef Py_ssize_t fill_yolo(
    const float[:, :] values,
    Py_ssize_t first,
    Py_ssize_t objectness,
    Py_ssize_t input_h,
    Py_ssize_t input_w,
    float min_score,
    const unsigned char[::1] wanted,
    const int[::1] hits,
    float[:, ::1] boxes,
    float[::1] scores,
    int[::1] class_ids,
) noexcept nogil
