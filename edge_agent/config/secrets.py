"""The cameras' passwords, in a file of their own beside the configuration, for its owner's eyes only."""

import logging
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from edge_agent.config.atomic_file import read_text, replace_text
from edge_agent.config.rules import bare, has_control_character
from edge_agent.config.toml_text import parse_toml
from edge_agent.errors import ConfigError, UsageError

logger = logging.getLogger(__name__)

MODE = 0o600
OTHERS = stat.S_IRWXG | stat.S_IRWXO
LONGEST_PASSWORD = 1024
HEAD = "# The passwords of the cameras beside this file: for its owner alone.\n[cameras]\n"


class Secrets:
    """The passwords by camera; neither its repr nor an error of its making shows one."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = dict(passwords)

    def __repr__(self) -> str:
        return f"Secrets(of {', '.join(self._passwords) or 'no camera'})"

    @classmethod
    def load(cls, config_path: Path) -> "Secrets":
        """Read the passwords beside a configuration; no file means no passwords.

        A file that others can read is closed to them, and a warning says so. Raises ConfigError.
        """
        path = secrets_path(config_path)
        text = read_text(path)
        if text is None:
            return cls({})
        _close_to_others(path)
        return cls(_passwords(text, path))

    def password(self, camera: str) -> str | None:
        """Give a camera's password, or None where none is set."""
        return self._passwords.get(camera)

    def with_changes(self, changes: Mapping[str, str | None]) -> "Secrets":
        """Give the passwords after some were set, or taken away (None)."""
        merged = {**self._passwords, **changes}
        return Secrets({camera: password for camera, password in merged.items() if password is not None})

    def only(self, cameras: Collection[str]) -> "Secrets":
        """Give the passwords of these cameras alone."""
        return Secrets({camera: self._passwords[camera] for camera in self._passwords if camera in cameras})

    def save(self, config_path: Path) -> None:
        """Bring the file to this state, its comments kept, unless it is so already.

        The caller holds the configuration's lock. Raises ConfigError.
        """
        import tomlkit

        path = secrets_path(config_path)
        text = read_text(path) or ""
        before = _passwords(text, path)
        if before == self._passwords:
            return
        document = tomlkit.parse(text or HEAD)
        table = document.setdefault("cameras", tomlkit.table())
        for camera in before.keys() - self._passwords.keys():
            del table[camera]
        for camera, password in self._passwords.items():
            if before.get(camera) != password:
                table[camera] = password
        written = tomlkit.dumps(document)
        if _passwords(written, path) != self._passwords:
            raise ConfigError(f"{path}: its form is too unusual to be changed by a command")
        replace_text(path, written, mode=MODE, new_mode=MODE)


def check_password(password: str, user: object) -> None:
    """Raise UsageError for a password that cannot be one, or that has no user."""
    if user is None:
        raise UsageError("a password needs a user: give --user")
    if len(password) > LONGEST_PASSWORD or has_control_character(password):
        raise UsageError(f"the password is to be one line of at most {LONGEST_PASSWORD} characters")


def secrets_path(config_path: Path) -> Path:
    """Name the secrets file of a configuration: agent.secrets.toml beside agent.toml, where links lead."""
    config_path = Path(os.path.realpath(config_path))
    return config_path.with_name(f"{config_path.stem}.secrets.toml")


def _passwords(text: str, path: Path) -> dict[str, str]:
    document = parse_toml(text, path)
    table = document.get("cameras", {})
    if document.keys() - {"cameras"} or not isinstance(table, dict):
        raise ConfigError(f'{path}: expected one table, [cameras], with lines like door = "password"')
    for camera, password in table.items():
        if not isinstance(password, str):
            raise ConfigError(f"{path}: the password of {bare(camera)} is not in quotes")
    return table


def _close_to_others(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & OTHERS:
        return
    try:
        path.chmod(MODE)
    except OSError as error:
        logger.warning("%s is readable by others (mode %04o) and stays so: %s", path, mode, error.strerror)
    else:
        logger.warning("%s was readable by others (mode %04o): closed to them (mode 0600)", path, mode)
