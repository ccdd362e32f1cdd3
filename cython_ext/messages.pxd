from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

cdef struct Reader:
    const unsigned char* at
    const unsigned char* end

cdef struct Request:
    uint64_t frame_id
    const unsigned char* image
    Py_ssize_t image_length
    uint32_t width
    uint32_t height
    int32_t format
    const unsigned char* camera_id
    Py_ssize_t camera_id_length
    int64_t capture_time_ns
    uint32_t age_ms
    uint32_t max_age_ms
    bint has_max_age
    uint64_t sent_ms

cdef int read_request(Reader* reader, Request* request) noexcept nogil
