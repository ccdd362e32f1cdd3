"""A JPEG's markers; docstrings in full in `jpeg_markers.pyx`."""

# Cython adds these to a compiled module.
__pyx_capi__: dict[str, object]
__test__: dict[str, str]

def count_markers(data: bytes, marker: int) -> int:
    """Count where 0xFF is followed by a marker's code, 0x01 to 0xFE."""
