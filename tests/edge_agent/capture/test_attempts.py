"""Whose turn it is to be tried, and who is woken when a common cause is over."""

import threading
from collections.abc import Callable, Hashable

import pytest

from edge_agent import backoff
from edge_agent.capture import attempts as attempts_of_all
from edge_agent.capture.attempts import AT_ONCE, PROBE_INTERVAL_S, SAME_CAUSE_S, Attempts
from edge_agent.state import CameraState
from tests.demo_cameras import DemoCameras
from tests.edge_agent.capture.conftest import MakeClip, Watch
from tests.edge_agent.capture.mjpeg_server import MjpegCamera, serving


class Clock:
    """A monotonic clock that moves when told, and by what those who wait for a turn sleep."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Sleeper(threading.Event):
    """An event that is never set: waiting for it moves the clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.now_s += timeout or 0.0
        return False


def test_one_camera_alone_does_not_wait() -> None:
    """A few attempts may begin at once; more than that are spread, at the rate that was set."""
    clock = Clock()
    attempts = Attempts(per_second=10.0, clock=clock)
    clock.now_s += 60.0
    begun_s = []
    for _ in range(30):
        assert attempts.turn(Sleeper(clock), was_well=True)
        begun_s.append(clock.now_s - 1060.0)

    assert begun_s[:AT_ONCE] == [0.0] * AT_ONCE
    assert begun_s[AT_ONCE:] == pytest.approx([0.1 * number for number in range(1, 27)])


def test_as_shipped_a_hundred_cameras_take_their_time() -> None:
    """Four at once and twelve a second: some eight seconds for all of them."""
    clock = Clock()
    attempts = Attempts(clock=clock)
    clock.now_s += 60.0
    begin_s = clock.now_s
    for _ in range(100):
        attempts.turn(Sleeper(clock), was_well=True)

    assert clock.now_s - begin_s == pytest.approx(96 / 12)


def all_in_turn(attempts: Attempts, waiting: list[tuple[str, bool]]) -> list[str]:
    """Let threads ask for their turn, one after the other; gives the order in which they get it."""
    order: list[str] = []
    threads = []
    for name, was_well in waiting:

        def ask(name: str = name, was_well: bool = was_well) -> None:
            if attempts.turn(threading.Event(), was_well=was_well):
                order.append(name)

        threads.append(threading.Thread(target=ask))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return order


def test_cameras_that_were_well_come_first() -> None:
    """Those that have been away for long wait until they have had their turn."""
    attempts = Attempts(per_second=20.0)
    for _ in range(AT_ONCE):
        attempts.turn(threading.Event(), was_well=True)
    order = all_in_turn(attempts, [("old", False), ("older", False), ("well", True), ("also well", True)])

    assert set(order[:2]) == {"well", "also well"}


def test_who_stops_waits_no_longer_and_holds_up_nobody() -> None:
    """A turn that is given up is nobody's."""
    attempts = Attempts(per_second=0.01)
    for _ in range(AT_ONCE):
        attempts.turn(threading.Event(), was_well=True)
    stopping, turns = threading.Event(), []
    thread = threading.Thread(target=lambda: turns.append(attempts.turn(stopping, was_well=True)))
    thread.start()
    stopping.set()
    thread.join(5.0)

    assert turns == [False]


Woken = Callable[[str], Callable[[], None]]


def test_who_went_away_together_comes_back_together() -> None:
    """One that answers again wakes those that went away about when it did, and no other."""
    clock, woken = Clock(), []
    attempts = Attempts(clock=clock)

    def away(name: str) -> float:
        return attempts.away(name, lambda: woken.append(name))

    alone_s = away("long dead")
    clock.now_s += 10 * SAME_CAUSE_S
    away("door")
    clock.now_s += SAME_CAUSE_S / 2
    together_s = away("yard"), away("gate")
    clock.now_s += 600.0
    later_s = [away("door"), away("yard"), away("gate")]
    clock.now_s += PROBE_INTERVAL_S
    later_s.append(away("door"))
    attempts.reached("yard")
    attempts.reached("yard")

    assert alone_s == float("inf")
    assert together_s == (PROBE_INTERVAL_S, 2 * PROBE_INTERVAL_S)
    # One after the other, again and again: never two at the same time.
    assert later_s == [number * PROBE_INTERVAL_S for number in (1, 2, 3, 3)]
    assert woken == ["door", "gate"]


def test_who_is_stopped_is_forgotten() -> None:
    """And makes nobody else's trouble a common one."""
    woken: list[str] = []
    attempts = Attempts()
    attempts.away("door", lambda: woken.append("door"))
    attempts.forget("door")

    assert attempts.away("yard", lambda: None) == float("inf")
    attempts.reached("yard")
    assert woken == []


def test_what_counts_as_away(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is none and a port that is refused do; a camera that answers with an error does not."""
    away: set[str] = set()
    note = Attempts.away

    def noted(attempts: Attempts, camera: Hashable, wake: Callable[[], None]) -> float:
        away.add(threading.current_thread().name)
        return note(attempts, camera, wake)

    monkeypatch.setattr(Attempts, "away", noted)
    unknown = [watch(f"rtsp://camera{number}.invalid/live", name=f"camera{number}") for number in range(2)]
    refused = watch("rtsp://127.0.0.1:1/live")
    with serving(MjpegCamera([b""], status=404)) as camera:
        answering = watch(camera.url, name="answering")
        for watcher in [*unknown, refused, answering]:
            watcher.wait_for_state(CameraState.OFFLINE)
            watcher.wait_until(lambda of=watcher: of.capture.counters.failed_opens >= 2, "two attempts")
    watch.stop()

    assert away == {"capture-camera0", "capture-camera1", "capture-yard"}


def test_the_first_that_answers_wakes_the_others(
    watch: Watch, make_clip: MakeClip, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever delays they had come to: a recorder restarts, and all of its channels are back at once."""
    monkeypatch.setattr(backoff, "FIRST_DELAY_S", 600.0)
    monkeypatch.setattr(backoff, "YOUNG_LIMIT_S", 600.0)
    monkeypatch.setattr(backoff, "OLD_LIMIT_S", 600.0)
    monkeypatch.setattr(attempts_of_all, "PROBE_INTERVAL_S", 200.0)
    clip = make_clip("recorder.mp4", "libx264", tune="zerolatency", g="5")
    with DemoCameras() as cameras:
        recorder = cameras.serve(clip)
        url, port = recorder.url, recorder.port
        cameras.close(recorder)
        channels = [watch(url, name=f"channel{number}") for number in range(5)]
        for channel in channels:
            channel.wait_for_state(CameraState.OFFLINE)
        cameras.serve(clip, port=port)
        first = watch(url, name="first")
        watch.attempts.away(first.capture, lambda: None)
        first.wait_for_state(CameraState.STREAMING)
        watch.attempts.reached(first.capture)
        for channel in channels:
            channel.wait_for_state(CameraState.STREAMING)
        watch.stop()
