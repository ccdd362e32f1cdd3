cdef void linear_taps(Py_ssize_t source, Py_ssize_t[::1] taps, float[::1] weights) noexcept nogil

cdef void resize_into(
    const unsigned char[:, ::1] rows,
    const Py_ssize_t[::1] taps_y,
    const float[::1] weights_y,
    const Py_ssize_t[::1] taps_x,
    const float[::1] weights_x,
    const float* scale,
    const float* offset,
    bint bgr,
    float[::1] mixed,
    float[:, :, ::1] planes,
    Py_ssize_t left,
    Py_ssize_t top,
) noexcept nogil

cdef void fill_around(
    float[:, :, ::1] planes,
    Py_ssize_t left,
    Py_ssize_t top,
    Py_ssize_t width,
    Py_ssize_t height,
    const float* padding,
) noexcept nogil

cdef void unletterbox_into(
    const float[:, ::1] boxes,
    const double* pad,
    const double* scale,
    const double* limit,
    float[:, ::1] frame_boxes,
) noexcept nogil
