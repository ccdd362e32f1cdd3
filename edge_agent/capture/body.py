"""What an HTTP camera sends, as a file for FFmpeg's multipart demuxer, which knows no bounds of its own."""

import time
from collections.abc import Generator
from typing import cast

import av

from edge_agent.capture.assembly import LARGEST_PICTURE_BYTES
from edge_agent.capture.errors import CaptureError

CHUNK_BYTES = 1 << 16


class HttpBody:
    """The body of a camera's answer, bounded in bytes and seconds from one picture to the next.

    FFmpeg speaks HTTP, with authentication and TLS, and follows no redirect: the password might go along.
    """

    def __init__(self, url: str, connect_timeout_s: float, read_timeout_s: float) -> None:
        self._container = av.open(
            url,
            format="data",
            options={"max_redirects": "0", "raw_packet_size": str(CHUNK_BYTES), "probesize": "32"},
            metadata_errors="replace",
            timeout=(connect_timeout_s, read_timeout_s),
        )
        self._chunks = cast("Generator[av.Packet[av.stream.Stream]]", self._container.demux())
        self._held = b""
        self.expect_picture(connect_timeout_s)

    def expect_picture(self, timeout_s: float) -> None:
        """Begin to count: the next picture is to be whole within this time and LARGEST_PICTURE_BYTES."""
        self._read_bytes = 0
        self._deadline_s = time.monotonic() + timeout_s

    def read(self, most_bytes: int) -> bytes:
        """Give what has come, none at the end; called by FFmpeg.

        Raises CaptureError or TimeoutError when the picture is too large or too late, and FFmpeg's errors.
        """
        if not self._held:
            if self._read_bytes > LARGEST_PICTURE_BYTES:
                raise CaptureError(f"no end of a picture within {LARGEST_PICTURE_BYTES >> 20} MiB")
            if time.monotonic() > self._deadline_s:
                raise TimeoutError
            chunk = next(self._chunks, None)
            self._held = b"" if chunk is None else bytes(chunk)
            self._read_bytes += len(self._held)
        given, self._held = self._held[:most_bytes], self._held[most_bytes:]
        return given

    def close(self) -> None:
        """Hang up."""
        self._chunks.close()  # merely dropped, PyAV's generator would leave its read buffer behind
        self._container.close()
