cdef Py_ssize_t count_pairs(
    const unsigned char* data, Py_ssize_t length, unsigned char first, unsigned char second
) noexcept nogil
