"""Frames counted by camera and outcome."""

from collections import Counter

from central_server.counters import MAX_CAMERAS, OTHERS, FrameCounters, in_words
from central_server.frame import Outcome


def test_names_that_clients_make_up_are_bounded() -> None:
    """Cameras beyond the limit are counted together; those known before keep their own counts."""
    counters = FrameCounters()
    for number in range(MAX_CAMERAS + 500):
        counters.count(f"camera {number}", Outcome.DETECTED)
    counters.count("camera 0", Outcome.STALE)

    assert counters.of_camera("camera 0") == {Outcome.DETECTED: 1, Outcome.STALE: 1}
    assert counters.of_camera(f"camera {MAX_CAMERAS + 1}") == {}
    assert counters.of_camera(OTHERS) == {Outcome.DETECTED: 500}
    assert counters.total() == {Outcome.DETECTED: MAX_CAMERAS + 500, Outcome.STALE: 1}


def test_counts_that_were_given_away_do_not_change() -> None:
    """What `of_camera` gives is a copy."""
    counters = FrameCounters()
    counters.count("door", Outcome.DETECTED)
    before = counters.of_camera("door")
    counters.count("door", Outcome.DETECTED)

    assert before == {Outcome.DETECTED: 1}


def test_counts_in_words() -> None:
    """Outcomes read as people write them, none is left out, and nothing is said of what did not happen."""
    assert in_words(Counter()) == "no frames"
    counts = Counter({Outcome.OVER_CAPACITY: 2, Outcome.DETECTED: 40, Outcome.ABANDONED: 1, Outcome.STALE: 0})
    assert sorted(in_words(counts).split(", ")) == ["abandoned 1", "detected 40", "over capacity 2"]
