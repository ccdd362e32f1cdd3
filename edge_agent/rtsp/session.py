"""One RTSP connection: its requests, the one session it may hold, and its end."""

import asyncio
import contextlib
import logging
import secrets
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from edge_agent.rtsp.auth import Credentials, Gate
from edge_agent.rtsp.broadcast import Broadcast
from edge_agent.rtsp.drip import Drip
from edge_agent.rtsp.faults import MALFORMED_SDP, Faults
from edge_agent.rtsp.messages import MessageError, Request, format_response, read_request
from edge_agent.rtsp.sdp import TRACK
from edge_agent.rtsp.transport import InterleavedTransport, RtpTransport, UdpTransport, choose_transport
from edge_agent.rtsp.viewer import MAX_BACKLOG_BYTES, Viewer

STREAM_PATH = "/live"

_METHODS = ("OPTIONS", "DESCRIBE", "SETUP", "PLAY", "TEARDOWN", "GET_PARAMETER")
_SOCKET_BUFFER_BYTES = 256 * 1024
"""Small enough for a slow viewer to lose packets rather than to see pictures of long ago."""
_LINGER_S = 1.0
"""For a viewer to take the last answer."""

_log = logging.getLogger(__name__)


class Session:
    """Answers one connection until it ends, or stays without any request for the session's timeout.

    RTP's own reports do not keep it alive; requests do.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        broadcast: Broadcast,
        *,
        credentials: Credentials | None,
        timeout_s: int,
        faults: Faults,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._broadcast = broadcast
        self._gate = Gate(credentials) if credentials else None
        self._timeout_s = timeout_s
        self._faults = faults
        self._id = secrets.token_hex(8)
        self._transport: RtpTransport | None = None
        self._viewer: Viewer | None = None
        self._drip: Drip | None = None
        self._host = writer.get_extra_info("sockname")[0]
        # One who has gone before he was looked at has no name any more.
        peer = writer.get_extra_info("peername") or ("?", 0)
        self._peer_host: str = peer[0]
        self._name = f"viewer {peer[0]}:{peer[1]}"
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
        writer.transport.set_write_buffer_limits(high=MAX_BACKLOG_BYTES)

    async def run(self) -> None:
        """Serve the connection to its end, and close it."""
        try:
            await self._answer_all()
            await self._hang_up()
        except TimeoutError:
            _log.info("%s is gone: no request for %d s", self._name, self._timeout_s)
        except OSError as error:
            _log.info("%s is gone: %s", self._name, error.strerror or error)
        finally:
            if self._viewer is not None:
                self._broadcast.leave(self._viewer)
            if self._transport is not None:
                self._transport.close()
            if self._drip is not None:
                self._drip.close()
            self._writer.transport.abort()

    async def _answer_all(self) -> None:
        while True:
            async with asyncio.timeout(self._timeout_s):
                # Answers that nobody reads must not pile up.
                await self._writer.drain()
                try:
                    request = await read_request(self._reader)
                except MessageError as error:
                    _log.info("%s sent %s", self._name, error)
                    self._writer.write(format_response(error.status, {}))
                    return
            if request is None:
                return
            self._broadcast.counts.requests[request.method if request.method in _METHODS else "other"] += 1
            if self._faults.silences(request.method):
                await self._stay_silent()
                return
            if self._faults.drips(request.method) and self._drip is None:
                self._drip = Drip(self._writer)
            if request.method == "GET_PARAMETER" and self._faults.closes_on_get_parameter:
                return
            self._answer(request)
            if request.method == "TEARDOWN":
                return

    async def _stay_silent(self) -> None:
        while await self._reader.read(4096):
            pass

    async def _hang_up(self) -> None:
        if self._viewer is not None:
            self._broadcast.leave(self._viewer)
        self._writer.close()
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_LINGER_S):
                await self._writer.wait_closed()

    def _answer(self, request: Request) -> None:
        if (status := self._refusal(request)) is not None:
            challenge = {"WWW-Authenticate": self._gate.challenge} if self._gate and status == 401 else {}
            self._reply(request, status, challenge)
        elif request.method == "DESCRIBE":
            self._describe(request)
        elif request.method == "SETUP":
            self._set_up(request)
        elif request.method == "PLAY":
            self._play(request)
        elif request.method == "OPTIONS":
            self._reply(request, 200, {"Public": ", ".join(_METHODS)})
        elif request.method == "GET_PARAMETER":
            self._reply(request, self._faults.get_parameter_status)
        else:
            self._reply(request, 200)

    def _refusal(self, request: Request) -> int | None:
        if request.method not in _METHODS:
            return 501
        if request.method == "OPTIONS":  # a viewer asks before it knows that a password is wanted
            return None
        if not self._is_admitted(request):
            return 401
        if not _is_here(request.uri):
            return 404
        if request.headers.get("session", self._id).partition(";")[0] != self._id:
            return 454
        return None

    def _is_admitted(self, request: Request) -> bool:
        if self._gate is None:
            return True
        given = request.headers.get("authorization")
        if given is None:
            return False
        if self._gate.opens(given, request.method, request.uri):
            return True
        self._broadcast.counts.refused += 1
        _log.warning("%s is refused: wrong user or password", self._name)
        return False

    def _describe(self, request: Request) -> None:
        sdp = self._broadcast.description.sdp(self._host)
        if self._faults.malformed_sdp is not None:
            sdp = MALFORMED_SDP[self._faults.malformed_sdp](sdp)
        headers = {"Content-Type": "application/sdp", "Content-Base": request.uri.rstrip("/") + "/"}
        self._reply(request, 200, headers, sdp.encode())

    def _set_up(self, request: Request) -> None:
        wish = choose_transport(request.headers.get("transport", ""))
        if self._viewer is not None:
            self._reply(request, 455)
            return
        if wish is None:
            self._reply(request, 461)
            return
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        first, second = wish.pair
        if wish.over == "tcp":
            self._transport = InterleavedTransport(self._drip or self._writer, wish.pair)
            chosen = f"RTP/AVP/TCP;unicast;interleaved={first}-{second}"
        else:
            # Only ever to the host that asks: a camera that sends elsewhere is a weapon.
            self._transport = udp = UdpTransport(self._host, self._peer_host, wish.pair)
            ports = "{}-{}".format(*udp.ports)
            chosen = f"RTP/AVP;unicast;client_port={first}-{second};server_port={ports}"
        self._reply(request, 200, {"Transport": chosen, "Session": f"{self._id};timeout={self._timeout_s}"})

    def _play(self, request: Request) -> None:
        if self._transport is None:
            self._reply(request, 455)
            return
        self._reply(request, 200, {"Session": self._id, "Range": "npt=now-"})
        if self._viewer is None:
            _log.info("%s watches", self._name)
            self._viewer = Viewer(
                self._name, self._transport, self._faults, self._broadcast.counts, self._writer.close
            )
            self._broadcast.join(self._viewer)

    def _reply(
        self, request: Request, status: int, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        numbered = {"CSeq": request.headers["cseq"]} if "cseq" in request.headers else {}
        (self._drip or self._writer).write(format_response(status, {**numbered, **(headers or {})}, body))


def _is_here(uri: str) -> bool:
    try:
        path = urlsplit(uri).path
    except ValueError:
        return False
    return path.rstrip("/") in (STREAM_PATH, f"{STREAM_PATH}/{TRACK}")
