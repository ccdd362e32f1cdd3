"""Files that are replaced whole or not at all, by one process at a time."""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from edge_agent.errors import ConfigError, NotAllowedError

LARGEST_BYTES = 4 * 1024 * 1024
LOCK_TIMEOUT_S = 10.0
LOCK_POLL_S = 0.02
NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def read_text(path: Path, *, may_wait: bool = False) -> str | None:
    """Read a text file in UTF-8, its line ends untouched; None where there is none.

    Pipes and devices, which may never answer, are read only where that may be waited for.
    Raises ConfigError when it cannot be read, is larger than LARGEST_BYTES, or is not UTF-8.
    """
    try:
        with open(path, "rb", opener=None if may_wait else open_at_once) as file:
            content = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _error_of(error)(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > LARGEST_BYTES:
        raise ConfigError(f"{path}: larger than {LARGEST_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        raise ConfigError(f"{path}:{line}:{column}: found a byte that is not UTF-8 text") from None


def open_at_once(path: str, flags: int) -> int:
    """Open a file for `open`; raises OSError for what may never answer, as a pipe without a writer."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    kind = os.fstat(descriptor).st_mode
    # A directory has an error of its own.
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "a pipe or a device, expected a file")


def replace_text(path: Path, text: str, *, new_mode: int, mode: int | None = None) -> None:
    """Write a whole file in UTF-8 such that a reader, or a crash, meets the old content or the new one.

    A symbolic link is followed. `mode`, if given, is the mode of the file from its first byte; otherwise an
    existing file keeps its mode, and a new one gets `new_mode` as the umask allows. Written by root, a file
    keeps its owner, and a new one gets its directory's: a service goes on reading what is its own. The
    caller holds the lock: one temporary name beside the file is enough, and all that a crash can leave.
    Raises ConfigError.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_beside(target, temporary, text.encode(), mode=mode, new_mode=new_mode)
        temporary.replace(target)
        _sync_directory(target.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _error_of(error)(f"{path}: cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that serialises the commands which change a file: a hidden file beside it, for as long.

    Raises ConfigError when others keep it for longer than LOCK_TIMEOUT_S seconds.
    """
    target = Path(os.path.realpath(path))
    lock_path = target.with_name(f".{target.name}.lock")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = _acquired(lock_path)
    except OSError as error:
        raise _error_of(error)(f"{path}: cannot be changed: {error.strerror}") from None
    try:
        yield
    finally:
        # It may have become read-only meanwhile: a lock file that stays is taken by the next one.
        with contextlib.suppress(OSError):
            lock_path.unlink(missing_ok=True)
        os.close(lock)


def _error_of(error: OSError) -> type[ConfigError]:
    return NotAllowedError if error.errno in NOT_ALLOWED else ConfigError


def _acquired(lock_path: Path) -> int:
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.geteuid() == 0:
                # One that a crash leaves is not to lock a service out of its own directory.
                owner = lock_path.parent.stat()
                os.fchown(lock, owner.st_uid, owner.st_gid)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last holder may have removed the file that was opened here: then it locks nothing any more.
            if os.path.samestat(os.fstat(lock), lock_path.stat()):
                return lock
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(lock)
        if time.monotonic() > deadline:
            raise TimeoutError(0, "another command has been changing it for too long")
        time.sleep(LOCK_POLL_S)


def _write_beside(target: Path, temporary: Path, content: bytes, *, mode: int | None, new_mode: int) -> None:
    temporary.unlink(missing_ok=True)
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, new_mode if mode is None else mode
    )
    with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor, not a path
        exists = target.exists()
        if os.geteuid() == 0:
            owner = (target if exists else target.parent).stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        if exists and mode is None:
            os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
