"""The estimate of a frame's work."""

import pytest

from central_server.work_time import WorkTime


def noted(*times_s: float) -> float:
    work_time = WorkTime()
    for time_s in times_s:
        work_time.note(time_s)
    return work_time.usual_s


def test_nothing_is_known_at_first() -> None:
    """So no frame is refused for it."""
    assert WorkTime().usual_s == 0


def test_steady_work_is_expected_as_it_is() -> None:
    """From the first frame on."""
    assert noted(0.005) == 0.005
    assert noted(*[0.005] * 10) == pytest.approx(0.005)


def test_unsteady_work_gets_room() -> None:
    """Nearly every frame stays below what is usual."""
    assert 0.009 < noted(*[0.004, 0.006] * 50) < 0.012


def test_one_slow_frame_is_forgotten() -> None:
    """Within some tens of frames."""
    assert noted(*[0.005] * 10, 1.0) > 0.5
    assert noted(*[0.005] * 10, 1.0, *[0.005] * 60) < 0.006


def test_work_that_gets_slower_is_followed() -> None:
    """At once at first, then exactly."""
    assert noted(*[0.005] * 10, 0.020) > 0.020
    assert noted(*[0.005] * 10, *[0.020] * 60) == pytest.approx(0.020, rel=0.05)


def test_doubt_lowers_the_estimate() -> None:
    """To nothing in the end."""
    work_time = WorkTime()
    work_time.note(1.0)
    work_time.note(3.0)
    before_s = work_time.usual_s
    work_time.doubt()

    assert 0.8 * before_s < work_time.usual_s < 0.9 * before_s
    for _ in range(100):
        work_time.doubt()
    assert work_time.usual_s < 1e-4
