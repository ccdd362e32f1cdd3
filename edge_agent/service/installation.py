"""The service's user, folder, unit: made, and removed; each step says what it did, and can be done again."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from edge_agent.config.atomic_file import replace_text
from edge_agent.config.file import load_to_run
from edge_agent.config.secrets import secrets_path
from edge_agent.errors import AgentError, ConfigError, one_line
from edge_agent.service.unit import UNIT, USER, USER_FILE, shipped

UNIT_PATH = Path("/etc/systemd/system") / UNIT
DROP_INS = Path(f"{UNIT_PATH}.d")
USER_PATH = Path("/etc/sysusers.d") / USER_FILE
STATE_FOLDER = Path("/var/lib") / USER
CONFIGURATION_MODE = 0o750
# READY comes within the unit's TimeoutStartSec.
START_TIMEOUT_S = 120.0
COMMAND_TIMEOUT_S = 30.0

Say = Callable[[str], None]


def install(unit: str, configuration: Path, say: Say) -> None:
    """Make the user, the configuration's folder and the unit; start it where there is a configuration to run.

    Raises:
        AgentError: a step failed; what was done before it stays, and the next call goes on from there.

    """
    _make_user(say)
    _own_configuration(configuration, say)
    _write(UNIT_PATH, unit, say)
    _run("systemctl", "daemon-reload")
    _run("systemctl", "enable", "--quiet", UNIT)
    say(f"{UNIT} is enabled: it starts with the machine")
    _start(configuration, say)


def remove(say: Say) -> None:
    """Stop and disable the service, remove its unit and its user's file; say what is left, and where.

    Raises:
        AgentError: a step failed.

    """
    if UNIT_PATH.exists():
        _run("systemctl", "disable", "--now", "--quiet", UNIT)
        say(f"{UNIT} is stopped and disabled")
    for path in (UNIT_PATH, USER_PATH):
        if path.exists():
            path.unlink()
            say(f"{path}: removed")
    _run("systemctl", "daemon-reload")
    for path, what in (
        (Path("/etc/camera-ai"), "the configuration, with the cameras' passwords"),
        (STATE_FOLDER, "what is not sent yet"),
        (DROP_INS, "your changes to the unit"),
    ):
        if path.exists():
            say(f"{path}: left, {what}")
    say(f"user {USER}: left, as the owner of these files")


def _make_user(say: Say) -> None:
    if shutil.which("systemd-sysusers") is None:
        raise AgentError(f"systemd-sysusers is not there, which makes the user {USER}; it comes with systemd")
    _write(USER_PATH, shipped(USER_FILE), say)
    made = not _is_a_user()
    _run("systemd-sysusers", str(USER_PATH))
    say(f"user {USER}: {'made' if made else 'was there'}")


def _is_a_user() -> bool:
    import pwd

    try:
        pwd.getpwnam(USER)
    except KeyError:
        return False
    return True


def _own_configuration(configuration: Path, say: Say) -> None:
    """Give the service what its commands, called by root, may have written before there was a user for it."""
    import pwd

    entry = pwd.getpwnam(USER)
    folder = configuration.parent
    folder.mkdir(mode=CONFIGURATION_MODE, exist_ok=True)
    folder.chmod(CONFIGURATION_MODE)
    for path in (folder, configuration, secrets_path(configuration)):
        if path.exists():
            os.chown(path, entry.pw_uid, entry.pw_gid, follow_symlinks=False)
    say(f"{folder}: the service's own, closed to others")


def _write(path: Path, text: str, say: Say) -> None:
    try:
        if path.exists() and path.read_text() == text:
            say(f"{path}: as it was")
            return
    except OSError as error:
        raise AgentError(f"{path}: cannot be read: {error.strerror}") from None
    replace_text(path, text, new_mode=0o644, mode=0o644)
    say(f"{path}: written")


def _start(configuration: Path, say: Say) -> None:
    try:
        load_to_run(configuration)
    except ConfigError as error:
        say(f"not started: {error}")
        say(f"then: systemctl start {UNIT.removesuffix('.service')}")
        return
    try:
        # Again where it runs: the program may be another one now.
        _run("systemctl", "restart", UNIT, timeout_s=START_TIMEOUT_S)
    except AgentError:
        words = _output("journalctl", "--unit", UNIT, "--lines=4", "--output=cat", "--no-pager")
        raise AgentError(f"{UNIT} does not start, and is tried again and again; it said: {words}") from None
    say("started: " + _output("systemctl", "show", "--property=StatusText", "--value", UNIT))


def _run(*command: str, timeout_s: float = COMMAND_TIMEOUT_S) -> None:
    _output(*command, timeout_s=timeout_s)


def _output(*command: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    words = " ".join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except FileNotFoundError:
        raise AgentError(f"{command[0]} is not there; it comes with systemd") from None
    except subprocess.TimeoutExpired:
        raise AgentError(f"`{words}` did not end within {timeout_s:g} s") from None
    if done.returncode != 0:
        raise AgentError(f"`{words}` failed: {one_line(done.stderr or done.stdout)}")
    return one_line(done.stdout)
