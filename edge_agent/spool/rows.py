"""What the spool keeps and hands out: serialised records with their identity, and a check of both."""

import zlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One record that waits."""

    spool_id: str
    sequence: int
    body: bytes
    """The serialised Record, without its sequence."""
    told: int = 0
    """How many lost records it tells of; 0 for any other record."""

    @property
    def checksum(self) -> int:
        """Of identity and content: what a disk has mangled is not sent."""
        return zlib.crc32(self.body, zlib.crc32(f"{self.spool_id} {self.sequence} {self.told}".encode()))


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader has come: the last row that it got from disk, and the last from memory."""

    file: int = 0
    """Which of the files that a spool has had the disk's row lies in."""
    disk_id: int = 0
    memory_sequence: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one spool id, ascending, to be sent together; never empty."""

    rows: tuple[Row, ...]
    ids: tuple[int, ...]
    """Where they lie on disk; empty for rows that are only in memory."""
    end: Position
    """Where the reader goes on."""

    @property
    def spool_id(self) -> str:
        """The one of all of its rows."""
        return self.rows[0].spool_id

    @property
    def last_sequence(self) -> int:
        """The greatest."""
        return self.rows[-1].sequence


@dataclass(slots=True)
class Loss:
    """Records that are gone, until a Dropped record tells of them."""

    records: int = 0
    first_sequence: int = 0
    last_sequence: int = 0

    def add(self, records: int, sequences: range) -> None:
        """Count; the sequences are those of the spool that will tell, or none."""
        self.records += records
        if sequences:
            self.first_sequence = min(self.first_sequence or sequences[0], sequences[0])
            self.last_sequence = max(self.last_sequence, sequences[-1])
