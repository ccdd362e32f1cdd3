"""The scheduler alone: slots, deadlines and turns, on a clock that the tests move."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from central_server.detectors.detector import Query
from central_server.frame import EncodedImage, Frame, Outcome
from central_server.scheduler import Scheduler, Stream, Waiting

IMAGE = EncodedImage(b"")


class Cameras:
    """Streams of one scheduler, and what became of their frames, by camera and frame id."""

    def __init__(self, *names: str) -> None:
        self.scheduler = Scheduler()
        self.now_s = 0.0
        self.dropped: list[tuple[str, int, Outcome]] = []
        self.streams = {name: self._stream(name) for name in names}
        self._next_ids: Counter[str] = Counter()

    def _stream(self, name: str) -> Stream:
        def on_drop(waiting: Waiting, reason: Outcome) -> None:
            self.dropped.append((name, waiting.frame.frame_id, reason))

        return Stream(name, Query(), lambda answer: None, on_drop)

    def offer(self, name: str, max_age_s: float = 1.0) -> int:
        """Offer a camera's next frame; gives its id, counted from 0."""
        frame = Frame(self._next_ids[name], IMAGE, name)
        self._next_ids[name] += 1
        self.scheduler.offer(self.streams[name], frame, self.now_s, self.now_s + max_age_s)
        return frame.frame_id

    def take(self) -> tuple[str, int] | None:
        """Take the next frame: its camera and id."""
        waiting = self.scheduler.take(self.now_s)
        return None if waiting is None else (waiting.stream.camera_id, waiting.frame.frame_id)

    def take_all(self) -> list[str]:
        """Take until nothing waits: the cameras in order."""
        order = []
        while taken := self.take():
            order.append(taken[0])
        return order


def test_nothing_waits_at_first() -> None:
    """An empty scheduler has no frame to give."""
    assert Cameras("a").take() is None


def test_a_frame_is_given_once() -> None:
    """What was taken is gone."""
    cameras = Cameras("a")
    cameras.offer("a")

    assert cameras.take() == ("a", 0)
    assert cameras.take() is None
    assert cameras.dropped == []


def test_the_latest_frame_of_a_stream_wins() -> None:
    """A newer frame takes the slot, and the older one is dropped as superseded."""
    cameras = Cameras("a")
    for _ in range(3):
        cameras.offer("a")

    assert cameras.take() == ("a", 2)
    assert cameras.take() is None
    assert cameras.dropped == [("a", 0, Outcome.SUPERSEDED), ("a", 1, Outcome.SUPERSEDED)]


def test_the_earliest_deadline_comes_first() -> None:
    """Among streams whose turn it is, the frame that will be worthless first is worked on first."""
    cameras = Cameras("patient", "hasty", "middling")
    cameras.offer("patient", max_age_s=3)
    cameras.offer("hasty", max_age_s=1)
    cameras.offer("middling", max_age_s=2)

    assert cameras.take_all() == ["hasty", "middling", "patient"]


def test_equal_deadlines_are_served_in_order_of_arrival() -> None:
    """A tie goes to who came first."""
    names = [f"camera {number}" for number in range(20)]
    cameras = Cameras(*names)
    for name in names:
        cameras.offer(name)

    assert cameras.take_all() == names


def test_a_stale_frame_is_never_given() -> None:
    """At its deadline, to the instant, a frame is dropped; the next one in line is given."""
    cameras = Cameras("old", "young")
    cameras.offer("old", max_age_s=1)
    cameras.offer("young", max_age_s=2)
    cameras.now_s = 1.0

    assert cameras.take() == ("young", 0)
    assert cameras.dropped == [("old", 0, Outcome.STALE)]


def test_a_frame_just_before_its_deadline_is_given() -> None:
    """Only what is too old is dropped."""
    cameras = Cameras("a")
    cameras.offer("a", max_age_s=1)
    cameras.now_s = 0.999

    assert cameras.take() == ("a", 0)


@pytest.mark.parametrize("max_age_s", [0.0, -5.0])
def test_a_frame_that_arrives_too_old_takes_nobodys_place(max_age_s: float) -> None:
    """It is dropped at once, and a good frame that waits is not superseded by it."""
    cameras = Cameras("a")
    cameras.offer("a")
    cameras.offer("a", max_age_s=max_age_s)

    assert cameras.dropped == [("a", 1, Outcome.STALE)]
    assert cameras.take() == ("a", 0)


def test_a_stream_that_left_is_not_served() -> None:
    """Work for a client that has gone is not started; its frame is dropped as abandoned, others are given."""
    cameras = Cameras("gone", "here")
    cameras.offer("gone")
    cameras.offer("here")
    cameras.scheduler.leave(cameras.streams["gone"])

    assert cameras.dropped == [("gone", 0, Outcome.ABANDONED)]
    assert cameras.take_all() == ["here"]
    assert cameras.streams["gone"].left


def serve_overload(cameras: Cameras, frames: int, period_s: float, phase_s: dict[str, float]) -> Counter[str]:
    """Offer each camera's frames at its own phase while one worker takes one frame each period of its own."""
    arrivals = sorted((phase_s[name] + n * period_s, name) for name in phase_s for n in range(frames))
    served: Counter[str] = Counter()
    next_take_s = work_s = period_s / (len(phase_s) / 2)  # Half of what is offered can be worked on.
    for arrival_s, name in arrivals:
        while next_take_s <= arrival_s:
            cameras.now_s = next_take_s
            if taken := cameras.take():
                served[taken[0]] += 1
            next_take_s += work_s
        cameras.now_s = arrival_s
        cameras.offer(name)
    return served


def test_phases_do_not_decide_who_is_served() -> None:
    """Under overload, streams whose frames always arrive a little later than others' get as much as they.

    By deadlines alone the first of two streams would always win and the second never be served.
    """
    cameras = Cameras("first", "second")

    served = serve_overload(cameras, frames=200, period_s=0.1, phase_s={"first": 0.0, "second": 0.001})

    assert sum(served.values()) == pytest.approx(200, abs=3)
    assert abs(served["first"] - served["second"]) <= 1


@pytest.mark.parametrize("count", [3, 4, 7, 16])
def test_equal_streams_get_equal_shares(count: int) -> None:
    """At twice what can be served, no stream gets more than one frame more than another."""
    names = [f"camera {number}" for number in range(count)]
    cameras = Cameras(*names)

    served = serve_overload(cameras, 120, 0.1, {name: 0.003 * i for i, name in enumerate(names)})

    assert max(served.values()) - min(served[name] for name in names) <= 1


def test_a_greedy_stream_gets_no_more_than_its_turn() -> None:
    """A flood that asks for a short maximum age does not take what a slow stream with a long one is due."""
    cameras = Cameras("greedy", "slow")
    served: Counter[str] = Counter()
    for step in range(400):
        cameras.now_s = step * 0.005
        for _ in range(10):
            cameras.offer("greedy", max_age_s=0.05)
        if step % 4 == 0:
            cameras.offer("slow", max_age_s=10)
        taken = cameras.take()
        assert taken is not None
        served[taken[0]] += 1

    assert served == {"slow": 100, "greedy": 300}


def test_a_stream_whose_frame_went_stale_keeps_its_turn() -> None:
    """Whoever was not served is due before those who were."""
    cameras = Cameras("unlucky", "served")
    cameras.offer("unlucky", max_age_s=0.1)
    cameras.offer("served", max_age_s=5)
    cameras.now_s = 0.2
    assert cameras.take() == ("served", 0)

    cameras.offer("served", max_age_s=1)
    cameras.offer("unlucky", max_age_s=5)

    assert cameras.take_all() == ["unlucky", "served"]


def test_turns_are_forgotten_once_nothing_waits() -> None:
    """Having been served yesterday costs nothing today: with room for all, the earliest deadline is first."""
    cameras = Cameras("busy", "idle")
    for _ in range(50):
        cameras.offer("busy")
        assert cameras.take_all() == ["busy"]

    cameras.offer("idle", max_age_s=2)
    cameras.offer("busy", max_age_s=1)

    assert cameras.take_all() == ["busy", "idle"]


def test_a_newcomer_joins_the_present_turn() -> None:
    """A stream that was away has no claim on the turns it missed."""
    cameras = Cameras("old", "other", "new")
    for _ in range(50):
        cameras.offer("old")
        cameras.offer("other")
        cameras.take()

    order = []
    for _ in range(12):
        for name in ("old", "other", "new"):
            cameras.offer(name)
        taken = cameras.take()
        assert taken is not None
        order.append(taken[0])

    assert Counter(order) == {"old": 4, "other": 4, "new": 4}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.integers(0, 4), st.floats(-0.5, 3)),
        st.tuples(st.just("take"), st.just(0), st.just(0.0)),
        st.tuples(st.just("wait"), st.just(0), st.floats(0, 1)),
        st.tuples(st.just("leave"), st.integers(0, 4), st.just(0.0)),
    ),
    max_size=120,
)


@given(steps)
def test_every_frame_is_given_or_dropped_exactly_once(script: list[tuple[str, int, float]]) -> None:
    """Whatever happens in whatever order: each frame is taken once or dropped once, never both or none."""
    names = [f"camera {number}" for number in range(5)]
    cameras = Cameras(*names)
    offered: list[tuple[str, int]] = []
    taken: list[tuple[str, int]] = []
    deadlines: dict[tuple[str, int], float] = {}
    for action, number, value in script:
        name = names[number]
        if action == "offer" and not cameras.streams[name].left:
            frame = (name, cameras.offer(name, value))
            offered.append(frame)
            deadlines[frame] = cameras.now_s + value
        elif action == "take" and (given_frame := cameras.take()):
            assert cameras.now_s < deadlines[given_frame]
            taken.append(given_frame)
        elif action == "wait":
            cameras.now_s += value
        elif action == "leave":
            cameras.scheduler.leave(cameras.streams[name])
    while last := cameras.take():
        taken.append(last)

    ended = taken + [(name, frame_id) for name, frame_id, _ in cameras.dropped]
    assert sorted(ended) == sorted(offered)
    for name in names:
        order = [frame_id for camera, frame_id in taken if camera == name]
        assert order == sorted(order)
