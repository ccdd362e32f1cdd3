"""Quality, size and rate of the frames give way in that order, and come back without fluttering."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.uplink.steps import LEAST_FPS, LEAST_QUALITY, SHRINKS, Step, StepController, ladder

TICK_S = 0.25


class Scene:
    """A camera that does as its controller says; bytes and rate follow the step as JPEGs do, more or less."""

    def __init__(self, quality: int = 80, fps: float = 10.0, full_bytes: float = 60_000) -> None:
        self.controller = StepController(quality, fps)
        self.full_bytes = full_bytes
        self.fps = fps
        self.now_s = 0.0
        self.history: list[Step] = []
        self._due_s = 0.0
        self._random = random.Random(0)

    @property
    def frame_bytes(self) -> float:
        return self.full_bytes * self.controller.step.relative_bytes

    @property
    def bytes_s(self) -> float:
        """What the frames take at the present step."""
        return self.frame_bytes * self.fps * self.controller.step.rate

    def run(self, seconds: float, share_bytes_s: float, most_bytes: float = math.inf) -> None:
        """Let time pass with such a share."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += TICK_S / 10
            while self._due_s <= self.now_s:
                noise = self._random.uniform(0.9, 1.1)
                self.controller.offered(round(self.frame_bytes * noise), self._due_s, self._due_s)
                self._due_s += 1 / (self.fps * self.controller.step.rate)
            self.controller.choose(share_bytes_s, most_bytes, self.now_s)
            self.history.append(self.controller.step)


@given(st.integers(1, 100), st.floats(0.1, 60))
def test_the_ladder_goes_down_by_quality_then_size_then_rate(quality: int, fps: float) -> None:
    """One thing at a time, in that order, to floors that are above nothing."""
    steps = ladder(quality, fps)

    assert steps[0] == Step(quality, 1.0, 1.0)
    for before, after in itertools.pairwise(steps):
        changed = [
            name for name in ("quality", "shrink", "rate") if getattr(before, name) != getattr(after, name)
        ]
        assert len(changed) == 1
        assert getattr(after, changed[0]) < getattr(before, changed[0])
        if changed[0] != "quality":
            assert before.quality == min(quality, LEAST_QUALITY)
        if changed[0] == "rate":
            assert before.shrink == SHRINKS[-1]
        assert after.relative_bytes * after.rate < before.relative_bytes * before.rate
    assert steps[-1].rate * fps >= min(fps, LEAST_FPS) * (1 - 1e-9)
    assert steps[-1].rate * fps <= max(LEAST_FPS * (1 + 1e-9), 0) or steps[-1].rate == 1.0
    assert len(steps) < 40


def test_with_enough_nothing_gives_way() -> None:
    """A share above the need leaves the frames as they are wanted."""
    scene = Scene()
    scene.run(20, 700_000)
    assert set(scene.history) == {Step(80, 1.0, 1.0)}


@pytest.mark.parametrize(
    ("share_bytes_s", "gave_way"),
    [(400_000, "quality"), (120_000, "size"), (20_000, "rate")],
)
def test_what_gives_way_fits_the_share(share_bytes_s: float, gave_way: str) -> None:
    """Within two seconds; the first things to give way go as far as they can before the next."""
    scene = Scene()
    scene.run(2, share_bytes_s)

    step = scene.controller.step
    assert scene.bytes_s <= share_bytes_s
    assert (step.quality < 80, step.shrink < 1, step.rate < 1) == (
        True,
        gave_way != "quality",
        gave_way == "rate",
    )


def test_the_least_is_a_frame_in_four_seconds() -> None:
    """However little there is, something is still sent."""
    scene = Scene()
    scene.run(10, 1.0)
    assert scene.controller.step == Step(40, 0.35, pytest.approx(0.025))


def test_the_size_does_not_flutter() -> None:
    """At a share that lies between two steps the pictures keep their size, whatever the noise."""
    for share_bytes_s in range(30_000, 300_000, 9_000):
        scene = Scene()
        scene.run(5, share_bytes_s)
        settled = len(scene.history)
        scene.run(60, share_bytes_s)
        changes = sum(a != b for a, b in itertools.pairwise(scene.history[settled:]))
        assert changes <= 2, share_bytes_s


def test_a_frame_that_would_take_too_long_is_made_smaller_whatever_the_rate() -> None:
    """One frame a second fits the share, but not the time that it may be on its way."""
    scene = Scene(fps=1.0)
    scene.run(20, 60_000, most_bytes=16_000)
    assert scene.frame_bytes <= 16_000
    assert scene.controller.step.rate == 1.0


def test_it_comes_back_within_seconds() -> None:
    """Once there is room again, quality, size and rate are what was wanted."""
    scene = Scene()
    scene.run(20, 10_000)
    scene.run(5, math.inf)
    assert scene.controller.step == Step(80, 1.0, 1.0)


def test_a_way_up_that_was_wrong_is_tried_less_and_less_often() -> None:
    """A share that looks larger from below than it is does not make the frames flutter for ever."""
    scene = Scene()
    ups: list[float] = []
    for _ in range(240):
        before = scene.controller.step
        # Only with large frames is it seen how little there is.
        scene.run(0.5, 100_000 if scene.controller.step.shrink > 0.7 else 190_000)
        if scene.controller.step.relative_bytes > before.relative_bytes:
            ups.append(scene.now_s)
    assert len([at_s for at_s in ups if at_s > 60]) <= 2


def test_a_camera_that_sends_little_by_itself_keeps_its_quality() -> None:
    """Behind a closed motion gate one frame in five seconds fits a small share as it is."""
    scene = Scene()
    scene.fps = 0.2  # of the ten that are wanted
    scene.run(60, 40_000)
    assert scene.controller.step == Step(80, 1.0, 1.0)


def test_another_rate_and_quality_are_taken_at_once() -> None:
    """What is wanted changes while frames give way; what is wanted bounds what is made."""
    scene = Scene()
    scene.run(5, 120_000)
    scene.controller.want(50, 2.0)
    scene.fps = 2.0
    scene.run(10, 120_000)
    assert scene.controller.step == Step(50, 1.0, 1.0)


@given(st.lists(st.tuples(st.floats(0.05, 3), st.integers(1, 10**6), st.floats(1, 1e7)), max_size=100))
def test_the_step_is_always_on_the_ladder(events: list[tuple[float, int, float]]) -> None:
    """Whatever comes, at whatever times: the step is one of those there are."""
    controller, now_s = StepController(75, 5.0), 0.0
    for pause_s, frame_bytes, share_bytes_s in events:
        now_s += pause_s
        controller.offered(frame_bytes, now_s - 0.05, now_s)
        controller.choose(share_bytes_s, share_bytes_s / 4, now_s)
        assert controller.step in ladder(75, 5.0)
