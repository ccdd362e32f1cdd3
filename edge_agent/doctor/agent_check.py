"""Whether the agent runs, by what, and whether its files are as they should be."""

import contextlib
import os
import stat
import subprocess
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from edge_agent.config.file import SYSTEM_PATH
from edge_agent.config.places import places_of
from edge_agent.config.secrets import OTHERS, secrets_path
from edge_agent.doctor.finding import Finding, note, ok, problem
from edge_agent.service.unit import USER

SUBJECT = "agent"
SYSTEMD = Path("/run/systemd/system")
SYSTEMCTL_TIMEOUT_S = 5.0
SHOWN = ("LoadState", "ActiveState", "UnitFileState", "NRestarts", "Result")
MANY_RESTARTS = 5


def check_files(config_path: Path) -> Iterator[Finding]:
    """Look at owners and modes of the configuration's files."""
    secrets = secrets_path(config_path)
    if config_path == SYSTEM_PATH:
        yield from check_readable((config_path, secrets), USER)
    try:
        mode = stat.S_IMODE(secrets.stat().st_mode)
    except FileNotFoundError:
        return
    except OSError as error:
        yield note(SUBJECT, f"{secrets}: {error.strerror}", "run the command with sudo")
        return
    if mode & OTHERS:
        yield problem(
            SUBJECT, f"{secrets}: others may read the passwords (mode {mode:04o})", f"chmod 600 {secrets}"
        )
    else:
        yield ok(SUBJECT, f"{secrets}: for its owner alone (mode {mode:04o})")


def check_readable(files: Iterable[Path], user: str) -> Iterator[Finding]:
    """Tell which files the service's user may not read, as where root has put them there."""
    import pwd

    with contextlib.suppress(KeyError, OSError):
        entry = pwd.getpwnam(user)
        for path in files:
            found = path.stat()
            if found.st_uid == entry.pw_uid:
                readable = found.st_mode & stat.S_IRUSR
            elif found.st_gid == entry.pw_gid:
                readable = found.st_mode & stat.S_IRGRP
            else:
                readable = found.st_mode & stat.S_IROTH
            if not readable:
                refused = f"{path}: the service's user {user} may not read it"
                yield problem(SUBJECT, refused, f"sudo chown {user}: {path}")


def check_agent(config_path: Path, status: dict[str, Any] | None, refusal: str) -> Iterator[Finding]:
    """Tell whether an agent of this configuration runs; `refusal` is why it could not be asked."""
    unit = _unit() if config_path == SYSTEM_PATH and SYSTEMD.is_dir() else {}
    installed = unit.get("LoadState") == "loaded"
    if status is None:
        yield from _not_running(refusal, installed=installed, unit=unit)
        return
    agent = status["agent"]
    yield ok(SUBJECT, f"runs (process {agent['pid']}), gateway {agent['gateway']}")
    if agent["version"] != version("camera-ai"):
        restart = "sudo systemctl restart edge-agent" if installed else "stop it, and start it again"
        yield note(
            SUBJECT, f"runs as version {agent['version']}; {version('camera-ai')} is installed", restart
        )
    if status["configuration"]["error"]:
        yield problem(
            SUBJECT,
            f"goes on with the configuration as it was: {status['configuration']['error']}",
            "mend the file: it is read again as soon as it is saved",
        )
    restarts = unit.get("NRestarts", "0")
    if restarts.isdecimal() and int(restarts) >= MANY_RESTARTS:
        yield note(
            SUBJECT, f"systemd has started it {restarts} times again", "journalctl -u edge-agent -p warning"
        )
    if installed and unit.get("UnitFileState") == "disabled":
        yield note(SUBJECT, "does not start with the machine", "sudo systemctl enable edge-agent")


def _not_running(refusal: str, *, installed: bool, unit: dict[str, str]) -> Iterator[Finding]:
    if "not for this user" in refusal:
        yield note(SUBJECT, refusal, "run the command with sudo")
    elif installed:
        how = f"{unit.get('ActiveState', '')}, {unit.get('Result', '')}".strip(", ")
        yield problem(
            SUBJECT,
            f"does not run ({how}): {refusal}",
            "sudo systemctl start edge-agent, then journalctl -u edge-agent -n 50",
        )
    else:
        yield note(SUBJECT, refusal, "edge-agent run, or sudo edge-agent install-service")


def check_state_directory(config_path: Path) -> Iterator[Finding]:
    """Tell whether records can be kept."""
    state = places_of(config_path).state
    if not state.exists():
        yield note(SUBJECT, f"{state}: not there yet; the agent makes it when it runs")
    elif not os.access(state, os.W_OK) and os.geteuid() == state.stat().st_uid:
        yield problem(SUBJECT, f"{state}: cannot be written, so no record is kept", "mount it read-write")
    else:
        yield ok(SUBJECT, f"{state}: is there for records")


def check_spool(status: dict[str, Any] | None) -> Iterator[Finding]:
    """Tell how the records that wait are."""
    spool = status["spool"] if status else None
    if spool is None:
        return
    if spool["trouble"]:
        yield problem("records", spool["trouble"], "see the disk; the agent goes on by itself once it works")
    elif spool["dropped"]:
        yield note(
            "records",
            f"{spool['dropped']} were dropped for want of room, {spool['waiting']} wait",
            "edge-agent set-gateway --spool-mb more, or see why the server takes none",
        )
    else:
        yield ok("records", f"{spool['waiting']} wait, {spool['uploaded']} uploaded")


def _unit() -> dict[str, str]:
    command = ["systemctl", "show", "edge-agent.service", "--property", ",".join(SHOWN)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SYSTEMCTL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.partition("=") for line in done.stdout.splitlines())
    return {key: value for key, _, value in pairs}
