"""WS-Discovery: one question to the network, and who answers it; every answer may be hostile.

The messages are the library's; the socket is not, for the sake of what the library does not bound or tell:
how much is taken, and who it really came from. A camera is asked further only where its answer came from.
"""

import contextlib
import ipaddress
import logging
import re
import socket
import struct
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fcntl import ioctl
from urllib.parse import unquote, urlsplit

from onveef import wsdiscovery

from edge_agent.discovery.xml_bounds import XmlBoundsError, check_xml
from edge_agent.errors import AgentError, one_line

log = logging.getLogger(__name__)

GROUP = ("239.255.255.250", 3702)
# UDP loses packets, and some cameras answer the second question only.
PROBES = 3
MOST_DEVICES = 64
# A recorder answers once for each of its channels.
MOST_OF_ONE_ADDRESS = 4
# Answers are of one or two kilobytes.
MOST_ANSWER_BYTES = 16 * 1024
MOST_ANSWERS = 2000
LONGEST_NAME = 64
LONGEST_PATH = 256
PATH = re.compile(r"/[!-~]*")

SIOCGIFADDR = 0x8915


class DiscoveryError(AgentError):
    """Nothing could be asked, or nobody answered."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that answered: where, and what it calls itself."""

    address: str
    """The IP address (or name, where a person named it) without brackets."""
    service: str
    """The URL of its device service, at that address."""
    name: str = ""
    hardware: str = ""


def interfaces() -> list[str]:
    """Give the IPv4 address of each network interface, without loopback."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                request = struct.pack("256s", name.encode()[:15])
                found.append(socket.inet_ntoa(ioctl(any_socket.fileno(), SIOCGIFADDR, request)[20:24]))
    return [address for address in found if not ipaddress.ip_address(address).is_loopback]


def probe(senders: Sequence[str], timeout_s: float) -> list[Device]:
    """Ask the networks of these local addresses; listen for `timeout_s` seconds, for all together.

    Raises:
        DiscoveryError: from none of the addresses could be asked.

    """
    answers: dict[tuple[str, str], Device] = {}
    with contextlib.ExitStack() as closing:
        sockets, problems = [], []
        for sender in senders:
            try:
                sockets.append(closing.enter_context(_open(sender)))
            except OSError as error:
                problems.append(f"{sender}: {error.strerror or error}")
        if not sockets:
            raise DiscoveryError(f"cannot ask the network: {'; '.join(problems) or 'it has no interface'}")
        _ask(sockets, time.monotonic() + timeout_s, answers)
    return list(answers.values())


def _open(sender: str) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sender))
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        opened.bind((sender, 0))
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened


def _ask(sockets: list[socket.socket], deadline_s: float, answers: dict[tuple[str, str], Device]) -> None:
    import selectors

    begun_s = time.monotonic()
    pause_s = (deadline_s - begun_s) / PROBES
    asked = taken = 0
    with selectors.DefaultSelector() as selector:
        for each in sockets:
            selector.register(each, selectors.EVENT_READ)
        while (now_s := time.monotonic()) < deadline_s and taken < MOST_ANSWERS:
            if asked < PROBES and now_s >= begun_s + asked * pause_s:
                asked += 1
                _send(sockets)
            next_s = begun_s + asked * pause_s if asked < PROBES else deadline_s
            for key, _ in selector.select(max(0.0, min(next_s, deadline_s) - time.monotonic())):
                taken += 1
                with contextlib.suppress(OSError):
                    data, sender = key.fileobj.recvfrom(MOST_ANSWER_BYTES + 1)  # type: ignore[union-attr]
                    _take(data, str(sender[0]), answers)
    if taken >= MOST_ANSWERS:
        log.warning("more than %d answers: the rest is not looked at", MOST_ANSWERS)


def _send(sockets: Iterable[socket.socket]) -> None:
    # Each question has its own number, and devices of any kind are welcome: many cameras name none.
    for each in sockets:
        message = wsdiscovery.build_probe(message_id=f"urn:uuid:{uuid.uuid4()}")
        try:
            each.sendto(message.encode(), GROUP)
        except OSError as error:
            log.debug("the network cannot be asked: %s", error.strerror)


def _take(data: bytes, sender: str, answers: dict[tuple[str, str], Device]) -> None:
    if len(data) > MOST_ANSWER_BYTES:
        return
    text = data.decode("utf-8", "replace")
    try:
        check_xml(text)
    except XmlBoundsError:
        return
    matches = wsdiscovery.parse_probe_matches(text)
    for match in matches[:MOST_OF_ONE_ADDRESS]:
        device = Device(
            sender,
            service_at(sender, match.xaddrs),
            _said(match.name),
            _said(match.hardware),
        )
        of_sender = Counter(address for address, _ in answers)[sender]
        is_new = (sender, device.service) not in answers
        if not is_new or (len(answers) < MOST_DEVICES and of_sender < MOST_OF_ONE_ADDRESS):
            answers[sender, device.service] = device


def service_at(host: str, urls: Iterable[str]) -> str:
    """Give the URL of the device service at this host, by what the device says of scheme, port and path.

    A URL that names this host comes first; from one of another host only the rest is taken, so that nobody
    but who answered is asked, or told a password's digest.
    """
    parts = [part for part in map(_parts, urls) if part is not None]
    named = [part for part in parts if part[1] == host]
    scheme, _, port, path = (named or parts or [("http", host, None, "/onvif/device_service")])[0]
    authority = f"[{host}]" if ":" in host else host
    return f"{scheme}://{authority}{'' if port is None else f':{port}'}{path}"


def _parts(url: str) -> tuple[str, str, int | None, str] | None:
    """Take a URL apart: scheme, host, port, path; None for one that cannot be a device service."""
    try:
        split = urlsplit(url)
        scheme, host, port = split.scheme.lower(), split.hostname or "", split.port
    except ValueError:
        return None
    if scheme not in ("http", "https") or len(split.path) > LONGEST_PATH or not PATH.fullmatch(split.path):
        return None
    return scheme, host, port, split.path


def _said(text: str) -> str:
    """Make what a device says of itself fit to be shown."""
    return one_line(unquote(text))[:LONGEST_NAME]
