"""Whether names resolve and ports can be reached, and whether there is a way out of this network."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

from edge_agent.capture.reach import is_address
from edge_agent.config.address import is_loopback
from edge_agent.doctor.finding import Finding, note, ok, problem

CONNECT_TIMEOUT_S = 5.0
SLOW_NAME_S = 1.0
ROUTE_UP = 0x1
ROUTE_GATEWAY = 0x2

Addresses = list[tuple[socket.AddressFamily, str]]


def check_route(server_host: str) -> Iterator[Finding]:
    """Tell whether there is a default route, where the server is beyond this machine."""
    if is_loopback(server_host):
        return
    if has_default_route():
        yield ok("network", "has a default route")
    else:
        yield note("network", "has no default route", "ip route; see cable, modem or DHCP")


def has_default_route() -> bool:
    """Look into the kernel's tables, of IPv4 and IPv6."""
    for line in _lines(Path("/proc/net/route"))[1:]:
        fields = line.split()
        if fields[1] == "00000000" and int(fields[3], 16) & ROUTE_UP:
            return True
    for line in _lines(Path("/proc/net/ipv6_route")):
        fields = line.split()
        is_default = fields[0] == "0" * 32 and fields[1] == "00"
        if is_default and int(fields[8], 16) & ROUTE_GATEWAY:
            return True
    return False


def resolve(subject: str, host: str, port: int) -> tuple[list[Finding], Addresses]:
    """Resolve a host, and say how that went; an address is nothing to speak of."""
    begun_s = time.monotonic()
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no valid host name"
        advice = "give its address instead of its name, or see /etc/resolv.conf and the name server"
        return [problem(subject, f"{host} does not resolve: {reason}", advice)], []
    took_s = time.monotonic() - begun_s
    addresses: Addresses = [(family, str(address[0])) for family, _, _, _, address in found]
    if is_address(host):
        return [], addresses
    shown = ", ".join(dict.fromkeys(address for _, address in addresses))
    if took_s > SLOW_NAME_S:
        slow = note(
            subject, f"{host} is {shown}; the name server took {took_s:.1f} s", "see /etc/resolv.conf"
        )
        return [slow], addresses
    return [ok(subject, f"{host} is {shown}")], addresses


def connect(subject: str, host: str, port: int, what: str) -> tuple[Finding, socket.socket | None]:
    """Connect to a port, and say how that went."""
    place = f"{host} port {port}"
    begun_s = time.monotonic()
    try:
        connection = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
    except ConnectionRefusedError:
        advice = f"the machine is there and nothing listens: see that {what} runs, and its port"
        return problem(subject, f"{place}: the connection is refused", advice), None
    except TimeoutError:
        advice = f"see power, cable and firewall, and the address of {what}"
        return problem(subject, f"{place}: no answer within {CONNECT_TIMEOUT_S:g} s", advice), None
    except OSError as error:
        advice = f"ip route; see cable, network and the address of {what}"
        return problem(subject, f"{place}: {error.strerror}", advice), None
    return ok(subject, f"{place}: reached in {(time.monotonic() - begun_s) * 1e3:.0f} ms"), connection


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").splitlines()
    except OSError:
        return []
