"""The first stages of every network source: resolve the host and connect to it, with their own errors."""

import ipaddress
import socket
from collections.abc import Callable

from edge_agent.capture.errors import CaptureError


def reach(
    host: str, port: int, timeout_s: float, on_resolved: Callable[[], None] = lambda: None
) -> socket.socket:
    """Connect to a camera's port; raises CaptureError with what stands in the way.

    Resolving is bounded by the resolver's own configuration, and by whoever watches; `on_resolved` is called
    after it. Connecting takes at most `timeout_s`, however many addresses the host has.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no valid host name"
        raise CaptureError(f"cannot resolve {host}: {reason}", is_away=True) from None
    on_resolved()
    each_s = timeout_s / len(addresses)
    failure: OSError | None = None
    for family, kind, protocol, _, address in addresses:
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(each_s)
        try:
            connection.connect(address)
        except OSError as error:
            connection.close()
            failure = error
        else:
            return connection
    if isinstance(failure, TimeoutError):
        text = f"TCP connect: no answer from {host} port {port} within {timeout_s:g} s"
    else:
        text = f"TCP connect: {host} port {port}: {failure.strerror if failure else 'no address'}"
    # Refused, too: without its own network a gateway may ask elsewhere, and a recorder restarts as a whole.
    raise CaptureError(text, is_away=True)


def is_address(host: str) -> bool:
    """Tell whether a host is an address, so that nothing is to be resolved."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
