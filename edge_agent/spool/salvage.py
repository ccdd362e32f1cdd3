"""What becomes of a file that is damaged: it is moved out of the way, and what is sound in it is kept."""

import contextlib
import logging
import sqlite3
from pathlib import Path

from edge_agent.spool.rows import Row
from edge_agent.spool.store import FIRST_ROWS, Store, as_text, is_sound

log = logging.getLogger(__name__)

CHUNK_ROWS = 200
# Greater ids are the damage itself.
GREATEST_ID = 1 << 53


def set_aside(path: Path) -> Path:
    """Move a damaged file, and its log, out of the way; of several the last is kept.

    Raises:
        OSError: the directory cannot be written now.

    """
    aside = path.with_name(f"{path.name}.corrupt")
    for suffix in ("", "-wal"):
        source, target = path.with_name(path.name + suffix), aside.with_name(aside.name + suffix)
        target.unlink(missing_ok=True)
        if source.exists():
            source.replace(target)
    return aside


def salvage(aside: Path, store: Store) -> int:
    """Copy what is sound in a damaged file, from both of its ends towards the damage.

    Returns:
        How many rows there were.

    Raises:
        sqlite3.Error: the new file cannot be written.

    """
    before = store.rows
    for direction in ("ASC", "DESC"):
        rows = _Reader(aside, direction)
        while chunk := rows.next_chunk():
            store.restore(chunk)
        rows.close()
    return store.rows - before


class _Reader:
    """Reads a damaged file in one direction for as long as that goes well."""

    def __init__(self, path: Path, direction: str) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._db.text_factory = as_text
        self._rows: sqlite3.Cursor | None = None
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            # Without this a file that ends too early is not read at all.
            self._db.execute("PRAGMA writable_schema=ON")
            self._rows = self._db.execute(f"{FIRST_ROWS} ORDER BY id {direction}")

    def next_chunk(self) -> list[tuple[int, Row]]:
        """Give sound rows with their ids; none at the end, or where the damage begins."""
        chunk: list[tuple[int, Row]] = []
        while self._rows is not None and len(chunk) < CHUNK_ROWS:
            try:
                values = self._rows.fetchone()
            except sqlite3.Error:
                values = None
            if values is None:
                self._rows = None
                break
            id_, spool_id, sequence, body, told, checksum = values
            if 0 < id_ < GREATEST_ID and is_sound(spool_id, sequence, body, told, checksum):
                chunk.append((id_, Row(spool_id, sequence, body, told)))
        return chunk

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
