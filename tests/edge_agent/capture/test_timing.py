"""When a picture was taken."""

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from edge_agent.capture.timing import LONGEST_DELAY_S, PresentationClock

Packet = tuple[float | None, float]


def times(packets: Sequence[Packet]) -> list[float]:
    """Give the times of pictures that are ready when their packet is there: (presentation, arrival)."""
    clock = PresentationClock()
    captured_s = []
    for presentation_s, arrived_s in packets:
        clock.arrived(presentation_s, arrived_s)
        captured_s.append(clock.captured_s(presentation_s, arrived_s))
    return captured_s


def ages(packets: Sequence[Packet]) -> list[float]:
    return [arrived_s - time_s for (_, arrived_s), time_s in zip(packets, times(packets), strict=True)]


def test_times_follow_presentation_through_network_jitter() -> None:
    """Steps are nearly the camera's own, however unevenly packets arrive."""
    chance = random.Random(3)
    packets = [(n / 10, 500.0 + n / 10 + chance.uniform(0, 0.06)) for n in range(300)]
    captured_s = times(packets)

    steps = [after - before for before, after in pairwise(captured_s[20:])]
    assert steps == pytest.approx([0.1] * len(steps), abs=0.02)


def test_a_first_packet_that_is_early_does_not_make_the_others_old() -> None:
    """One packet with a smaller distance than all others counts for a second, not for ten."""
    packets = [(0.0, 70.0)] + [(n / 10, 70.06 + n / 10) for n in range(1, 100)]

    assert ages(packets)[10:] == pytest.approx([0.0] * 90, abs=1e-6)


def test_a_quicker_stream_is_believed_at_once() -> None:
    """When packets begin to come 100 ms sooner, no picture lies in the future and none looks old."""
    packets = [(n / 10, 70.1 + n / 10) for n in range(50)] + [(n / 10, 70.0 + n / 10) for n in range(50, 100)]

    assert ages(packets) == pytest.approx([0.0] * 100, abs=1e-6)


def test_no_age_is_negative_and_no_time_goes_back() -> None:
    """For arrivals, presentation times and losses of any kind."""
    chance = random.Random(4)
    arrived_s = 100.0
    packets: list[Packet] = []
    for _ in range(5000):
        arrived_s += chance.uniform(0, 0.2)
        odd = chance.random()
        presentation_s = None if odd < 0.1 else chance.uniform(-1e5, 1e5) if odd < 0.2 else arrived_s - 90
        packets.append((presentation_s, arrived_s))

    captured_s = times(packets)
    assert captured_s == sorted(captured_s)
    assert min(ages(packets)) >= 0.0


def test_a_picture_that_the_network_held_back_is_old() -> None:
    """Three seconds of silence, then all at once: the pictures of that time keep their times."""
    steady = [(n / 10, 50.0 + n / 10) for n in range(20)]
    burst = [(n / 10, 50.0 + 5.0) for n in range(20, 51)]

    assert ages(steady + burst)[20:] == pytest.approx([5.0 - n / 10 for n in range(20, 51)], abs=1e-6)


def test_reordered_pictures_are_in_order_and_not_before_their_time() -> None:
    """With B-frames a later picture comes first: times follow presentation, none is in the future."""
    decoding = [0] + [n for group in range(1, 40) for n in (3 * group, 3 * group - 2, 3 * group - 1)]
    clock = PresentationClock()
    arrived: set[int] = set()
    ready: list[tuple[float, float]] = []
    for position, picture in enumerate(decoding):
        now_s = 10.0 + position * 0.04
        arrived.add(picture)
        clock.arrived(picture * 0.04, now_s)
        while len(ready) in arrived:
            ready.append((clock.captured_s(len(ready) * 0.04, now_s), now_s))

    captured_s = [time_s for time_s, _ in ready]
    assert len(ready) == len(decoding)
    assert all(time_s <= now_s for time_s, now_s in ready)
    steps = [after - before for before, after in pairwise(captured_s[4:])]
    assert steps == pytest.approx([0.04] * len(steps), abs=1e-6)


def test_timestamps_that_start_again() -> None:
    """A stream that jumps back to zero goes on with fresh pictures at once."""
    before = [(1000 + n / 10, 20.0 + n / 10) for n in range(30)]
    after = [(n / 10, 23.0 + n / 10) for n in range(30)]

    assert ages(before + after) == pytest.approx([0.0] * 60, abs=1e-6)


def test_a_jump_forward_is_no_picture_of_the_future() -> None:
    """A stream that leaps by an hour goes on with fresh pictures at once."""
    before = [(n / 10, 20.0 + n / 10) for n in range(30)]
    after = [(3600 + n / 10, 23.0 + n / 10) for n in range(30)]

    assert ages(before + after) == pytest.approx([0.0] * 60, abs=1e-6)


@pytest.mark.parametrize("step_s", [1.5, 2.0, 90.0])
def test_timestamps_that_fall_back(step_s: float) -> None:
    """A fall of more than reordering explains is a new beginning, with fresh pictures at once."""
    before = [(n / 10, 20.0 + n / 10) for n in range(1000)]
    after = [(n / 10 - step_s, 20.0 + n / 10) for n in range(1000, 1050)]

    assert ages(before + after) == pytest.approx([0.0] * 1050, abs=1e-6)


def test_a_small_step_back_is_forgotten() -> None:
    """Timestamps that fall back by less make pictures look old for ten seconds at most."""
    before = [(n / 10, 20.0 + n / 10) for n in range(100)]
    after = [(n / 10 - 0.8, 20.0 + n / 10) for n in range(100, 400)]

    assert ages(before + after)[-1] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("drift", [-5e-4, 5e-4])
def test_a_clock_that_drifts(drift: float) -> None:
    """Over an hour, a camera's clock that runs wrong by 43 s a day makes no picture older than 20 ms."""
    packets = [(n / 10 * (1 + drift), 5.0 + n / 10) for n in range(36_000)]

    assert max(ages(packets)) <= 0.02


def test_no_presentation_times() -> None:
    """Without them the time of a picture is that of its arrival."""
    assert times([(None, 3.0), (None, 3.1), (None, 3.5)]) == [3.0, 3.1, 3.5]


def test_a_new_connection_owes_nothing_to_the_last() -> None:
    """After a restart even a small step back in presentation times leaves pictures fresh."""
    clock = PresentationClock()
    clock.arrived(50.0, 10.0)
    clock.restart()
    clock.arrived(50.0 - LONGEST_DELAY_S / 2, 11.0)

    assert clock.captured_s(50.0 - LONGEST_DELAY_S / 2, 11.0) == 11.0


@pytest.mark.parametrize("stamped_fps", [14.0, 24.0, 1e6])
def test_a_camera_that_counts_pictures_is_not_always_late(stamped_fps: float) -> None:
    """It stamps so many a second and sends twelve: after a while its pictures are fresh."""
    chance = random.Random(5)
    packets = [(n / stamped_fps, 70.0 + n / 12 + chance.uniform(0, 0.02)) for n in range(500)]

    assert max(ages(packets)[150:]) < 0.15


def test_a_queue_that_grows_and_stays_is_known_to_be_late() -> None:
    """What grows for some seconds and then no more is the network, and no clock that runs slow."""
    queues_s = [min(2.0, max(0.0, 0.4 * (n / 10 - 20))) for n in range(300)]
    packets = [(n / 10, 70.0 + n / 10 + queue_s) for n, queue_s in enumerate(queues_s)]

    assert ages(packets)[:260] == pytest.approx(queues_s[:260], abs=1e-6)
