"""What a camera is doing, as a fact that can be pushed: the state, the reason, since when."""

import time
from dataclasses import dataclass
from enum import StrEnum


class CameraState(StrEnum):
    """The states of a camera; the value is what people read."""

    DISABLED = "disabled"
    """The configuration leaves it out."""
    CONNECTING = "connecting"
    """The stage is in the reason: resolving, TCP connect, RTSP handshake, first packet."""
    WAITING_FOR_KEYFRAME = "waiting for keyframe"
    """Packets come, but none yet from which a whole picture can be made."""
    STREAMING = "streaming"
    """Pictures come."""
    STALLED = "stalled"
    """Pictures came, then no packet for the read timeout, or a call hangs; the next attempt follows."""
    SLOW = "slow"
    """The camera is well; its frames do not get to the server and back in time."""
    OFFLINE = "offline"
    """It could not be reached, or ended the connection; the next attempt follows."""
    AUTHENTICATION_FAILED = "authentication failed"
    """The camera refuses the user or the password; the next attempt follows, in case it is mended there."""
    REFUSED = "refused by the server"
    """The camera is well; the central server does not take its stream."""
    ENDED = "ended"
    """A file was played to its end; nothing follows."""


@dataclass(frozen=True, slots=True)
class CameraStatus:
    """A camera's state since an instant; `reason` is one plain line without any password, or empty."""

    state: CameraState
    reason: str
    since_s: float
    """time.monotonic() at which the state began: a reason that changes leaves it alone."""
    since_unix_s: float
    """The same instant in seconds since the Unix epoch by the gateway's clock, for people and records."""

    @classmethod
    def now(cls, state: CameraState, reason: str = "") -> "CameraStatus":
        """Begin a state at this moment."""
        return cls(state, reason, time.monotonic(), time.time())

    def then(self, state: CameraState, reason: str = "") -> "CameraStatus":
        """Go on from this status: the same state with another reason keeps its beginning."""
        if state is self.state:
            return CameraStatus(state, reason, self.since_s, self.since_unix_s)
        return CameraStatus.now(state, reason)

    def __str__(self) -> str:
        return f"{self.state.value}: {self.reason}" if self.reason else self.state.value
