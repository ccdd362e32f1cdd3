"""The file of the authorities that a server's certificate is checked against."""

import ssl
from pathlib import Path

from edge_agent.config.atomic_file import open_at_once

MOST_BYTES = 1 << 20


def read_authorities(path: Path) -> bytes:
    """Read a PEM file of at least one certificate, at most a megabyte.

    Raises ValueError with the path and what is wrong.
    """
    try:
        with open(path, "rb", opener=open_at_once) as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path}: found more than {MOST_BYTES} bytes, expected a PEM file of certificates")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise ValueError(f"{path}: found no certificate, expected a PEM file") from None
    return content
