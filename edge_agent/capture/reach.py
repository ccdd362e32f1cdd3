"""The first stage of every network source: resolve the host and connect to it, with its own errors."""

import socket

from edge_agent.capture.errors import CaptureError


def reach(host: str, port: int, timeout_s: float) -> socket.socket:
    """Connect to a camera's port; raises CaptureError with what stands in the way.

    Resolving is bounded by the resolver's own configuration; connecting takes at most `timeout_s`, however
    many addresses the host has.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no valid host name"
        raise CaptureError(f"cannot resolve {host}: {reason}") from None
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
        raise CaptureError(f"TCP connect: no answer from {host} port {port} within {timeout_s:g} s")
    reason = failure.strerror if failure else "no address"
    raise CaptureError(f"TCP connect: {host} port {port}: {reason}")
