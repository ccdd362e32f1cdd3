"""RTSP 1.0 messages (RFC 2326) as bytes on a connection: requests read within bounds, responses written."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

MAX_HEAD_BYTES = 8192
"""Request line and headers together."""
MAX_BODY_BYTES = 4096

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    413: "Request Entity Too Large",
    454: "Session Not Found",
    455: "Method Not Valid in This State",
    461: "Unsupported Transport",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "RTSP Version not supported",
    551: "Option not supported",
}


class MessageError(Exception):
    """What came cannot be read as a request; `status` is what it deserves, and the connection ends."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case, and a body has been read and left out."""

    method: str
    uri: str
    headers: Mapping[str, str]


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read the next request, passing over interleaved binary data (the viewer's RTCP); None at the end.

    The reader's limit must be MAX_HEAD_BYTES. Raises MessageError.
    """
    try:
        while (first := await reader.readexactly(1)) == b"$":
            head = await reader.readexactly(3)
            await reader.readexactly(int.from_bytes(head[1:]))
        head = first + await reader.readuntil(b"\r\n\r\n")
        request = _parse(head.decode(errors="surrogateescape"))
        await reader.readexactly(_body_bytes(request))
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raise MessageError(413, f"a request head of more than {MAX_HEAD_BYTES} bytes") from None
    return request


def _parse(head: str) -> Request:
    first, *lines = head.strip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise MessageError(400, "a request line that is not METHOD URI VERSION")
    method, uri, version = words
    if version != "RTSP/1.0":
        raise MessageError(505, "another version than RTSP/1.0")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise MessageError(400, "a header without a colon")
        headers[name.strip().lower()] = value.strip()
    return Request(method, uri, headers)


def _body_bytes(request: Request) -> int:
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise MessageError(400, "a Content-Length that is no number")
    if len(length) > 9 or int(length) > MAX_BODY_BYTES:
        raise MessageError(413, f"a body of more than {MAX_BODY_BYTES} bytes")
    return int(length)


def format_response(status: int, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Format a response; Content-Length is added when there is a body."""
    lines = [f"RTSP/1.0 {status} {REASONS[status]}", *(f"{name}: {value}" for name, value in headers.items())]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode(errors="surrogateescape") + body
