"""set-server, and the rule for plaintext where it is set and where it is used."""

from pathlib import Path

import pytest
import trustme

from edge_agent.config import ServerConfig
from edge_agent.config.file import load
from tests.edge_agent.conftest import RunAgent


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return path


def test_a_server_on_this_machine_needs_nothing_more(run_agent: RunAgent, config_path: Path) -> None:
    """Plaintext does not leave the machine."""
    for address in ("127.0.0.1:50051", "[::1]:50051", "localhost:50051"):
        assert run_agent("set-server", address).out == f"server: {address}\n"
        assert load(config_path).server == ServerConfig(address=address)


def test_a_server_beyond_needs_to_be_secured(run_agent: RunAgent, config_path: Path) -> None:
    """Refused with what to give, exit code 2, and nothing written."""
    done = run_agent("set-server", "192.0.2.1:50051")

    assert (done.code, done.out) == (2, "")
    assert done.err == "edge-agent: 192.0.2.1:50051 is not loopback: give --ca FILE, --tls or --insecure\n"
    assert not config_path.parent.exists()


def test_each_way_to_secure_it(
    run_agent: RunAgent, config_path: Path, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last command holds as a whole; the file of authorities is stored by its whole path."""
    monkeypatch.chdir(pem.parent)
    for options, expected in (
        (("--ca=ca.pem",), ServerConfig(address="central:50051", ca=str(pem))),
        (("--tls",), ServerConfig(address="central:50051", tls=True)),
        (("--insecure",), ServerConfig(address="central:50051", insecure=True)),
    ):
        assert run_agent("set-server", "central:50051", *options).code == 0
        assert load(config_path).server == expected


def test_the_rule_holds_for_what_a_person_wrote(run_agent: RunAgent, config_path: Path) -> None:
    """`run` reads the file as strictly as the command, and says where."""
    config_path.parent.mkdir()
    config_path.write_text('# by hand\n[server]\naddress = "192.0.2.1:50051"\n')

    done = run_agent("run")

    assert done.code == 1
    assert done.err == (
        f"edge-agent: {config_path}:2:1: server: 192.0.2.1:50051 is not loopback:"
        " give --ca FILE, --tls or --insecure\n"
    )


def test_setting_the_server_keeps_the_file(run_agent: RunAgent, config_path: Path) -> None:
    """Comments and cameras stay; keys of the last server that no longer hold go."""
    config_path.parent.mkdir()
    text = '# mine\n[server]\naddress = "a:1"  # old\ninsecure = true\n\n# door\n[cameras.door]\nurl = "rtsp://h/s"\n'
    config_path.write_text(text)

    assert run_agent("set-server", "127.0.0.1:2").code == 0

    assert config_path.read_text() == text.replace("a:1", "127.0.0.1:2").replace("insecure = true\n", "")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("central",), 'HOST:PORT: found "central": the port is missing; expected HOST:PORT'),
        (("central:0",), "the port is not a number from 1 to 65535"),
        (("::1:50051",), "an IPv6 host stands in brackets"),
        (("127.0.0.1:1", "--tls", "--insecure"), "insecure contradicts tls and ca: choose one"),
        (("central:1", "--ca=/nowhere/ca.pem"), "--ca: /nowhere/ca.pem: No such file or directory"),
        (("central:1", "--ca=/dev/null"), "--ca: /dev/null: a pipe or a device, expected a file"),
        ((), "Missing argument 'HOST:PORT'"),
    ],
)
def test_what_cannot_be_a_server_changes_nothing(
    run_agent: RunAgent, config_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    """One clear line, exit code 2, no file made."""
    done = run_agent("set-server", *arguments)

    assert done.code == 2
    assert problem in done.err.splitlines()[0]
    assert not config_path.parent.exists()


def test_run_says_how_to_begin(run_agent: RunAgent, config_path: Path) -> None:
    """Without any configuration."""
    done = run_agent("run")

    assert done.code == 1
    assert done.err == (
        f"edge-agent: {config_path}: no configuration here; begin with `edge-agent set-server HOST:PORT`\n"
    )
