"""Room that is kept on the disk for when it is full: then old records can still give way to new ones."""

import contextlib
import os
from pathlib import Path

# What the exchange of a few records for others takes, with SQLite's log.
BALLAST_BYTES = 512 << 10
# It is taken again only when that leaves room enough for others.
PLENTY_BYTES = 4 * BALLAST_BYTES


class Ballast:
    """A file that only takes room."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def take(self) -> None:
        """Take the room, where there is plenty and it is not taken yet."""
        with contextlib.suppress(OSError):
            if self._path.exists() and self._path.stat().st_size == BALLAST_BYTES:
                return
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < PLENTY_BYTES:
                return
            with self._path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, BALLAST_BYTES)

    def release(self) -> bool:
        """Give the room back; tells whether there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True
