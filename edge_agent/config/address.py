"""HOST:PORT addresses, and the one rule for what may travel in plaintext."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal

from edge_agent.config import ServerConfig
from edge_agent.config.rules import shown

ChannelSecurity = Literal["tls", "plaintext"]

LONGEST_HOST = 253
NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")


def split_host_port(text: str) -> tuple[str, int | None]:
    """Split HOST, HOST:PORT, [IPV6] or [IPV6]:PORT; brackets are taken off the host.

    Raises ValueError with what is wrong. Its text never repeats what it was given: that may be a password
    in the wrong place.
    """
    if text.startswith("["):
        host, bracket, tail = text[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise ValueError("an IPv6 host stands in brackets, like [::1]:554")
        port = tail[1:] if tail else None
    else:
        host, colon, after = text.partition(":")
        if "/" in text:
            raise ValueError("it is not a URL")
        if ":" in after:
            raise ValueError("an IPv6 host stands in brackets, like [::1]:554")
        port = after if colon else None
    check_host(host, in_brackets=text.startswith("["))
    return host, None if port is None else _port(port)


def check_host(host: str, *, in_brackets: bool = False) -> None:
    """Raise ValueError unless this is a host name, an IPv4 address, or (in brackets) an IPv6 address."""
    if not host:
        raise ValueError("the host is missing")
    if in_brackets:
        if not _is_ip(host.replace("%25", "%"), IPv6Address):
            raise ValueError("what stands in brackets is no IPv6 address")
    elif re.fullmatch(r"[0-9.]+", host):
        if not _is_ip(host, IPv4Address):
            raise ValueError("a host of digits and dots is to be an IPv4 address")
    elif len(host) > LONGEST_HOST or not NAME.fullmatch(host):
        raise ValueError("the host is neither a name of letters, digits, '-', '_' and '.' nor an address")


def check_server_address(text: str) -> str:
    """Give back the HOST:PORT of a central server, or raise ValueError."""
    expected = "expected HOST:PORT, like 192.0.2.1:50051 or [::1]:50051"
    try:
        _, port = split_host_port(text)
    except ValueError as error:
        raise ValueError(f"found {shown(text)}: {error}; {expected}") from None
    if port is None:
        raise ValueError(f"found {shown(text)}: the port is missing; {expected}")
    return text


def is_loopback(host: str) -> bool:
    """Tell whether a host (no brackets) is this machine by definition: 127.0.0.0/8, ::1 or localhost."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def channel_security(server: ServerConfig) -> ChannelSecurity:
    """Decide how the channel to the central server is secured.

    TLS where an authority is named or the system's are wanted; plaintext on loopback, or where it was asked
    for by name. Raises ValueError for anything else: nothing leaves the machine in plaintext by default.
    """
    if server.insecure and (server.tls or server.ca):
        raise ValueError("insecure contradicts tls and ca: choose one")
    if server.tls or server.ca:
        return "tls"
    host, _ = split_host_port(server.address)
    if server.insecure or is_loopback(host):
        return "plaintext"
    raise ValueError(f"{server.address} is not loopback: give --ca FILE, --tls or --insecure")


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise ValueError("the port is not a number from 1 to 65535")
    return int(text)


def _is_ip(text: str, kind: type[IPv4Address | IPv6Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True
