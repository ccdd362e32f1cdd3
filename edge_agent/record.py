"""What is made at the gateway itself and has to arrive: records, as plain values.

A record is made with the camera's name, the gateway's time and how far that can be trusted (`clock.py`),
and is handed to whoever keeps it (`Spool.put`), from any thread. It gets its number there.
"""

from dataclasses import dataclass
from enum import StrEnum


class ClockTrust(StrEnum):
    """How far the gateway's clock could be trusted when a record was made."""

    GOOD = "good"
    """Nothing speaks against it."""
    UNSET = "unset"
    """It stood before the agent was released: it was never set since the power came."""
    STEPPED = "stepped"
    """It was set by more than a second while the record was under way."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """A camera has gone from one state to another.

    `state` and `previous_state` are the words that people read (the values of `CameraState`);
    `previous_state` is empty at the start of the agent. `previous_ms` is how long that one lasted, by the
    monotonic clock. `reason` is one plain line without any password, or empty.
    """

    state: str
    reason: str = ""
    previous_state: str = ""
    previous_ms: int = 0


@dataclass(frozen=True, slots=True)
class Motion:
    """Something moved, from the record's time on, for `duration_ms` by the monotonic clock.

    `peak_share` is the greatest share of the picture that moved at once, 0 to 1.
    """

    duration_ms: int
    peak_share: float


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that a device at the gateway has measured; the record's time is when."""

    device_id: str
    value: float
    unit: str = ""
    location: str = ""
    battery_percent: float | None = None
    status: str = ""
    firmware_version: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Records that the spool had no room for. The sequences are 0 for those that never got one."""

    records: int
    first_sequence: int = 0
    last_sequence: int = 0


Body = StateChange | Motion | Reading | Dropped


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that happened; `camera` is empty for what belongs to no camera.

    `time_ns` is nanoseconds since the Unix epoch by the gateway's clock.
    """

    camera: str
    time_ns: int
    clock_trust: ClockTrust
    body: Body
