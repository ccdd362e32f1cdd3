"""Where a running agent keeps what is its own: the records that wait, and the socket that it listens on."""

import os
from dataclasses import dataclass
from pathlib import Path

from edge_agent.config.file import SYSTEM_PATH

SYSTEM_STATE = Path("/var/lib/camera-ai-agent")
SYSTEM_RUNTIME = Path("/run/camera-ai-agent")


@dataclass(frozen=True, slots=True)
class Places:
    """Of the agent of one configuration."""

    state: Path
    """A directory for the spool."""
    socket: Path
    """The Unix socket that carries status and control."""


def places_of(config_path: Path) -> Places:
    """Give the places of a configuration: the system's for the system's own, else a directory beside it."""
    path = Path(os.path.realpath(config_path))
    if path == SYSTEM_PATH:
        return Places(SYSTEM_STATE, SYSTEM_RUNTIME / "control.sock")
    state = path.with_name(f"{path.stem}.state")
    return Places(state, state / "control.sock")
