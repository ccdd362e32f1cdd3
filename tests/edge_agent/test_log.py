"""The log as the journal gets it: levels, and a line a second of what repeats."""

import io
import logging
import threading
from collections.abc import Iterator

import pytest

from edge_agent.log import DEED, JournalHandler
from tests.polling import wait_until


class Written:
    """A logger of its own with a handler for the journal, and a clock that stands until it is moved."""

    def __init__(self, *, interval_s: float = 1000.0, most_faults: int = 512) -> None:
        self.now_s = 100.0
        self.stream = io.StringIO()
        self.handler = JournalHandler(
            self.stream, interval_s=interval_s, most_faults=most_faults, clock=lambda: self.now_s
        )
        self.log = logging.getLogger(f"trial-{id(self)}")
        self.log.setLevel(logging.DEBUG)
        self.log.propagate = False
        self.log.addHandler(self.handler)

    @property
    def lines(self) -> list[str]:
        """What is written so far."""
        return self.stream.getvalue().splitlines()


@pytest.fixture
def written() -> Iterator[Written]:
    """Give a log whose second does not end by itself."""
    made = Written()
    yield made
    made.handler.close()


def test_each_line_begins_with_its_level(written: Written) -> None:
    """A traceback's lines, too; the journal has the time, and more."""
    written.log.debug("a")
    written.log.info("b")
    written.log.warning("c")
    written.log.critical("d")
    written.log.error("e\nf", exc_info=ValueError("g"))

    assert written.lines[:4] == ["<7>a", "<6>b", "<4>c", "<2>d"]
    assert written.lines[4:] == ["<3>e", "<3>f", "<3>ValueError: g"]


def test_a_fault_that_repeats_has_one_line_and_then_its_latest(written: Written) -> None:
    """However its text varies; what was left out is counted, and the last line says how things stand."""
    for attempt in range(10):
        written.log.error("camera %s: attempt %d", "door", attempt)
    assert written.lines == ["<3>camera door: attempt 0"]

    written.now_s += 1000.0
    written.handler.write_late()
    assert written.lines[1:] == ["<3>camera door: attempt 9 (and 8 more like it)"]

    written.log.error("camera %s: attempt %d", "door", 10)
    assert len(written.lines) == 2, "its next second has begun with the line before"
    written.now_s += 1000.0
    written.log.error("camera %s: attempt %d", "door", 11)
    assert written.lines[2:] == ["<3>camera door: attempt 11 (and 1 more like it)"]


def test_faults_are_kept_apart(written: Written) -> None:
    """By camera, and by what they say: the noise of one hides no other."""
    for _ in range(3):
        written.log.error("camera %s: down", "door")
        written.log.error("camera %s: down", "yard")
        written.log.warning("camera %s: slow", "yard")
        written.log.info("server %s", "connected")

    assert written.lines == [
        "<3>camera door: down",
        "<3>camera yard: down",
        "<4>camera yard: slow",
        "<6>server connected",
    ]


def test_each_thing_that_somebody_did_has_its_line(written: Written) -> None:
    """However quickly one follows another: who reads the log later wants all of them."""
    for name in ("door", "yard", "gate"):
        written.log.info("%s: add camera %s", "user 0", name, extra={DEED: True})

    assert written.lines == [f"<6>user 0: add camera {name}" for name in ("door", "yard", "gate")]


def test_the_latest_is_written_when_its_second_is_over_whoever_still_logs() -> None:
    """By a thread of its own, that ends when nothing waits."""
    log = Written(interval_s=0.05)
    for attempt in range(5):
        log.log.error("attempt %d", attempt)
    log.now_s += 1.0

    wait_until(lambda: len(log.lines) == 2, "the latest")
    assert log.lines[1] == "<3>attempt 4 (and 3 more like it)"
    wait_until(lambda: "log" not in {thread.name for thread in threading.enumerate()}, "the thread's end")
    log.handler.close()


def test_what_still_waits_is_written_at_the_end(written: Written) -> None:
    """The last line before the end is often the one that matters."""
    written.log.info("stopping %d", 1)
    written.log.info("stopping %d", 2)

    written.handler.close()

    assert written.lines == ["<6>stopping 1", "<6>stopping 2"]


def test_its_memory_is_bounded() -> None:
    """Many faults at once push out the ones before, with what these had to say."""
    log = Written(most_faults=10)
    for number in range(1000):
        for attempt in (1, 2):
            log.log.error(f"fault {number}: %d", attempt)

    assert len(log.handler._faults) == 10
    assert len(log.lines) == 1000 + 990
    log.handler.close()
    assert len(log.lines) == 2000
