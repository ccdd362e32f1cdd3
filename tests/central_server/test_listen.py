"""Addresses, and what protects them."""

import socket
from pathlib import Path

import pytest

from central_server.errors import ListenError, OptionError
from central_server.listen import Address, TlsFiles, check_free, check_protection, parse_address

TLS = TlsFiles(Path("chain.pem"), Path("key.pem"))


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:50051", "127.0.0.1", 50051),
        ("localhost:0", "localhost", 0),
        ("server.example:65535", "server.example", 65535),
        ("[::1]:50051", "::1", 50051),
        ("[::]:1", "::", 1),
        (":50051", "0.0.0.0", 50051),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    """Names, IPv4, IPv6 in brackets, and a port alone for all interfaces."""
    assert parse_address(text) == Address(host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        "host:http",
        "::1:5",
        "[::1]",
        "host:65536",
        "host:-1",
        "a:b:1",
        "host:1 ",
        "a://b:1",
    ],
)
def test_what_is_no_address(text: str) -> None:
    """Is named and refused with what was expected."""
    with pytest.raises(OptionError, match=r"--listen: found .*, expected HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize("text", ["127.0.0.1:0", "[::1]:50051", "server.example:1"])
def test_an_address_is_written_as_it_is_typed(text: str) -> None:
    """IPv6 gets its brackets back."""
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.3.2.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.5", False),
        ("localhost.example.com", False),
        ("::ffff:192.168.1.5", False),
    ],
)
def test_plaintext_is_for_loopback_only(host: str, loopback: bool) -> None:
    """Beyond it takes TLS, or a clear word."""
    address = Address(host, 50051)

    assert address.is_loopback == loopback
    check_protection(address, TLS, insecure=False)
    check_protection(address, None, insecure=True)
    if loopback:
        check_protection(address, None, insecure=False)
    else:
        with pytest.raises(OptionError, match=r"--tls-certificate and --tls-key, or --insecure$"):
            check_protection(address, None, insecure=False)


def test_a_port_in_use_is_refused() -> None:
    """In one line, before anything else has been started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ListenError, match=rf"^--listen {address}: Address already in use$"):
            check_free(address)


@pytest.mark.parametrize("host", ["192.0.2.1", "no..host", "x" * 70])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    """An address that this machine does not have, or a name that can lead nowhere."""
    with pytest.raises(ListenError, match=rf"^--listen {host}:50051: \S+"):
        check_free(Address(host, 50051))


def test_a_free_port_is_left_free() -> None:
    """Trying an address does not take it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = Address("127.0.0.1", probe.getsockname()[1])
    check_free(address)
    check_free(address)
    with socket.create_server((address.host, address.port)):
        pass
