"""A file played at its own pace."""

import pytest

from edge_agent.capture.pace import USUAL_INTERVAL_S, FilePace


class Time:
    """A clock that moves when something waits, or works."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


def play(pace: FilePace, time: Time, presentation_s: list[float | None], work_s: float = 0.0) -> list[float]:
    """Give the instants at which pictures came, seconds after the clock's beginning."""
    came_s = []
    for at_s in presentation_s:
        time.now_s += work_s
        came_s.append(pace.captured_s(at_s, time.now_s) - 100.0)
    return came_s


def test_pictures_come_when_they_are_due() -> None:
    """Steps are those of the presentation times, and work between pictures is made up for."""
    time = Time()

    assert play(FilePace(time.wait), time, [7.0, 7.1, 7.3, 7.31], work_s=0.02) == pytest.approx(
        [0.02, 0.12, 0.32, 0.33]
    )


def test_a_slow_reader_does_not_hurry_afterwards() -> None:
    """More than half a second late, the file goes on from there at its own pace."""
    time = Time()
    pace = FilePace(time.wait)
    play(pace, time, [0.0, 0.1])
    time.now_s += 3.0

    assert play(pace, time, [0.2, 0.3, 0.4]) == pytest.approx([3.1, 3.2, 3.3])


def test_a_little_late_is_caught_up() -> None:
    """Less than that is made up for by shorter waits."""
    time = Time()
    pace = FilePace(time.wait)
    play(pace, time, [0.0, 0.1])
    time.now_s += 0.3

    assert play(pace, time, [0.2, 0.3, 0.5]) == pytest.approx([0.2, 0.3, 0.5])
    assert time.now_s == pytest.approx(100.5)


def test_another_round_follows_at_the_same_pace() -> None:
    """The first picture of the next round comes one interval after the last of the one before."""
    time = Time()
    pace = FilePace(time.wait)
    play(pace, time, [0.0, 0.1, 0.2])
    pace.restart()

    assert play(pace, time, [0.0, 0.1]) == pytest.approx([0.3, 0.4])


def test_pictures_without_times_come_at_a_usual_rate() -> None:
    """A raw stream has none."""
    time = Time()

    assert play(FilePace(time.wait), time, [None] * 3) == pytest.approx(
        [0.0, USUAL_INTERVAL_S, 2 * USUAL_INTERVAL_S]
    )


def test_times_that_go_back_do_not_hold_it_up() -> None:
    """A file whose times jump back goes on; no picture comes before the one in front of it."""
    time = Time()
    came_s = play(FilePace(time.wait), time, [5.0, 5.1, 0.0, 0.1, 0.2])

    assert came_s == sorted(came_s)
    assert came_s[-1] < 1.0
