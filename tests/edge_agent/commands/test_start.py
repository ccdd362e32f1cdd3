"""How the program starts: quickly, with help, and with one line where it cannot."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from edge_agent.config.file import load
from tests.edge_agent.conftest import RunAgent

HEAVY = ("grpc", "google.protobuf", "av", "numpy", "rich", "camera_ai", "asyncio")

LOADED = """
import sys
from edge_agent.cli import main
code = main(sys.argv[1:])
print(*(name for name in sys.modules), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("add-camera", "--help"),
        ("add-camera", "door", "rtsp://viewer:hunter2@10.0.0.5/s", "--fps=5", "--label=car"),
        ("list-cameras",),
        ("set-server", "127.0.0.1:50051"),
    ],
)
def test_light_commands_import_nothing_heavy(config_path: Path, arguments: tuple[str, ...]) -> None:
    """Neither gRPC nor PyAV nor NumPy is loaded by a command that only reads or writes the configuration."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, "--config", str(config_path), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    loaded = set(done.stderr.split())
    assert "edge_agent.cli" in loaded
    assert loaded.isdisjoint(HEAVY), sorted(loaded.intersection(HEAVY))


def test_help_names_every_command(run_agent: RunAgent) -> None:
    """What can be done, at a glance."""
    done = run_agent("--help")

    assert done.code == 0
    commands = "set-server run add-camera set-camera remove-camera list-cameras show-camera import-cameras"
    for command in [*commands.split(), "test-camera", "demo-camera"]:
        assert f"  {command} " in done.out


def test_the_version_is_the_packages(run_agent: RunAgent) -> None:
    """As the package index knows it."""
    assert run_agent("--version").out == f"edge-agent {version('camera-ai')}\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "Missing command"),
        (("ad-camera",), "No such command 'ad-camera'. Did you mean 'add-camera'"),
        (("--frobnicate",), "No such option: --frobnicate"),
        (("--log-level=loud", "list-cameras"), "'loud' is not one of 'debug', 'info', 'warning', 'error'"),
    ],
)
def test_usage_errors_are_one_line_and_a_hint(
    run_agent: RunAgent, arguments: tuple[str, ...], problem: str
) -> None:
    """No traceback, no frame around it: what was wrong, and where help is."""
    done = run_agent(*arguments)

    assert (done.code, done.out) == (2, "")
    first, hint = done.err.splitlines()
    assert first.startswith("edge-agent: ")
    assert problem in first
    assert hint == "Try 'edge-agent --help'."


def test_the_configuration_is_found_by_option_environment_or_place(tmp_path: Path) -> None:
    """--config before CAMERA_AI_CONFIG."""
    command = [sys.executable, "-m", "edge_agent.cli"]
    by_environment, by_option = tmp_path / "a.toml", tmp_path / "b.toml"
    environment = {"CAMERA_AI_CONFIG": str(by_environment)}
    for options in ([], ["--config", str(by_option)]):
        subprocess.run(
            [*command, *options, "set-server", "127.0.0.1:1"],
            env=environment,
            check=True,
            timeout=60,
            stdout=-3,
        )

    assert load(by_environment).server == load(by_option).server
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.toml", "b.toml"]


def test_the_log_says_when_passwords_were_open_to_others(config_path: Path) -> None:
    """A warning of the running program reaches standard error as one line."""
    config_path.parent.mkdir()
    secrets = config_path.with_name("agent.secrets.toml")
    secrets.write_text('[cameras]\ndoor = "hunter2"\n')
    secrets.chmod(0o640)

    done = subprocess.run(
        [sys.executable, "-m", "edge_agent.cli", "--config", str(config_path), "list-cameras", "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout == "[]\n"
    assert done.stderr == (
        f"edge-agent: {secrets} was readable by others (mode 0640): closed to them (mode 0600)\n"
    )
