"""All checks at once, each in a thread of its own and bounded in time: what hangs is told, not waited for."""

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_agent.config import AgentConfig, GatewayConfig
from edge_agent.config.file import load
from edge_agent.config.places import places_of
from edge_agent.config.rules import unknown
from edge_agent.config.secrets import Secrets
from edge_agent.control.client import ask
from edge_agent.doctor import agent_check, camera_check, clock_check, machine_check, server_check
from edge_agent.doctor.finding import Finding, ok, problem
from edge_agent.errors import AgentError, ConfigError, NotAllowedError

log = logging.getLogger(__name__)

ASK_TIMEOUT_S = 3.0
CHECK_TIMEOUT_S = 15.0
SERVER_TIMEOUT_S = 45.0
CAMERA_TIMEOUT_S = 40.0
MOST_CAMERAS_AT_ONCE = 8
POLL_S = 0.02
THREAD_NAME = "check"

Work = Callable[[], Iterable[Finding]]


@dataclass(slots=True)
class _Check:
    """One check under way."""

    subject: str
    work: Work
    timeout_s: float
    findings: list[Finding] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    begun_s: float = 0.0

    def start(self) -> None:
        self.begun_s = time.monotonic()
        threading.Thread(target=self._run, name=THREAD_NAME, daemon=True).start()

    @property
    def left_s(self) -> float:
        """How long it may still take."""
        return max(0.0, self.begun_s + self.timeout_s - time.monotonic())

    def result(self) -> list[Finding]:
        """Wait for the end, as long as that may take; what has been found until then counts."""
        if self.ended.wait(self.left_s):
            return self.findings
        late = problem(self.subject, f"did not answer within {self.timeout_s:g} s", "see what hangs there")
        return [*self.findings, late]

    def _run(self) -> None:
        try:
            for finding in self.work():
                self.findings.append(finding)
        except Exception as error:  # noqa: BLE001 - one check's fault is not to hide the others
            # By its type alone: a library's text may have been made from a URL.
            log.debug("a check of %s failed: %s", self.subject, type(error).__name__)
            self.findings.append(problem(self.subject, f"the check itself failed: {type(error).__name__}"))
        finally:
            self.ended.set()


def examine(config_path: Path, names: Sequence[str] = ()) -> list[Finding]:
    """Look at everything, or at what concerns these cameras; gives the findings in their order.

    Raises:
        ConfigError: a name is none of the configuration's.

    """
    config, findings = _configuration(config_path)
    if config is not None:
        for name in names:
            if name not in config.cameras:
                raise ConfigError(f"{config_path}: {unknown('camera', name, config.cameras)}")
    status, refusal = _status(config_path)
    checks = _of_gateway(config_path, config, status, refusal)
    if config is not None:
        chosen = [camera for name, camera in config.cameras.items() if not names or name in names]
        checks.append(_Check("server", lambda: server_check.check_server(config, chosen), SERVER_TIMEOUT_S))
    for check in checks:
        check.start()
    cameras = _of_cameras(config_path, config, names, status) if config is not None else []
    return [*findings, *_results(checks), *_in_turns(cameras)]


def leave_hung_checks(exit_code: int) -> None:
    """End the process where a check hangs in a library call: it could not end by itself now."""
    if any(thread.name == THREAD_NAME for thread in threading.enumerate()):
        sys.stdout.flush()
        os._exit(exit_code)


def _configuration(config_path: Path) -> tuple[AgentConfig | None, list[Finding]]:
    try:
        config = load(config_path)
    except ConfigError as error:
        advice = "mend it there; a running agent goes on with what it read before"
        if isinstance(error, NotAllowedError):
            advice = "run the command with sudo"
        return None, [problem("configuration", str(error), advice)]
    count = len(config.cameras)
    if not count:
        none = problem("configuration", f"{config_path}: no camera", "edge-agent add-camera NAME URL")
        return config, [none]
    return config, [ok("configuration", f"{config_path}: {count} {'camera' if count == 1 else 'cameras'}")]


def _status(config_path: Path) -> tuple[dict[str, Any] | None, str]:
    try:
        return ask(config_path, {"command": "status"}, ASK_TIMEOUT_S), ""
    except AgentError as error:
        return None, str(error)


def _of_gateway(
    config_path: Path, config: AgentConfig | None, status: dict[str, Any] | None, refusal: str
) -> list[_Check]:
    gateway = config.gateway if config is not None else GatewayConfig()
    state = places_of(config_path).state
    works: list[tuple[str, Work]] = [
        ("agent", lambda: agent_check.check_agent(config_path, status, refusal)),
        ("agent", lambda: agent_check.check_files(config_path)),
        ("agent", lambda: agent_check.check_state_directory(config_path)),
        ("records", lambda: agent_check.check_spool(status)),
        ("clock", clock_check.check_clock),
        ("gateway", lambda: machine_check.check_disk(state, gateway)),
        ("gateway", machine_check.check_memory),
        ("gateway", machine_check.check_processor),
        ("gateway", machine_check.check_heat),
    ]
    return [_Check(subject, work, CHECK_TIMEOUT_S) for subject, work in works]


def _of_cameras(
    config_path: Path, config: AgentConfig, names: Sequence[str], status: dict[str, Any] | None
) -> list[_Check]:
    told = {camera["name"]: camera for camera in status["cameras"]} if status else {}
    input_wh = status["server"].get("input_wh") if status else None
    try:
        secrets = Secrets.load(config_path)
    except ConfigError as error:
        reason = str(error)
        return [_Check("configuration", lambda: [problem("configuration", reason, "run it with sudo")], 1.0)]

    def work(name: str) -> Work:
        camera, password = config.cameras[name], secrets.password(name)
        return lambda: camera_check.check_camera(camera, password, told.get(name), input_wh)

    chosen = [name for name in config.cameras if not names or name in names]
    return [_Check(f"camera {name}", work(name), CAMERA_TIMEOUT_S) for name in chosen]


def _results(checks: Iterable[_Check]) -> Iterator[Finding]:
    for check in checks:
        yield from check.result()


def _in_turns(checks: list[_Check]) -> Iterator[Finding]:
    """Run a few at a time: a hundred cameras at once would be a load of their own."""
    under_way: list[_Check] = []
    waiting = deque(checks)
    results: dict[int, list[Finding]] = {}
    while waiting or under_way:
        while waiting and len(under_way) < MOST_CAMERAS_AT_ONCE:
            under_way.append(waiting.popleft())
            under_way[-1].start()
        for check in list(under_way):
            if check.ended.wait(POLL_S) or not check.left_s:
                results[id(check)] = check.result()
                under_way.remove(check)
    for check in checks:
        yield from results[id(check)]
