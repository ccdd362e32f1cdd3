"""A gateway in a scratch directory: the edge agent's commands, and the agent at work with its results."""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Program, script

Record = dict[str, Any]


class Gateway:
    """One gateway's configuration, and its agent as a process."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "agent.toml"
        self.results_path = folder / "results.jsonl"
        self._agent: Program | None = None

    def command(self, *arguments: str) -> str:
        """Run a command of the agent, as a person would; gives back what it printed."""
        command = [script("edge-agent"), "--config", str(self.config), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(
        self, env: dict[str, str] | None = None, log_level: str = "info", inside: Sequence[str] = ()
    ) -> Program:
        """Start `edge-agent run` with a results file, and with these variables beside the others.

        `inside` is the command, if any, that runs another one elsewhere.
        """
        command = [
            *inside,
            script("edge-agent"),
            "--log-level",
            log_level,
            "--config",
            str(self.config),
            "run",
        ]
        self._agent = Program(*command, "--results", str(self.results_path), env=env)
        return self._agent

    @property
    def has_started(self) -> bool:
        """Whether there is a running agent, or one that has ended."""
        return self._agent is not None

    @property
    def agent(self) -> Program:
        """The running agent."""
        assert self._agent is not None, "start() comes first"
        return self._agent

    def stop(self) -> int:
        """End the agent; gives back its exit code."""
        return self.agent.stop()

    def kill(self) -> None:
        """End the agent at once, if it runs."""
        if self._agent is not None:
            self._agent.kill()

    def results(self, camera: str | None = None) -> list[Record]:
        """Give the results that are written so far; a last line that is being written is left out."""
        text = self.results_path.read_text() if self.results_path.exists() else ""
        records = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [record for record in records if camera in (None, record["camera"])]

    def detected(self, camera: str | None = None) -> list[Record]:
        """Give the results of frames that the detector has looked at."""
        return [record for record in self.results(camera) if record["outcome"] == "detected"]

    def wait_for(self, condition: Callable[[], object], what: str, timeout_s: float = 30.0) -> None:
        """Wait until something holds; fail with the agent's log when it does not in time."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if self.agent.process.poll() is not None or time.monotonic() > deadline_s:
                pytest.fail(f"not within {timeout_s:g} s: {what}; the agent said {self.agent.errors}")
            time.sleep(0.05)

    def wait_for_more(self, count: int, camera: str | None = None, timeout_s: float = 30.0) -> None:
        """Wait for this many more detected frames than there are now."""
        before = len(self.detected(camera))
        self.wait_for(
            lambda: len(self.detected(camera)) >= before + count,
            f"{count} more frames of {camera}",
            timeout_s,
        )


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """Give a fresh gateway; its agent is ended after the test."""
    fresh = Gateway(tmp_path)
    with contextlib.ExitStack() as ending:
        ending.callback(fresh.kill)
        yield fresh
