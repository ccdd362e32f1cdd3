"""A camera's frames between capture and answer."""

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.frame import Frame
from edge_agent.window import Window


def frame(frame_id: int, captured_s: float = 0.0) -> Frame:
    return Frame("door", frame_id, 0, captured_s, b"jpeg", 64, 48)


def test_the_latest_frame_takes_the_place_of_the_waiting_one() -> None:
    """A newer frame replaces the one that waits, which comes back to be counted."""
    window = Window()
    first, second = frame(1), frame(2)

    assert window.offer(first) is None
    assert window.offer(second) is first
    assert window.take(0.0) is second
    assert window.take(0.0) is None


def test_no_more_than_the_window_is_in_flight() -> None:
    """A full window keeps the frame waiting until an answer makes room."""
    window = Window(size=2)
    for frame_id in (1, 2, 3):
        window.offer(frame(frame_id))
        window.take(0.0)

    assert window.in_flight == 2
    assert window.answered(1) is not None
    sent = window.take(1.0)
    assert sent is not None
    assert sent.frame_id == 3


def test_an_answer_to_no_frame_in_flight_is_told_apart() -> None:
    """A second answer to the same frame, or one to a frame never sent, is none."""
    window = Window()
    window.offer(frame(7))
    window.take(0.0)

    assert window.answered(8) is None
    assert window.answered(7) is not None
    assert window.answered(7) is None


def test_what_a_broken_call_loses_is_counted_and_makes_room() -> None:
    """After a call's end nothing is in flight; the waiting frame stays."""
    window = Window(size=1)
    window.offer(frame(1))
    window.take(5.0)
    window.offer(frame(2))

    assert window.oldest_sent_s() == 5.0
    assert window.lose() == 1
    assert window.oldest_sent_s() is None
    assert window.take(6.0) == frame(2)


def test_what_waits_and_what_flies_can_be_seen() -> None:
    """The frame whose turn may come, whether there is room for it, and which ones are not answered."""
    window = Window(size=1)
    window.offer(frame(1))
    assert (window.waiting, window.has_room, window.in_flight_ids) == (frame(1), True, ())
    window.take(0.0)
    window.offer(frame(2))
    assert (window.waiting, window.has_room, window.in_flight_ids) == (frame(2), False, (1,))
    window.discard()
    window.answered(1)
    assert (window.waiting, window.take(1.0)) == (None, None)


@given(st.lists(st.sampled_from(["offer", "take", "answer"])), st.integers(1, 4))
def test_every_frame_ends_once(steps: list[str], size: int) -> None:
    """Each offered frame waits, flies, was answered or was superseded: exactly one of them."""
    window, offered, flying, ended = Window(size), 0, [], 0
    for step in steps:
        if step == "offer":
            offered += 1
            ended += window.offer(frame(offered)) is not None
        elif step == "take":
            taken = window.take(0.0)
            flying += [taken.frame_id] if taken else []
        elif flying:
            ended += window.answered(flying.pop(0)) is not None
        assert window.in_flight == len(flying) <= size
    waiting = window.offer(frame(offered + 1)) is not None
    assert offered == ended + len(flying) + waiting
