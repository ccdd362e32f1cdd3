"""Whether an RTSP camera redirects: FFmpeg would follow, and take the password along to any host.

Only where there is a password: a DESCRIBE that is not refused makes some cameras start a stream, and stop it
again when the connection ends.
"""

import re
import socket
import ssl
import time
from typing import Final
from urllib.parse import urlsplit

from edge_agent.capture.errors import CaptureError

REQUEST: Final = "DESCRIBE {url} RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\r\n"
MOST_HEAD_BYTES: Final = 8192
REDIRECTS: Final = re.compile(rb"RTSP/\d\.\d\s+3\d\d\b")
LOCATION: Final = re.compile(rb"^location:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)


def refuse_redirect(connection: socket.socket, url: str, place: str, timeout_s: float) -> None:
    """Ask for a stream without credentials; raises CaptureError when the camera redirects or is silent.

    Any other answer, and a connection that ends, is left to FFmpeg's own attempt, which finds the reason.
    """
    try:
        head = _answer(connection, url, time.monotonic() + timeout_s)
    except TimeoutError:
        head = None
    except OSError:
        return
    if head is None:
        raise CaptureError(f"RTSP handshake: {place} did not answer within {timeout_s:g} s")
    if REDIRECTS.match(head):
        location = LOCATION.search(head)
        target = _host_and_port(location[1].decode(errors="replace")) if location else "another address"
        raise CaptureError(f"RTSP handshake: {place} redirects to {target}: give that address instead")


def _answer(connection: socket.socket, url: str, deadline_s: float) -> bytes:
    """Give the head of the answer, or what came of it before the connection ended."""
    connection.settimeout(_left_s(deadline_s))
    if url.startswith("rtsps:"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # as FFmpeg: cameras carry certificates of their own making
        context.verify_mode = ssl.CERT_NONE
        connection = context.wrap_socket(connection)
    with connection:
        connection.sendall(REQUEST.format(url=url).encode())
        head = b""
        while b"\r\n\r\n" not in head and len(head) < MOST_HEAD_BYTES:
            connection.settimeout(_left_s(deadline_s))
            received = connection.recv(MOST_HEAD_BYTES - len(head))
            if not received:
                break
            head += received
        return head


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _host_and_port(location: str) -> str:
    try:
        parts = urlsplit(location)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        return "another address"
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"
