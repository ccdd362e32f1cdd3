"""The directory and the files of a running agent: its lock, and its socket at a path of any length."""

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from edge_agent.config.places import SYSTEM_RUNTIME, SYSTEM_STATE, Places
from edge_agent.errors import AgentError

LOCK = "agent.lock"
GROUP = "camera-ai-agent"
OWN_MODE = 0o600
GROUP_MODE = 0o660


class RunningAlreadyError(AgentError):
    """Another agent runs with the same configuration."""


@contextlib.contextmanager
def directory(path: Path) -> Iterator[int]:
    """Open a directory; what is in it can be named through the descriptor, however long the path is."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def short_path(descriptor: int, name: str) -> str:
    """Name a file of an open directory in fewer than the 108 bytes that an address of a socket may have."""
    return f"/proc/self/fd/{descriptor}/{name}"


def make_directories(places: Places) -> None:
    """Make the directories that are not there; the system's are for its group as well. Raises OSError."""
    for path in (places.state, places.socket.parent):
        mode = 0o750 if path in (SYSTEM_STATE, SYSTEM_RUNTIME) else 0o700
        path.mkdir(mode=mode, parents=True, exist_ok=True)


def lock(places: Places) -> int:
    """Take the lock of a configuration's agent, for as long as the descriptor is open.

    Raises:
        RunningAlreadyError: another agent has it.
        OSError: the file cannot be made or locked.

    """
    path = places.state / LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWN_MODE)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with open(descriptor, encoding="ascii", errors="replace") as file:  # noqa: PTH123 -- a descriptor
            pid = file.read(20).strip()
        raise RunningAlreadyError(
            f"{path}: an agent runs with this configuration already"
            + (f" (process {pid})" if pid.isdecimal() else "")
        ) from None
    except OSError:
        os.close(descriptor)
        raise
    with contextlib.suppress(OSError):
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def bound(places: Places) -> socket.socket:
    """Listen at the place of the socket, in that of one that an agent has left which was killed.

    The caller holds the lock. Raises OSError.
    """
    path = places.socket
    of_system = path.parent == SYSTEM_RUNTIME
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with directory(path.parent) as folder:
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISSOCK(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
                    os.unlink(path.name, dir_fd=folder)
            # Nobody may connect before the mode is the right one, whatever the umask is.
            os.fchmod(listener.fileno(), OWN_MODE)
            listener.bind(short_path(folder, path.name))
            if of_system:
                _give_to_group(folder, path.name)
            os.chmod(path.name, GROUP_MODE if of_system else OWN_MODE, dir_fd=folder)
        listener.listen(16)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _give_to_group(folder: int, name: str) -> None:
    """Give the socket to the service's group where root runs the agent by hand; the service's own has it."""
    import grp

    with contextlib.suppress(KeyError, PermissionError):
        os.chown(name, -1, grp.getgrnam(GROUP).gr_gid, dir_fd=folder, follow_symlinks=False)
