"""Why a camera's frames are not in time, in one reason that does not flicker."""

from dataclasses import replace

from edge_agent.uplink.lateness import Carried, Lateness
from edge_agent.uplink.steps import Step

WELL = Carried(
    is_connected=True,
    uplink_bytes_s=60_000.0,
    step=Step(80, 1.0, 1.0),
    wanted_fps=10.0,
    is_uplink_short=False,
)


class Camera:
    """Offers ten frames a second; what becomes of them is told."""

    def __init__(self) -> None:
        self.lateness = Lateness(max_age_s=1.0)
        self.told: list[str] = []
        self.now_s = 0.0

    def run(
        self,
        seconds: float,
        carried: Carried = WELL,
        *,
        latency_s: float | None = 0.1,
        server_s: float = 0.01,
        is_stale: bool = False,
    ) -> None:
        """Let time pass; frames are answered so, or with None not at all."""
        for _ in range(round(seconds * 10)):
            self.now_s += 0.1
            self.lateness.offered(self.now_s)
            if latency_s is not None:
                self.lateness.answered(latency_s, server_s, is_stale=is_stale)
            if self.lateness.judge(carried, self.now_s):
                self.told.append(self.lateness.reason)


def test_frames_in_time_are_no_trouble() -> None:
    """Nor is a second without answers, as when a server starts again."""
    camera = Camera()
    camera.run(10)
    camera.run(2, latency_s=None)
    camera.run(10)
    assert camera.told == []


def test_late_answers_are_told_with_the_uplinks_throughput_and_end_with_hysteresis() -> None:
    """The reason stays as it began, however the figures move."""
    camera = Camera()
    camera.run(10, latency_s=2.3)
    camera.run(20, replace(WELL, uplink_bytes_s=70_000.0), latency_s=2.6)
    camera.run(2)
    assert camera.told == ["answers take 2.3 s: the uplink carries 480 kbit/s"]
    camera.run(3)
    assert camera.told[1:] == [""]


def test_a_slow_server_is_told_apart_from_a_slow_uplink() -> None:
    """By the answers' own figures."""
    camera = Camera()
    camera.run(10, latency_s=2.0, server_s=1.9)
    assert camera.told == ["answers take 2.0 s, 1.9 s of it at the server"]


def test_frames_that_nobody_looks_at_are_not_in_time() -> None:
    """An answer that comes at once and says stale is none."""
    camera = Camera()
    camera.run(10, is_stale=True)
    assert camera.told == ["frames are too old when the server gets to them"]


def test_silence_and_no_connection_are_told_after_some_seconds() -> None:
    """One after the other, as each is found out."""
    camera = Camera()
    camera.run(5)
    camera.run(8, latency_s=None)
    camera.run(8, replace(WELL, is_connected=False), latency_s=None)
    camera.run(8)
    assert camera.told == ["no answer from the server for 4 s", "the server is not connected", ""]


def test_a_new_connection_begins_with_patience() -> None:
    """What could not go was not without an answer; and it takes an answer to be well again."""
    camera = Camera()
    camera.run(1)
    camera.run(20, replace(WELL, is_connected=False), latency_s=None)
    camera.lateness.connected()
    camera.now_s += 9
    camera.run(3, latency_s=None)
    assert camera.told == ["the server is not connected"]
    camera.run(5)
    assert camera.told[1:] == [""]


def test_calls_that_begin_again_and_again_without_an_answer_do_not_flicker() -> None:
    """The server takes every call and answers none: that is one trouble, for as long as it lasts."""
    camera = Camera()
    camera.run(5)
    for _ in range(10):
        camera.run(11, latency_s=None)
        camera.run(0.5, replace(WELL, is_connected=False), latency_s=None)
        camera.lateness.connected()
    assert camera.told == ["no answer from the server for 4 s"]


def test_fewer_frames_for_want_of_an_uplink_are_told_for_want_of_a_budget_not() -> None:
    """A budget is meant; smaller pictures that come in time are no trouble."""
    smaller, fewer = Step(40, 0.5, 1.0), Step(40, 0.35, 0.24)
    camera = Camera()
    camera.run(10, replace(WELL, step=smaller, is_uplink_short=True))
    camera.run(10, replace(WELL, step=fewer))
    assert camera.told == []
    camera.run(10, replace(WELL, step=fewer, is_uplink_short=True))
    assert camera.told == ["the uplink carries 480 kbit/s: 2.4 of 10 frames a second are sent"]


def test_a_camera_behind_a_closed_gate_waits_for_nothing() -> None:
    """No frame, no answer, no trouble; however long."""
    camera = Camera()
    camera.run(5)
    for _ in range(100):
        camera.now_s += 5
        camera.lateness.offered(camera.now_s)
        camera.lateness.answered(0.1, 0.01, is_stale=False)
        camera.lateness.judge(WELL, camera.now_s + 4.9)
    assert camera.lateness.reason == ""
