"""Which frames are kept when a camera delivers more than is wanted."""

import random
from itertools import pairwise

import pytest

from edge_agent.capture.thinning import Thinner


def kept(wanted_fps: float, times_s: list[float]) -> list[float]:
    thinner = Thinner(wanted_fps)
    return [time_s for time_s in times_s if thinner.keep(time_s)]


def camera(fps: float, seconds: float, jitter_s: float = 0.0, seed: int = 1) -> list[float]:
    """Give times of a camera's frames, each early or late by up to `jitter_s`, in order."""
    chance = random.Random(seed)
    return sorted(n / fps + chance.uniform(-jitter_s, jitter_s) for n in range(int(fps * seconds)))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("jitter_s", [0.0, 0.005, 0.02])
def test_a_camera_at_the_wanted_rate_loses_no_frame(jitter_s: float, seed: int) -> None:
    """10 fps wanted of a 10 fps camera keeps every frame, whatever the jitter up to a fifth of the period."""
    times_s = camera(10.0, 60.0, jitter_s, seed)

    assert kept(10.0, times_s) == times_s


@pytest.mark.parametrize(
    ("delivered_fps", "wanted_fps"), [(25, 10), (30, 10), (12, 10), (15, 4), (25, 24), (60, 7)]
)
def test_the_average_is_the_wanted_rate(delivered_fps: float, wanted_fps: float) -> None:
    """Over ten minutes as many frames are kept as the wanted rate has ticks, give or take one."""
    assert abs(len(kept(wanted_fps, camera(delivered_fps, 600.0))) - wanted_fps * 600) <= 1


def test_kept_frames_are_evenly_spread() -> None:
    """25 fps thinned to 10 leaves steps of two or three frames and nothing else."""
    times_s = kept(10.0, camera(25.0, 60.0))
    steps = {round((after - before) * 25) for before, after in pairwise(times_s)}

    assert steps == {2, 3}


def test_half_the_rate_is_every_other_frame() -> None:
    """10 fps thinned to 5 leaves no two neighbours."""
    times_s = camera(10.0, 60.0)

    assert kept(5.0, times_s) == times_s[::2]


def test_a_slower_camera_keeps_all_and_saves_nothing_up() -> None:
    """After 10 s at 2 fps, a burst at 50 fps is thinned to the wanted 10 fps from its first second on."""
    slow_s = camera(2.0, 10.0)
    burst_s = [10.0 + n / 50 for n in range(50)]

    assert kept(10.0, slow_s) == slow_s
    assert len(kept(10.0, slow_s + burst_s)) - len(slow_s) <= 11


def test_an_interruption_is_followed_by_even_steps() -> None:
    """The first frame after a gap is kept, and the next comes no sooner than half a period later."""
    times_s = kept(10.0, [0.0, 0.1, 0.2, 7.031, 7.041, 7.051, 7.082, 7.131, 7.231])

    assert times_s == [0.0, 0.1, 0.2, 7.031, 7.131, 7.231]


def test_frames_of_the_same_instant_are_one() -> None:
    """Of a burst whose frames all got the same time, the first is kept."""
    assert kept(10.0, [5.0] * 20) == [5.0]


def test_another_rate_holds_at_once() -> None:
    """From one frame in ten seconds up to ten a second, and down again, without a gap and without a burst."""
    thinner = Thinner(0.1)
    times = [number / 25 for number in range(1000)]
    kept = []
    for captured_s in times:
        if captured_s == 4:
            thinner.at_rate(10)
        if captured_s == 20:
            thinner.at_rate(2)
        if thinner.keep(captured_s):
            kept.append(captured_s)

    assert [captured_s for captured_s in kept if captured_s < 4] == [0]
    assert kept[1] == 4
    assert len([captured_s for captured_s in kept if 4 <= captured_s < 20]) == pytest.approx(160, abs=1)
    assert len([captured_s for captured_s in kept if captured_s >= 20]) == pytest.approx(40, abs=1)
