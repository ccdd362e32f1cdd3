"""Fixtures for the edge agent's tests: its command line, in this process, on a configuration of its own."""

import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from edge_agent.cli import main


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


class RunAgent(Protocol):
    """Runs `edge-agent --config CONFIG ARGUMENTS…`, with `typed` on its standard input."""

    def __call__(self, *arguments: str, typed: str = "") -> Outcome: ...


@pytest.fixture
def config_path(tmp_path: Path) -> Path:
    """Where a test's configuration is; nothing is there yet."""
    return tmp_path / "etc" / "agent.toml"


@pytest.fixture
def run_agent(
    config_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> RunAgent:
    """Give the command line, with its exit code and output."""

    def run(*arguments: str, typed: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        code = main(["--config", os.fspath(config_path), *arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
