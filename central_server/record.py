"""What gateways report: records, as plain values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record as it came."""

    sequence: int
    camera: str
    """Empty for what belongs to no camera."""
    time_ns: int
    """Since the Unix epoch by the gateway's clock."""
    has_true_time: bool
    """Whether that clock had been set."""
    kind: str
    """``camera state``, ``motion``, ``reading``, ``dropped``; ``unknown`` for one of a later version."""
    body: bytes
    """The whole message."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """The records of one message; (spool_id, sequence) is a record's identity."""

    spool_id: str
    gateway: str
    records: tuple[NewRecord, ...]
    refused: tuple[tuple[int, str], ...]
    """Sequences of records that cannot be taken, and why."""
    last_sequence: int


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as it is kept."""

    spool_id: str
    gateway: str
    sequence: int
    camera: str
    at_ns: int
    """Since the epoch: the gateway's time where its clock had been set and is not ahead, else the arrival."""
    received_ns: int
    kind: str
    body: bytes
