"""Room that is kept on the disk for when it is full: then old records can still give way to new ones."""

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

    def take(self, plenty_bytes: int = PLENTY_BYTES) -> bool:
        """Take the room, where the disk has as much as this and more; tells whether it is taken now."""
        try:
            if self._path.exists() and self._path.stat().st_size == BALLAST_BYTES:
                return True
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < plenty_bytes:
                return False
            with self._path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, BALLAST_BYTES)
        except OSError:
            return False
        return True

    def release(self) -> bool:
        """Give the room back; tells whether there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True
