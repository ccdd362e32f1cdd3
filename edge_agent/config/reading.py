"""The configuration's files as a running agent reads them: all of them, at one moment, or not at all."""

import contextlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from edge_agent.config import AgentConfig
from edge_agent.config.atomic_file import read_text, replace_text
from edge_agent.config.authorities import read_authorities
from edge_agent.config.file import load_to_run, parse
from edge_agent.config.secrets import Secrets, secrets_path
from edge_agent.errors import ConfigError

MOST_ATTEMPTS = 20
ATTEMPT_PAUSE_S = 0.05
KEPT_MODE = 0o600

FileMark = tuple[int, int, int, int] | None
"""Device, inode, size in bytes and time of the last change in ns; None where no file is."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What tells whether the files have changed."""

    configuration: FileMark
    secrets: FileMark
    authorities: FileMark = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What the files said at one moment; its repr shows no password."""

    config: AgentConfig
    secrets: Secrets
    authorities: bytes | None
    """The PEM file of the server's authorities, where one is named."""
    marks: Marks


def look(path: Path, ca: str | None = None) -> Marks:
    """See how the files of a configuration are now, and that of the authorities which it names."""
    return Marks(_mark(path), _mark(secrets_path(path)), _mark(Path(ca)) if ca is not None else None)


def read(path: Path, *, before: Reading | None = None) -> Reading:
    """Read and check everything that a run needs, again while it is being written.

    An agent that runs already (`before`) may be left without a camera, but not without its passwords by a
    file that has gone: an editor may be about to put it back.

    Raises:
        ConfigError: something cannot be used.

    """
    for _ in range(MOST_ATTEMPTS):
        found = _read_once(path, before)
        if look(path, _ca(found.config)) == found.marks:
            return found
        time.sleep(ATTEMPT_PAUSE_S)
    raise ConfigError(f"{path}: is written again and again")


def keep(path: Path, kept: Path, config: AgentConfig) -> None:
    """Keep a copy of the configuration, for a start at which the file itself cannot be used.

    Nothing is done when the file has changed since `config` was read, or when there is no room.
    """
    with contextlib.suppress(ConfigError):
        text = read_text(path)
        if text is not None and text != read_text(kept) and parse(text, path) == config:
            replace_text(kept, text, mode=KEPT_MODE, new_mode=KEPT_MODE)


def read_kept(path: Path, kept: Path) -> Reading:
    """Read the copy of the configuration that was used last; the passwords are those of today.

    Raises:
        ConfigError: there is none, or it cannot be used either.

    """
    text = read_text(kept)
    if text is None:
        raise ConfigError(f"{kept}: no configuration was in use before")
    # What it names is meant from where the file itself is.
    return _completed(path, parse(text, path), Secrets.load(path), look(path))


def _read_once(path: Path, before: Reading | None) -> Reading:
    marks = look(path)
    config, secrets = load_to_run(path, may_be_empty=before is not None)
    if before is not None and marks.secrets is None and before.marks.secrets is not None:
        needing = [name for name in config.cameras if before.secrets.password(name) is not None]
        if needing:
            raise ConfigError(f"{secrets_path(path)}: is gone; it had the password of {needing[0]}")
    return _completed(path, config, secrets, marks)


def _completed(path: Path, config: AgentConfig, secrets: Secrets, marks: Marks) -> Reading:
    """Add what a configuration refers to."""
    if config.server is None:
        raise ConfigError(f"{path}: no central server is set")
    authorities = None
    if config.server.ca is not None:
        marks = replace(marks, authorities=_mark(Path(config.server.ca)))
        try:
            authorities = read_authorities(Path(config.server.ca))
        except ValueError as error:
            raise ConfigError(f"server.ca: {error}") from None
    return Reading(config, secrets, authorities, marks)


def _ca(config: AgentConfig) -> str | None:
    return config.server.ca if config.server is not None else None


def _mark(path: Path) -> FileMark:
    try:
        found = os.stat(path)  # noqa: PTH116 - the system's call, twice a second for years
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
