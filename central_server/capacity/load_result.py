"""What became of a load: one row a frame, and what follows from the rows."""

import io
import json
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from central_server.frame import Outcome

UNANSWERED = -1
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Every frame that was due, by camera and instant; all arrays but `loop_lag_s` are (frames,).

    Attributes:
        cameras: how many there were.
        camera: which camera, from 0.
        due_s: the scheduled instant, from the start.
        lag_s: how late the generator woke up to send the frame; 0 where it was still at the write before.
        sent_s: when its writing began, from the start; NaN for never.
        answered_s: when its answer had arrived, from the start; NaN for never.
        outcome: as on the wire; UNANSWERED for never, 0 for an answer that tells nothing.
        loop_lag_s: how late the generator's loop came to each tick of 10 ms, (ticks,): as late may it have
            noted an answer, or begun a write that waited for another.
        errors: why a camera's call ended early, by camera.
        processor_s: the generator's own processor time, from start to end.
        start_s: the start, by the machine's monotonic clock.
        length_s: from the start to the end.
        gave_up: a frame was late or not detected, and the run ended with it.

    """

    cameras: int
    camera: NDArray[np.int32]
    due_s: Floats
    lag_s: Floats
    sent_s: Floats
    answered_s: Floats
    outcome: NDArray[np.int8]
    loop_lag_s: Floats = field(default_factory=lambda: np.zeros(0))
    errors: Mapping[int, str] = field(default_factory=dict)
    processor_s: float = 0.0
    start_s: float = 0.0
    length_s: float = 0.0
    gave_up: bool = False

    @property
    def due(self) -> int:
        """How many frames were due."""
        return len(self.due_s)

    @property
    def sent(self) -> int:
        """How many frames the generator began to write."""
        return int(np.isfinite(self.sent_s).sum())

    @property
    def answered(self) -> int:
        """How many frames were answered, whatever the outcome."""
        return int((self.outcome != UNANSWERED).sum())

    @property
    def unanswered(self) -> int:
        """How many frames were due and never answered, sent or not."""
        return self.due - self.answered

    @property
    def detected(self) -> int:
        """How many frames the server has looked at."""
        return int((self.outcome == Outcome.DETECTED).sum())

    def counts(self, camera: int | None = None) -> Counter[str]:
        """Count what became of the frames, of one camera or of all, e.g. ``stale``, ``unanswered``."""
        outcome = self.outcome if camera is None else self.outcome[self.camera == camera]
        values, numbers = np.unique(outcome, return_counts=True)
        return Counter(
            {_words(value): number for value, number in zip(values.tolist(), numbers.tolist(), strict=True)}
        )

    def detected_of_cameras(self) -> NDArray[np.int64]:
        """How many frames of each camera were detected, (cameras,)."""
        return np.bincount(self.camera[self.outcome == Outcome.DETECTED], minlength=self.cameras)

    @property
    def latencies_ms(self) -> Floats:
        """From the scheduled instant to the answer's arrival, of all detected frames."""
        chosen = self.outcome == Outcome.DETECTED
        latencies_s: Floats = self.answered_s[chosen] - self.due_s[chosen]
        return latencies_s * 1e3

    @property
    def p50_ms(self) -> float:
        """The median latency of the detected frames; NaN without any."""
        return percentile(self.latencies_ms, 0.5)

    @property
    def p99_ms(self) -> float:
        """The latency that 99 % of the detected frames do not exceed; NaN without any."""
        return percentile(self.latencies_ms, 0.99)

    @property
    def slowest_ms(self) -> float:
        """The longest latency of a detected frame; NaN without any."""
        return percentile(self.latencies_ms, 1.0)

    @property
    def lag_ms(self) -> Floats:
        """How late the generator woke up, of the frames that it took up."""
        return self.lag_s[np.isfinite(self.sent_s)] * 1e3

    @property
    def loop_lag_ms(self) -> Floats:
        """How late the generator's loop was at each tick."""
        return self.loop_lag_s * 1e3

    @property
    def backpressure_ms(self) -> Floats:
        """How long due frames waited for the write before them (or for the window), of those sent."""
        sent = np.isfinite(self.sent_s)
        waited_s: Floats = self.sent_s[sent] - self.due_s[sent] - self.lag_s[sent]
        return waited_s * 1e3

    def holds(self, latency_ms: float) -> bool:
        """Whether all frames that were due were answered `detected` in time, and all calls ended well."""
        in_time = self.detected == self.due and self.slowest_ms <= latency_ms
        return in_time and not self.gave_up and not self.errors

    def why_not(self, latency_ms: float) -> str:
        """Say what kept the load from holding, by the first thing that went wrong; empty if nothing did."""
        if self.errors:
            camera, reason = next(iter(self.errors.items()))
            return f"the call of camera {camera + 1} of {self.cameras} ended: {reason}"
        late_ms = (self.answered_s - self.due_s) * 1e3
        failed = np.flatnonzero((self.outcome != Outcome.DETECTED) | (late_ms > latency_ms))
        if not len(failed):
            return ""
        # NaN comes last: what is merely unanswered yet has not failed first.
        first = failed[np.lexsort((self.due_s[failed], self.answered_s[failed]))[0]]
        number = np.count_nonzero(self.camera[:first] == self.camera[first]) + 1
        frame = f"frame {number} of camera {self.camera[first] + 1}"
        if self.outcome[first] != Outcome.DETECTED:
            return f"{frame} {_words(int(self.outcome[first]))}"
        return (
            f"{frame} answered after {late_ms[first]:.0f} ms; "
            f"the generator: {self.lag_s[first] * 1e3:.0f} ms late to send it, "
            f"its loop up to {self.loop_lag_ms.max(initial=0.0):.0f} ms late"
        )

    def between(self, from_s: float, until_s: float) -> "LoadResult":
        """Cut to the frames due in [from_s, until_s) after the start; all else stays as it is."""
        chosen = (self.due_s >= from_s) & (self.due_s < until_s)
        return replace(self, **{name: getattr(self, name)[chosen] for name in ARRAYS})

    def summary(self) -> dict[str, Any]:
        """Give the figures for a report, as JSON takes them."""
        return {
            "cameras": self.cameras,
            "due": self.due,
            "sent": self.sent,
            "answered": self.answered,
            "outcomes": dict(self.counts()),
            "errors": sorted(set(self.errors.values())),
            "latency_ms": {"p50": _or_none(self.p50_ms), "p99": _or_none(self.p99_ms),
                           "slowest": _or_none(self.slowest_ms)},
            "generator": {
                "lag_ms": _spread(self.lag_ms),
                "loop_lag_ms": _spread(self.loop_lag_ms),
                "backpressure_ms": _spread(self.backpressure_ms),
                "processor_s": self.processor_s,
                "length_s": self.length_s,
            },
        }  # fmt: skip

    def to_bytes(self) -> bytes:
        """Write it for the caller's process."""
        facts = {
            "cameras": self.cameras, "errors": dict(self.errors), "processor_s": self.processor_s,
            "start_s": self.start_s, "length_s": self.length_s, "gave_up": self.gave_up,
        }  # fmt: skip
        file = io.BytesIO()
        np.savez(
            file,
            facts=np.frombuffer(json.dumps(facts).encode(), np.uint8),
            **{name: getattr(self, name) for name in (*ARRAYS, TICKS)},
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "LoadResult":
        """Read it in the caller's process.

        Raises:
            ValueError: the bytes are none.

        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                facts = json.loads(arrays["facts"].tobytes())
                facts["errors"] = {int(camera): text for camera, text in facts["errors"].items()}
                return cls(**facts, **{name: arrays[name] for name in (*ARRAYS, TICKS)})
        except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
            raise ValueError(f"found {len(data)} bytes that are no result of a load") from error


# Of the frames, and of the loop.
ARRAYS, TICKS = ("camera", "due_s", "lag_s", "sent_s", "answered_s", "outcome"), "loop_lag_s"


def percentile(values: Floats, fraction: float) -> float:
    """Give the smallest value that at least this fraction of the values does not exceed; NaN of none."""
    return float(np.quantile(values, fraction, method="inverted_cdf")) if len(values) else float("nan")


def _spread(values: Floats) -> dict[str, float | None]:
    return {name: _or_none(percentile(values, q)) for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _words(outcome: int) -> str:
    if outcome == UNANSWERED:
        return "unanswered"
    known = {int(member): member.words for member in Outcome}
    return known.get(outcome, f"outcome {outcome}")
