"""How RTP reaches one viewer: inside the RTSP connection, or as datagrams. Neither ever waits."""

import asyncio
import re
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from edge_agent.rtsp.drip import Drip

_BURST_PACKETS = 32
_BURST_GAP_S = 0.001
"""A keyframe sent as datagrams in one go overruns the viewer's socket; a camera's own link spreads it too."""
_BIND_ATTEMPTS = 64

_PAIR = re.compile(r"(interleaved|client_port)=(\d{1,5})(?:-(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class TransportWish:
    """What a viewer asks for in SETUP."""

    over: Literal["tcp", "udp"]
    pair: tuple[int, int]
    """Channels (tcp) or the viewer's ports (udp), for RTP and RTCP."""


def choose_transport(header: str) -> TransportWish | None:
    """Choose the first alternative of a Transport header that this camera can do; None when there is none."""
    for alternative in header.split(","):
        kind, *parameters = alternative.strip().split(";")
        found = {match[1]: match for match in map(_PAIR.fullmatch, parameters) if match}
        if kind == "RTP/AVP/TCP":
            pair = _pair(found.get("interleaved"), limit=255) or (0, 1)
            return TransportWish("tcp", pair)
        if kind in ("RTP/AVP", "RTP/AVP/UDP") and "multicast" not in parameters:
            ports = _pair(found.get("client_port"), limit=65535)
            if ports is not None and min(ports) > 0:
                return TransportWish("udp", ports)
    return None


def _pair(match: re.Match[str] | None, limit: int) -> tuple[int, int] | None:
    if match is None:
        return None
    first = int(match[2])
    second = int(match[3]) if match[3] else first + 1
    return (first, second) if max(first, second) <= limit else None


class RtpTransport(Protocol):
    """Takes packets at once; what the network has not taken yet is its backlog."""

    @property
    def backlog_bytes(self) -> int:
        """Bytes that wait in this process."""

    def send(self, packets: Sequence[bytes]) -> None:
        """Send RTP packets."""

    def send_control(self, packet: bytes) -> None:
        """Send an RTCP packet."""

    def close(self) -> None:
        """Give up sockets of its own; what waits is discarded."""


class InterleavedTransport:
    """RTP/AVP/TCP: packets between the answers on the connection, each behind `$`, channel and length."""

    def __init__(self, writer: asyncio.StreamWriter | Drip, channels: tuple[int, int]) -> None:
        self._writer = writer
        self._rtp, self._rtcp = (b"$" + channel.to_bytes(1) for channel in channels)

    @property
    def backlog_bytes(self) -> int:
        """Bytes that wait in this process."""
        return self._writer.transport.get_write_buffer_size()

    def send(self, packets: Sequence[bytes]) -> None:
        """Send RTP packets."""
        self._writer.write(b"".join(self._rtp + len(packet).to_bytes(2) + packet for packet in packets))

    def send_control(self, packet: bytes) -> None:
        """Send an RTCP packet."""
        self._writer.write(self._rtcp + len(packet).to_bytes(2) + packet)

    def close(self) -> None:
        """Leave the connection, which is the session's."""


class UdpTransport:
    """RTP/AVP unicast: a pair of neighbouring ports, RTP on the even one, to a pair of the viewer's.

    What the viewer sends there (reports, holes punched into a NAT) asks for nothing and is not read.
    """

    def __init__(self, host: str, viewer_host: str, viewer_ports: tuple[int, int]) -> None:
        """Bind a pair on the address `host` and tie it to the viewer's; raises OSError when none is free."""
        self._rtp, self._rtcp = _bind_pair(host)
        try:
            self._rtp.connect((viewer_host, viewer_ports[0]))
            self._rtcp.connect((viewer_host, viewer_ports[1]))
        except OSError:
            self._rtp.close()
            self._rtcp.close()
            raise
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._next_burst: asyncio.TimerHandle | None = None

    @property
    def ports(self) -> tuple[int, int]:
        """The camera's ports for RTP and RTCP."""
        return self._rtp.getsockname()[1], self._rtcp.getsockname()[1]

    @property
    def backlog_bytes(self) -> int:
        """Bytes that wait for their burst, or for room in the socket."""
        return self._waiting_bytes

    def send(self, packets: Sequence[bytes]) -> None:
        """Send RTP packets."""
        self._waiting.extend(packets)
        self._waiting_bytes += sum(map(len, packets))
        if self._next_burst is None:
            self._send_burst()

    def _send_burst(self) -> None:
        self._next_burst = None
        for _ in range(_BURST_PACKETS):
            if not self._waiting or not _sent(self._rtp, self._waiting[0]):
                break
            self._waiting_bytes -= len(self._waiting.popleft())
        if self._waiting:
            self._next_burst = asyncio.get_running_loop().call_later(_BURST_GAP_S, self._send_burst)

    def send_control(self, packet: bytes) -> None:
        """Send an RTCP packet."""
        _sent(self._rtcp, packet)

    def close(self) -> None:
        """Close both sockets; what waits is discarded."""
        if self._next_burst is not None:
            self._next_burst.cancel()
        self._rtp.close()
        self._rtcp.close()


def _sent(end: socket.socket, packet: bytes) -> bool:
    """Send a datagram; False when the socket has no room for it now."""
    try:
        end.send(packet)
    except BlockingIOError:
        return False
    except OSError:  # nobody is there, yet or any more: a datagram is lost then
        pass
    return True


def _bind_pair(host: str) -> tuple[socket.socket, socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for _ in range(_BIND_ATTEMPTS):
        rtp, rtcp = (socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) for _ in "12")
        try:
            rtp.bind((host, 0))
            port = rtp.getsockname()[1]
            if port % 2 == 0:
                rtcp.bind((host, port + 1))
                return rtp, rtcp
        except OSError:
            pass  # the neighbour is taken: try another pair
        rtp.close()
        rtcp.close()
    raise OSError(f"no two neighbouring UDP ports are free on {host}")
