"""Going over to another server, or to the same one in another way, while a camera streams."""

from pathlib import Path

import pytest
import trustme

from edge_agent import connection
from edge_agent.config import ServerConfig
from edge_agent.errors import ConfigError
from tests.conftest import StartServer
from tests.edge_agent.test_client import rig
from tests.polling import until


async def test_the_next_answers_come_from_the_other_server(start_server: StartServer) -> None:
    """At once, although the first one is well; what it was asked and did not answer is counted."""
    first, other = (start_server("--detector", f"simulated:{number}") for number in (1, 2))
    async with rig(first.address).running() as door:
        await door.answer()
        door.connection.use(ServerConfig(address=other.address), None, "gateway")
        await until(lambda: door.facts[-1].detector == "simulated:2", "the other server")
        await door.answer()
        first.stop()
        await door.answer()

    assert [facts.detector for facts in door.facts] == ["simulated:1", "simulated:2"]
    assert "not connected: the configuration names another server, or another way to it" in door.statuses


async def test_an_attempt_that_is_under_way_is_given_up(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its time nor a long pause after it is waited for."""
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 600.0)
    server = start_server("--detector", "simulated:1")
    # Packets to this address (TEST-NET-1) are never answered.
    async with rig("192.0.2.1:1").running() as door:
        await until(lambda: door.connection._attempting is not None, "the attempt")
        door.connection.use(ServerConfig(address=server.address), None, "")
        await door.answer()

    assert door.statuses[-1] == "connected"


async def test_authorities_that_are_renewed(start_server: StartServer, tmp_path: Path) -> None:
    """The same address and the same file, with another authority in it; one that is none changes nothing."""
    old, new = trustme.CA(), trustme.CA()
    certificate = new.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "chain.pem"))
    files = ("--tls-certificate", str(tmp_path / "chain.pem"), "--tls-key", str(tmp_path / "key.pem"))
    address = start_server("--detector", "simulated:1", *files).address
    ca = tmp_path / "ca.pem"
    old.cert_pem.write_to_path(str(ca))
    door = rig(address)
    door.connection.use(ServerConfig(address=address, ca=str(ca)), ca.read_bytes(), "")
    async with door.running():
        await until(lambda: any("not connected" in status for status in door.statuses), "the refusal")
        with pytest.raises(ConfigError):
            door.connection.use(ServerConfig(address="a:1", ca=str(tmp_path / "none.pem")), None, "")
        new.cert_pem.write_to_path(str(ca))
        door.connection.use(ServerConfig(address=address, ca=str(ca)), ca.read_bytes(), "")
        await door.answer()

    assert door.statuses[-1] == "connected"
