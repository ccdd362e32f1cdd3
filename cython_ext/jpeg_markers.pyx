"""A JPEG's markers, counted at the speed of memory."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memchr


cdef Py_ssize_t count_pairs(
    const unsigned char* data, Py_ssize_t length, unsigned char first, unsigned char second
) noexcept nogil:
    """Count where `first` is followed by `second`; the two differ, so no two places overlap."""
    cdef const unsigned char* at = data
    cdef const unsigned char* last = data + length - 1
    cdef Py_ssize_t count = 0
    while at < last:
        at = <const unsigned char*>memchr(at, first, <size_t>(last - at))
        if at == NULL:
            break
        at += 1
        if at[0] == second:
            count += 1
    return count


def count_markers(bytes data not None, marker):
    """Count a marker in a JPEG file: 0xFF and its code (ITU-T T.81 table B.1).

    Entropy-coded data cannot hold one by chance, for there a zero follows each 0xFF.

    Args:
        data: the file; any bytes will do.
        marker: the code, 0x01 to 0xFE.

    Returns:
        How often the two bytes stand next to each other.

    Raises:
        TypeError: `data` is not bytes.
        ValueError: no code of a marker.

    Releases the GIL.

    """
    if not 0x01 <= marker <= 0xFE:
        raise ValueError(f"marker: expected 0x01 to 0xFE, got {marker!r}")
    cdef const unsigned char* start = <const unsigned char*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data), count
    cdef unsigned char code = marker
    with nogil:
        count = count_pairs(start, length, 0xFF, code)
    return count
