"""Where to listen and how it is protected: no plaintext beyond loopback unless told so."""

import ipaddress
import re
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from central_server.errors import ListenError, OptionError

# A chain of certificates has a few kilobytes.
MAX_PEM_BYTES = 1 << 20

ADDRESS = re.compile(r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<host>[^:\[\]]*)):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """A host (name, IPv4 or IPv6 without brackets) and a port, 0 for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        """Give the address as it is typed, IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; a name other than localhost counts as not."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of a PEM certificate chain and its PEM private key."""

    certificate: Path
    key: Path


def parse_address(text: str) -> Address:
    """Read HOST:PORT.

    Raises:
        OptionError: no such thing.

    """
    match = ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise OptionError(
            f"--listen: found {text!r}, expected HOST:PORT, e.g. 127.0.0.1:50051 or [::1]:50051"
        )
    return Address(match["bracketed"] or match["host"] or "0.0.0.0", int(match["port"]))  # noqa: S104 - as typed


def check_protection(address: Address, tls: TlsFiles | None, insecure: bool) -> None:
    """Refuse plaintext beyond loopback.

    Raises:
        OptionError: neither TLS nor --insecure was given for an address beyond loopback.

    """
    if tls is None and not insecure and not address.is_loopback:
        raise OptionError(
            f"--listen {address}: reachable from other machines, where plaintext can be read and forged: "
            "give --tls-certificate and --tls-key, or --insecure"
        )


def read_key_and_certificate(tls: TlsFiles) -> tuple[bytes, bytes]:
    """Read the files for TLS; what is wrong with them gRPC would say in riddles.

    Returns:
        The private key and the certificate chain, PEM.

    Raises:
        OptionError: they cannot be read, are no PEM, or do not belong together.

    """
    try:
        key, certificate = _read_pem(tls.key), _read_pem(tls.certificate)
    except OSError as error:
        raise OptionError(f"{error.filename}: cannot be read: {error.strerror}") from error
    try:
        # The password keeps an encrypted key from asking for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key, password="")
    except ssl.SSLError as error:
        raise OptionError(
            f"--tls-certificate {tls.certificate} and --tls-key {tls.key}: expected a PEM certificate chain "
            f"and its private key, not encrypted; OpenSSL says: {error.reason or error}"
        ) from error
    return key, certificate


def _read_pem(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_PEM_BYTES + 1)
    if len(data) > MAX_PEM_BYTES:
        raise OptionError(f"{path}: found more than {MAX_PEM_BYTES} bytes, expected a PEM file")
    return data


def check_free(address: Address) -> None:
    """Try the address before gRPC does, whose own message is many lines.

    Raises:
        ListenError: in use, not this machine's, or not allowed.

    """
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
            probe.listen()
    except OSError as error:
        raise ListenError(f"--listen {address}: {error.strerror or error}") from error
    except UnicodeError as error:
        raise ListenError(f"--listen {address}: found {address.host!r}, expected a host name") from error
