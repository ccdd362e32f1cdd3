"""The bytes of the two messages that every frame costs; docstrings in full in `messages.pyx`."""

# Cython adds these to a compiled module.
__pyx_capi__: dict[str, object]
__test__: dict[str, str]

def read_detect_request(data: bytes) -> tuple[int, memoryview, int, int, int, str, int, int, int | None]:
    """Read a DetectRequest without copying its image; ValueError when the bytes are none."""

def write_detect_response(
    frame_id: int,
    outcome: int,
    objects: tuple[tuple[str, float, int, int, int, int], ...],
    detail: str,
    queue_ms: float,
    work_ms: float,
) -> bytes:
    """Write a DetectResponse."""
