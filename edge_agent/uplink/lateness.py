"""Whether a camera's frames get to the server and back in time, and why not. Pure."""

from dataclasses import dataclass
from enum import Enum

from edge_agent.uplink.steps import Step

# How long there must have been trouble, or none, before it is told.
BEGIN_S = 3.0
END_S = 3.0
# Beyond a frame's maximum age; a server that starts again is back before.
NO_ANSWER_S = 3.0
NOT_CONNECTED = "the server is not connected"
# The weight of the latest answer.
LATEST = 0.2


class _Trouble(Enum):
    NOT_CONNECTED = 1
    NO_ANSWER = 2
    LATE = 3
    STALE = 4
    THINNED = 5


SILENCE = frozenset({_Trouble.NOT_CONNECTED, _Trouble.NO_ANSWER})


@dataclass(frozen=True, slots=True)
class Carried:
    """How things stand with the uplink."""

    is_connected: bool
    uplink_bytes_s: float | None
    """None while unknown."""
    step: Step
    wanted_fps: float
    is_uplink_short: bool
    """It is the uplink, and no budget, for which the frames give way."""


class Lateness:
    """Makes one reason of how the answers come; it stays the same, word for word, while the trouble does."""

    def __init__(self, max_age_s: float) -> None:
        self.reason = ""
        self.max_age_s = max_age_s
        self._waits_since_s: float | None = None
        self._latency_s = 0.0
        self._server_s = 0.0
        self._late = 0.0
        self._stale = 0.0
        self._has_answer = False
        self._told: _Trouble | None = None
        self._seen: _Trouble | None = None
        self._seen_since_s = 0.0

    def offered(self, now_s: float) -> None:
        """Note a frame that the camera has for sending."""
        if self._waits_since_s is None:
            self._waits_since_s = now_s

    def connected(self) -> None:
        """Note that frames can go from now on: what waited before could not be answered."""
        self._waits_since_s = None

    def held_back(self) -> None:
        """Note that a budget holds the frames back: that nothing is answered is not for want of answers."""
        self._waits_since_s = None

    def answered(self, latency_s: float, server_s: float, *, is_stale: bool) -> None:
        """Note an answer: its time since capture, the server's part of it, and whether nobody has looked."""
        self._waits_since_s = None
        self._has_answer = True
        self._latency_s += LATEST * (latency_s - self._latency_s)
        self._server_s += LATEST * (server_s - self._server_s)
        self._late += LATEST * ((latency_s > self.max_age_s) - self._late)
        self._stale += LATEST * (is_stale - self._stale)

    def judge(self, carried: Carried, now_s: float) -> bool:
        """Look at how things stand; tells whether the reason has changed."""
        trouble = self._trouble(carried, now_s)
        if trouble is not self._seen:
            self._seen, self._seen_since_s = trouble, now_s
        if trouble is self._told or now_s - self._seen_since_s < self._patience_s(trouble):
            return False
        if trouble is None and self._told in SILENCE and not self._has_answer:
            return False  # a new call is no answer yet
        self._told = trouble
        self._has_answer = False
        self.reason = self._in_words(trouble, carried, now_s)
        return True

    def _patience_s(self, trouble: _Trouble | None) -> float:
        if trouble in SILENCE and self._told is None:
            return 0.0  # it has waited
        return BEGIN_S if trouble else END_S

    def _trouble(self, carried: Carried, now_s: float) -> _Trouble | None:
        waits_s = 0.0 if self._waits_since_s is None else now_s - self._waits_since_s
        if waits_s > self.max_age_s + NO_ANSWER_S:
            return _Trouble.NO_ANSWER if carried.is_connected else _Trouble.NOT_CONNECTED
        if self._late > 0.5:
            return _Trouble.LATE
        if self._stale > 0.5:
            return _Trouble.STALE
        return _Trouble.THINNED if carried.is_uplink_short and carried.step.rate < 1 else None

    def _in_words(self, trouble: _Trouble | None, carried: Carried, now_s: float) -> str:
        uplink = "the uplink carries little"
        if carried.uplink_bytes_s is not None:
            uplink = f"the uplink carries {carried.uplink_bytes_s / 125:.0f} kbit/s"
        match trouble:
            case None:
                return ""
            case _Trouble.NOT_CONNECTED:
                return NOT_CONNECTED
            case _Trouble.NO_ANSWER:
                return f"no answer from the server for {now_s - (self._waits_since_s or now_s):.0f} s"
            case _Trouble.LATE if self._server_s > self._latency_s / 2:
                return f"answers take {self._latency_s:.1f} s, {self._server_s:.1f} s of it at the server"
            case _Trouble.LATE:
                return f"answers take {self._latency_s:.1f} s: {uplink}"
            case _Trouble.STALE:
                return "frames are too old when the server gets to them"
            case _Trouble.THINNED:
                sent_fps = carried.step.rate * carried.wanted_fps
                return f"{uplink}: {sent_fps:.1f} of {carried.wanted_fps:g} frames a second are sent"
