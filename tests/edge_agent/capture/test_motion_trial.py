"""A minute of an empty street in noise and drifting light, then people: what is sent, and whom it shows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_agent.capture.motion import MotionGate, Why
from tests.edge_agent.capture.street import FPS, Street
from tests.tracks import Track, full_rate_tracks

EMPTY_FRAMES = 60 * FPS
MOST_SENT = 0.05
OPENED_WITHIN_S = 0.5
CELL_PX = 8
LEAST_CELLS = 3

Light = tuple[float | NDArray[np.float32], float]
Drift = Callable[[float], Light]
"""From the share of the minute that has passed to gain and offset."""

ACROSS = np.linspace(-1, 1, 768, dtype=np.float32)
DRIFTS: dict[str, Drift] = {
    "brighter": lambda t: (1.0, 30 * t),
    "darker": lambda t: (1 - 0.4 * t, 0.0),
    "exposure up": lambda t: (1 + 0.35 * t, -10 * t),
    "to and fro": lambda t: (1 + 0.25 * float(np.sin(2 * np.pi * t)), 0.0),
    "the sun comes round": lambda t: (1 + 0.3 * t * ACROSS, 5 * t),
    "steady": lambda t: (1.0, 0.0),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """What a gate made of the empty street and of the footage after it, whose first frame is at 0 s."""

    sent_before: int
    sent_s: frozenset[float]
    opened_s: float
    foreground: Mapping[float, NDArray[np.uint8]]

    def shows(self, track: Track, at_s: float) -> bool:
        """Tell whether an object is in the foreground at a time: it would have opened the gate alone."""
        left, top, right, bottom = (int(edge) // CELL_PX for edge in track.boxes[track.seen_s.index(at_s)])
        cells = self.foreground[at_s][top : bottom + 1, left : right + 1]
        return int(np.count_nonzero(cells)) >= LEAST_CELLS


def run_trial(walkers: Path, drift: Drift, seed: int, frames: int, gate: MotionGate) -> Trial:
    """Show the empty street for a minute, then the footage under the light that it ended with."""
    street = Street(walkers, seed)
    before = 0
    for number in range(EMPTY_FRAMES):
        gain, offset = drift(number / EMPTY_FRAMES)
        before += gate.decide(street.seen(None, gain, offset), number / FPS, watched=False).send
    gain, offset = drift(1.0)
    decisions, foreground = {}, {}
    for number in range(frames):
        plane = street.seen(street.footage[number], gain, offset)
        at_s = number / FPS
        decisions[at_s] = gate.decide(plane, EMPTY_FRAMES / FPS + at_s, watched=False)
        assert gate.foreground is not None
        foreground[at_s] = gate.foreground.copy()
    sent_s = frozenset(at_s for at_s, decision in decisions.items() if decision.send)
    opened_s = min((at_s for at_s in sent_s if decisions[at_s].why is Why.MOTION), default=float("inf"))
    return Trial(before, sent_s, opened_s, foreground)


def assert_cheap_and_complete(
    walkers: Path, tracks: list[Track], drift: str, seed: int, frames: int, sensitivity: int = 50
) -> None:
    """Few frames before anybody comes, an open gate soon after, and each object in a frame that was sent."""
    trial = run_trial(walkers, DRIFTS[drift], seed, frames, MotionGate(sensitivity))
    missed = [(track.label, track.seen_s[0]) for track in tracks if not trial.sent_s & set(track.seen_s)]
    people = [track for track in tracks if track.label == "person"]
    unseen = [track.seen_s for track in people if not any(trial.shows(track, at_s) for at_s in track.seen_s)]
    print(
        f"{drift}, seed {seed}, sensitivity {sensitivity}: {trial.sent_before} of {EMPTY_FRAMES} frames sent"
        f" before, open after {trial.opened_s:.1f} s, {len(trial.sent_s)} of {frames} sent then,"
        f" {len(missed)} of {len(tracks)} objects missed, {len(unseen)} of {len(people)} people unseen"
    )
    assert trial.sent_before <= MOST_SENT * EMPTY_FRAMES
    assert trial.opened_s <= OPENED_WITHIN_S
    assert missed == []
    assert unseen == []


def test_the_trial(walkers: Path) -> None:
    """Two lights; the objects of the first six seconds."""
    frames = 60
    tracks = full_rate_tracks(walkers, frames, FPS)
    assert {track.label for track in tracks} >= {"person", "car"}

    assert_cheap_and_complete(walkers, tracks, "darker", 1, frames)
    assert_cheap_and_complete(walkers, tracks, "the sun comes round", 2, frames)


@pytest.mark.soak
def test_the_trial_in_full(walkers: Path) -> None:
    """Every light and several seeds, blunt and keen gates, all of the footage."""
    frames = 400
    tracks = full_rate_tracks(walkers, frames, FPS)
    assert len(tracks) >= 8

    for seed in range(3):
        for drift in DRIFTS:
            assert_cheap_and_complete(walkers, tracks, drift, seed, frames)
    assert_cheap_and_complete(walkers, tracks, "brighter", 9, frames, sensitivity=25)
    assert_cheap_and_complete(walkers, tracks, "brighter", 9, frames, sensitivity=75)
