"""Doctor as a whole: the gateway itself, checks that hang or fail, and its command."""

import json
import os
import pwd
import threading
import time
from pathlib import Path

import pytest

from edge_agent.clock import RELEASED_NS
from edge_agent.config import GatewayConfig
from edge_agent.config.change import AddCameras, SetServer, perform
from edge_agent.config.secrets import secrets_path
from edge_agent.doctor import clock_check, examine, machine_check
from edge_agent.doctor.agent_check import (
    check_agent,
    check_files,
    check_readable,
    check_spool,
    check_state_directory,
)
from edge_agent.doctor.clock_check import check_clock, is_synchronised
from edge_agent.doctor.finding import Finding, ok
from edge_agent.doctor.machine_check import check_disk, check_heat, check_memory, check_processor
from tests.edge_agent.conftest import RunAgent


def test_room_on_the_disk(tmp_path: Path) -> None:
    """Enough for what may have to wait; a folder that is not there yet counts as its parent."""
    [well] = check_disk(tmp_path / "nowhere" / "yet", GatewayConfig(spool_mb=1))
    [full] = check_disk(tmp_path, GatewayConfig(spool_mb=100_000_000))

    assert well.level == "ok"
    assert f"{tmp_path}: " in well.found
    assert full.level == "problem"
    assert "--spool-mb less" in full.advice


def test_memory_processor_and_heat(monkeypatch: pytest.MonkeyPatch) -> None:
    """As this machine is; with bounds that it cannot hold, each says what to do."""
    monkeypatch.setattr(machine_check, "LOOK_S", 0.2)
    assert [finding.level for finding in check_memory()] == ["ok"]
    assert all("busy" in finding.found for finding in check_processor())
    list(check_heat())
    monkeypatch.setattr(machine_check, "LEAST_MEMORY_MB", 1e9)
    monkeypatch.setattr(machine_check, "BUSY_SHARE", -1.0)

    assert [finding.level for finding in check_memory()] == ["problem"]
    assert "--decode keyframes" in next(iter(check_processor())).advice


def test_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is asked whether it is kept; one from before this version cannot be right."""
    assert is_synchronised() in (True, False, None)
    for synchronised, level in ((True, "ok"), (None, "ok"), (False, "note")):
        monkeypatch.setattr(clock_check, "is_synchronised", lambda it=synchronised: it)
        assert [finding.level for finding in check_clock()] == [level]
    monkeypatch.setattr(time, "time_ns", lambda: RELEASED_NS - 1)

    assert [finding.level for finding in check_clock()] == ["problem"]


def test_the_agent_and_its_files(tmp_path: Path) -> None:
    """Passwords that others may read; a state that could not be asked; what the agent itself says."""
    path = tmp_path / "agent.toml"
    perform(path, AddCameras({"door": {"url": "rtsp://h/s", "user": "u"}}, {"door": "canary"}))
    assert [finding.level for finding in check_files(path)] == ["ok"]
    secrets_path(path).chmod(0o644)
    [open_file] = check_files(path)
    assert (open_file.level, open_file.advice) == ("problem", f"chmod 600 {secrets_path(path)}")

    [none] = check_agent(path, None, "no agent runs")
    assert (none.level, none.found) == ("note", "no agent runs")
    status = {
        "agent": {"pid": 7, "gateway": "shop", "version": "0.0.1"},
        "configuration": {"error": "agent.toml:1:1: bad"},
        "spool": {"trouble": "", "dropped": 3, "waiting": 5, "uploaded": 0},
    }
    levels = [finding.level for finding in check_agent(path, status, "")]
    assert levels == ["ok", "note", "problem"]
    assert "3 were dropped" in next(iter(check_spool(status))).found
    assert [finding.level for finding in check_state_directory(path)] == ["note"]


def test_files_that_the_services_user_may_not_read(tmp_path: Path) -> None:
    """As root leaves them who copies them there; who owns them is this user here, and not another one."""
    secrets = tmp_path / "agent.secrets.toml"
    secrets.touch(0o600)
    mine = pwd.getpwuid(os.getuid()).pw_name
    another = next(entry for entry in pwd.getpwall() if entry.pw_uid != os.getuid() != entry.pw_gid)

    [refused] = check_readable([secrets], another.pw_name)
    assert (refused.level, refused.advice) == ("problem", f"sudo chown {another.pw_name}: {secrets}")
    assert not list(check_readable([secrets], mine))
    assert not list(check_readable([secrets], "no-such-user"))


def test_a_check_that_hangs_or_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others' findings come all the same, and no text of an error that nobody expected."""
    hanging = threading.Event()

    def hang() -> list[Finding]:
        hanging.wait(30.0)
        return []

    def fail() -> list[Finding]:
        raise RuntimeError("rtsp://u:canary@h")

    checks = [examine._Check(name, work, 0.3) for name, work in (("a", hang), ("b", fail), ("c", list))]
    checks.append(examine._Check("d", lambda: [ok("d", "well")], 5.0))
    found = list(examine._in_turns(checks))
    hanging.set()

    assert [(finding.subject, finding.found) for finding in found] == [
        ("a", "did not answer within 0.3 s"),
        ("b", "the check itself failed: RuntimeError"),
        ("d", "well"),
    ]


def test_the_command(run_agent: RunAgent, config_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In lines and as JSON; exit code 1 for a problem; a name that is none, and a file that is bad."""
    monkeypatch.setattr(machine_check, "LOOK_S", 0.05)
    perform(config_path, SetServer({"address": "127.0.0.1:1"}))
    perform(config_path, AddCameras({"door": {"url": "rtsp://127.0.0.1:1/", "enabled": False}}))
    done = run_agent("doctor")
    told = json.loads(run_agent("doctor", "door", "--json").out)

    assert done.code == 1
    assert "  problem  127.0.0.1 port 1: the connection is refused" in done.out
    assert "camera door\n  note     is disabled\n           -> edge-agent enable door" in done.out
    assert told["problems"] >= 1
    assert {"subject", "level", "found", "advice"} == told["findings"][0].keys()
    unknown = run_agent("doctor", "dor")
    assert unknown.code == 1
    assert "did you mean door?" in unknown.err
    config_path.write_text("[cameras.door\n")
    broken = run_agent("doctor")
    assert f"  problem  {config_path}:1:14: " in broken.out
    assert os.path.exists(config_path)  # noqa: PTH110
