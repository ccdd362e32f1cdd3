"""What a client that does not behave costs the others, beyond the processor time that it uses itself."""

import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench import programs
from bench.answers import check_published
from bench.load import offer
from bench.programs import Started
from bench.progress import Steps
from bench.report import Report, Target, spread
from bench.servers.capacity import LIMIT, WORK
from bench.servers.run import FPS, PAYLOAD_BYTES
from central_server.capacity.load import LoadResult
from central_server.capacity.load_result import percentile
from central_server.frame import Outcome

ROUNDS = 3
# Half of what is held, when about 85 % of what the cores can do is held.
CAMERAS = round(0.85 * LIMIT / 2)
MOST_MOVED_MS = 10.0
# After the load's start, so that the flood is seen from its first frame.
BEGIN_AFTER_S = 2.0
# How long the client that is frozen later behaves well.
FREEZE_AFTER_S = 1.0
KINDS = {
    "freezing": "freezes in the middle of its stream",
    "deaf": "sends without reading",
    "leaving": "connects, sends ten frames and leaves, again and again with pauses of 0.2 s",
}


@dataclass(frozen=True, slots=True)
class Disturbed:
    """The others' latencies while one client misbehaves, that client's share of a core, and what it did."""

    result: LoadResult
    share: float
    done: int = 0

    def latencies_ms(self) -> NDArray[np.float64]:
        """Give the latencies of the others' frames; infinite for one that was not detected."""
        result = self.result
        detected = result.outcome == Outcome.DETECTED
        return np.where(detected, (result.answered_s - result.due_s) * 1e3, np.inf)

    def p99_ms(self) -> float:
        """Give what 99 % of the others' frames do not exceed."""
        return percentile(self.latencies_ms(), 0.99)

    def moved_ms(self, control: "Disturbed") -> tuple[float, float]:
        """Give how far p99 is from a control run's: of all frames, and of the camera that moved most."""
        mine, other = self.latencies_ms(), control.latencies_ms()
        of_cameras = [
            _moved_ms(mine[self.result.camera == n], other[control.result.camera == n])
            for n in range(self.result.cameras)
        ]
        return _moved_ms(mine, other), float(np.max(of_cameras))


def _moved_ms(mine_ms: NDArray[np.float64], control_ms: NDArray[np.float64]) -> float:
    """Give the difference of two p99; NaN, which meets no target, when the control itself lost frames."""
    control = percentile(control_ms, 0.99)
    return percentile(mine_ms, 0.99) - control if np.isfinite(control) else float("nan")


def measure(*, quick: bool, cameras: int = CAMERAS) -> Report:
    """Run each client, and then a spinner that uses as much processor time in its place."""
    rounds, duration_s = (1, 6.0) if quick else (ROUNDS, 12.0)
    report = Report(
        f"peers: {cameras} cameras at {FPS:g} fps, simulated:{WORK.work_ms:g}, beside one client that",
        (
            "does this",
            "times",
            "its cores",
            "others' p99 ms",
            "with a spinner",
            "moved ms",
            "worst camera moved ms",
        ),
        notes=[
            f"medians of {rounds}; the spinner uses the client's share of a core and no connection; "
            f"both begin {BEGIN_AFTER_S:g} s after the cameras, which run for {duration_s:g} s",
            "times: how many frames it has sent, or how many times it has left, in a run",
            "moved: p99 with the client less p99 with the spinner, of all frames of the others, and of the "
            "camera that moved most; a frame that is not detected counts as infinitely late",
        ],
    )
    moved: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    shown: defaultdict[str, list[tuple[float, float, float]]] = defaultdict(list)
    done: defaultdict[str, list[float]] = defaultdict(list)
    with Steps() as steps:
        for number in range(1, rounds + 1):
            for kind, words in KINDS.items():
                steps.begin(f"round {number} of {rounds}: a client that {words}")
                client = _beside_client(kind, cameras, duration_s)
                steps.begin(f"round {number} of {rounds}: a spinner with {client.share:.2f} cores")
                spinner = _beside_spinner(client.share, cameras, duration_s)
                done[kind].append(client.done)
                moved[kind].append(client.moved_ms(spinner))
                shown[kind].append((client.share, client.p99_ms(), spinner.p99_ms()))
                for name, one in ((kind, client), ("spinner", spinner)):
                    report.runs.append(
                        {"client": name, "share": one.share, "times": one.done, **one.result.summary()}
                    )
    for kind, words in KINDS.items():
        share, with_client, with_spinner = np.median(shown[kind], axis=0).tolist()
        of_all, of_worst = (list(column) for column in zip(*moved[kind], strict=True))
        report.add(
            words, spread(done[kind]), share, with_client, with_spinner, spread(of_all), spread(of_worst)
        )
        for what, values in (("others' p99", of_all), ("worst camera's p99", of_worst)):
            figure = float(np.median(values))
            report.targets.append(
                Target(
                    f"{what} moved by one that is {kind}, ms",
                    figure,
                    "<=",
                    MOST_MOVED_MS,
                    (float(np.min(values)), float(np.max(values))),
                )
            )
    return report


def _beside_client(kind: str, cameras: int, duration_s: float) -> Disturbed:
    with programs.server("--detector", WORK.detector) as server:
        check_published(server.said, PAYLOAD_BYTES)
        with programs.module(r"(ready)", "bench.misbehaving", kind, server.said) as client:
            freeze = (lambda: client.process.send_signal(signal.SIGSTOP)) if kind == "freezing" else None
            result, share = _disturb(server, client, cameras, duration_s, freeze)
            # It may be frozen, or deaf to signals for other reasons.
            done = int((client.last_lines() or ["0"])[-1])
    if not done:
        raise RuntimeError(f"the client that is {kind} has done nothing: there is nothing to measure")
    return Disturbed(result, share, done)


def _beside_spinner(share: float, cameras: int, duration_s: float) -> Disturbed:
    with programs.server("--detector", WORK.detector) as server:
        check_published(server.said, PAYLOAD_BYTES)
        with programs.module(r"(ready)", "bench.spinner", f"{share:.6f}") as spinner:
            return Disturbed(*_disturb(server, spinner, cameras, duration_s, None))


def _disturb(
    server: Started, other: Started, cameras: int, duration_s: float, freeze: Callable[[], None] | None
) -> tuple[LoadResult, float]:
    """Offer a load and let the other begin in it; gives the result, and the other's share of a core.

    The load is this thread's: what ends the bench ends it, too.

    Raises:
        RuntimeError: the server or the other has ended before the load.

    """
    before_s, begun_s = other.processor_s(), time.monotonic() + BEGIN_AFTER_S
    timers = [threading.Timer(BEGIN_AFTER_S, other.tell)]
    if freeze is not None:
        timers.append(threading.Timer(BEGIN_AFTER_S + FREEZE_AFTER_S, freeze))
    for timer in timers:
        timer.start()
    try:
        result = offer(server, cameras, fps=FPS, duration_s=duration_s, payload_bytes=PAYLOAD_BYTES)
        share = (other.processor_s() - before_s) / (time.monotonic() - begun_s)
    finally:
        for timer in timers:
            timer.cancel()
    other.check()
    return result, share
