"""HOST:PORT addresses, and what may travel in plaintext."""

import pytest

from edge_agent.config import ServerConfig
from edge_agent.config.address import channel_security, check_server_address, is_loopback, split_host_port


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.5", "10.0.0.5", None),
        ("10.0.0.5:1", "10.0.0.5", 1),
        ("central.example.org:65535", "central.example.org", 65535),
        ("central_1:50051", "central_1", 50051),
        ("[::1]", "::1", None),
        ("[fe80::1%eth0]:554", "fe80::1%eth0", 554),
    ],
)
def test_hosts_and_ports_come_apart(text: str, host: str, port: int | None) -> None:
    """A host with or without a port; brackets are taken off an IPv6 address."""
    assert split_host_port(text) == (host, port)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("central", "port is missing"),
        ("", "host is missing"),
        (":50051", "host is missing"),
        ("[]:50051", "host is missing"),
        ("central:", "port is not a number"),
        ("central:0", "port is not a number"),
        ("central:70000", "port is not a number"),
        ("central:99999999999", "port is not a number"),
        ("central:-1", "port is not a number"),
        ("central:http", "port is not a number"),
        ("::1:50051", "brackets"),
        ("[::1]50051", "brackets"),
        ("[10.0.0.5]:1", "IPv6"),
        ("10.0.0.256:1", "IPv4"),
        ("http://central:50051", "not a URL"),
        ("cen tral:1", "neither a name"),
        ("a" * 64 + ":1", "neither a name"),
    ],
)
def test_bad_addresses_are_refused_by_name(text: str, problem: str) -> None:
    """The error says what was found, what is wrong, and what was expected."""
    with pytest.raises(ValueError, match=problem) as caught:
        check_server_address(text)

    assert f'found "{text[:40]}' in str(caught.value)
    assert "expected HOST:PORT" in str(caught.value)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.255.0.3", True),
        ("::1", True),
        ("localhost", True),
        ("LocalHost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("128.0.0.1", False),
        ("localhost.example.org", False),
        ("127.1", False),
        ("central", False),
    ],
)
def test_loopback_is_only_what_is_so_by_definition(host: str, loopback: bool) -> None:
    """A name that merely looks like this machine is not trusted to be it."""
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("server", "security"),
    [
        (ServerConfig(address="127.0.0.1:1"), "plaintext"),
        (ServerConfig(address="[::1]:1"), "plaintext"),
        (ServerConfig(address="localhost:1", tls=True), "tls"),
        (ServerConfig(address="127.0.0.1:1", ca="/ca.pem"), "tls"),
        (ServerConfig(address="192.0.2.1:1", ca="/ca.pem"), "tls"),
        (ServerConfig(address="192.0.2.1:1", tls=True), "tls"),
        (ServerConfig(address="192.0.2.1:1", insecure=True), "plaintext"),
    ],
)
def test_security_of_the_channel(server: ServerConfig, security: str) -> None:
    """TLS where asked for; plaintext on loopback, or where asked for by name."""
    assert channel_security(server) == security


def test_plaintext_beyond_loopback_needs_to_be_asked_for() -> None:
    """Nothing leaves the machine in plaintext by default."""
    with pytest.raises(
        ValueError, match=r"^192\.0\.2\.1:50051 is not loopback: give --ca FILE, --tls or --insecure$"
    ):
        channel_security(ServerConfig(address="192.0.2.1:50051"))


@pytest.mark.parametrize("also", [{"tls": True}, {"ca": "/ca.pem"}])
def test_a_contradiction_is_refused(also: dict[str, object]) -> None:
    """Plaintext and TLS cannot both be wanted."""
    with pytest.raises(ValueError, match="contradicts"):
        channel_security(ServerConfig(address="127.0.0.1:1", insecure=True, **also))  # type: ignore[arg-type]
