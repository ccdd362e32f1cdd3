"""What doctor says of the central server: real ones, with every certificate that is wrong."""

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from edge_agent.config import AgentConfig, CameraConfig, ServerConfig
from edge_agent.doctor import server_check
from edge_agent.doctor.finding import Finding
from edge_agent.doctor.server_check import check_server
from tests.conftest import StartServer

NOW = datetime.now(UTC)


def examined(server: ServerConfig | None, *cameras: CameraConfig) -> list[Finding]:
    config = AgentConfig(server=server, cameras={camera.name: camera for camera in cameras})
    return list(check_server(config, list(cameras)))


def last(server: ServerConfig | None) -> Finding:
    return examined(server)[-1]


def test_a_server_that_is_well(start_server: StartServer) -> None:
    """Reached, takes frames, and who it is; of labels that it does not know it says which it does."""
    server = ServerConfig(address=start_server("--detector", "simulated:1").address)
    found = examined(
        server,
        CameraConfig(name="door", url="rtsp://h/", labels=("person",)),
        CameraConfig(name="yard", url="rtsp://h/", labels=("zebra",)),
    )
    refused = [finding for finding in found if finding.level == "problem"]

    assert [finding.subject for finding in refused] == ["camera yard"]
    assert "found zebra, expected some of: person" in refused[0].found
    assert refused[0].advice == "edge-agent set-camera yard --label one that it knows"
    texts = [finding.found for finding in found]
    assert "takes frames" in texts
    assert any(text.startswith("detector simulated:1; version ") for text in texts)


def test_no_server_and_none_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stage by itself: set, resolved, reached, speaking."""
    monkeypatch.setattr(server_check, "CALL_TIMEOUT_S", 0.5)
    assert last(None).advice == "edge-agent set-server HOST:PORT"
    assert "does not resolve" in last(ServerConfig(address="central.invalid:1", insecure=True)).found
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        assert "answers no call" in examined(ServerConfig(address=address))[1].found
    assert "the connection is refused" in last(ServerConfig(address=address)).found


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [
        (["127.0.0.1"], {}, ("ok", "takes frames")),
        (["127.0.0.1"], {"not_after": NOW + timedelta(days=5)}, ("note", "expires on ")),
        (["127.0.0.1"], {"not_after": NOW - timedelta(days=1)}, ("problem", "has expired")),
        (["central.example"], {}, ("problem", "is for another ")),
        (["127.0.0.1"], {"other": True}, ("problem", "an authority that is not trusted here")),
    ],
    ids=["good", "soon", "expired", "name", "authority"],
)
def test_certificates(
    start_server: StartServer,
    tmp_path: Path,
    names: list[str],
    options: dict[str, object],
    expected: tuple[str, str],
) -> None:
    """In words, with what to do."""
    authority = trustme.CA()
    trusted = trustme.CA() if options.pop("other", False) else authority
    trusted.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate = authority.issue_cert(*names, **options)  # type: ignore[arg-type]
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    for number, part in enumerate(certificate.cert_chain_pems):
        part.write_to_path(str(tmp_path / "chain.pem"), append=bool(number))
    server = start_server(
        "--detector", "simulated:1", "--tls-certificate", str(tmp_path / "chain.pem"), "--tls-key",
        str(tmp_path / "key.pem"),
    )  # fmt: skip
    found = examined(ServerConfig(address=server.address, ca=str(tmp_path / "ca.pem")))
    matching = [finding for finding in found if expected[1] in finding.found]

    assert [finding.level for finding in matching] == [expected[0]], found
    assert matching[0].advice or expected[0] == "ok"


def test_plaintext_where_tls_is_meant(start_server: StartServer, tmp_path: Path) -> None:
    """It does not speak it, and how to make it."""
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    address = start_server("--detector", "simulated:1").address
    found = last(ServerConfig(address=address, ca=str(tmp_path / "ca.pem")))

    assert (found.level, found.found) == ("problem", "TLS: it does not speak it")
    assert "--tls-certificate" in found.advice
