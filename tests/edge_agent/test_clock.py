"""The gateway's clock: unset, stepped, good; and nothing else is ever timed by it."""

import ast
import time
from pathlib import Path

import edge_agent
from edge_agent.clock import RELEASED_NS, STEP_NS, Clock
from edge_agent.record import ClockTrust

SECOND_NS = 10**9


class Times:
    """A wall clock that can be set, and an uptime that cannot."""

    def __init__(self, wall_ns: int) -> None:
        self.wall_ns = wall_ns
        self.uptime_ns = 77 * SECOND_NS

    def pass_ns(self, length_ns: int) -> None:
        self.wall_ns += length_ns
        self.uptime_ns += length_ns

    def clock(self) -> Clock:
        return Clock(wall_ns=lambda: self.wall_ns, uptime_ns=lambda: self.uptime_ns)


def test_the_machines_clock_is_good() -> None:
    """Now, and a moment later."""
    clock = Clock()
    before_ns = time.time_ns()
    looks = [clock.look() for _ in range(100)]
    assert {trust for _, trust in looks} == {ClockTrust.GOOD}
    assert before_ns <= looks[0][0] <= looks[-1][0] <= time.time_ns()


def test_a_clock_that_begins_in_1970_is_unset_until_it_is_set() -> None:
    """The look after it was set tells of a step, the next one trusts it."""
    times = Times(5 * SECOND_NS)
    clock = times.clock()
    times.pass_ns(3600 * SECOND_NS)
    assert clock.look() == (3605 * SECOND_NS, ClockTrust.UNSET)
    times.wall_ns = RELEASED_NS + SECOND_NS
    assert clock.look() == (times.wall_ns, ClockTrust.STEPPED)
    times.pass_ns(SECOND_NS)
    assert clock.look() == (times.wall_ns, ClockTrust.GOOD)


def test_steps_in_either_direction_are_told_once_and_small_ones_are_not() -> None:
    """By an hour, by a year, back and forth; a millisecond a second of drift is no step."""
    times = Times(RELEASED_NS + 10**18)
    clock = times.clock()
    for step_s in (3600, -3600, 365 * 86400, -365 * 86400, 1.5, -1.5):
        times.wall_ns += int(step_s * SECOND_NS)
        assert clock.look()[1] is ClockTrust.STEPPED
        times.pass_ns(10 * SECOND_NS)
        assert clock.look()[1] is ClockTrust.GOOD
    for _ in range(5000):
        times.pass_ns(SECOND_NS)
        times.wall_ns += 10**6
        assert clock.look()[1] is ClockTrust.GOOD
    times.wall_ns += STEP_NS
    assert clock.look()[1] is ClockTrust.GOOD


def test_each_camera_is_told_of_a_step_by_its_own_clock() -> None:
    """A look by one does not hide the step from another."""
    times = Times(RELEASED_NS + 10**18)
    clocks = [times.clock() for _ in range(3)]
    times.wall_ns += 3600 * SECOND_NS
    assert [clock.look()[1] for clock in clocks] == 3 * [ClockTrust.STEPPED]


def test_the_spool_and_the_uploader_wait_by_the_monotonic_clock_only() -> None:
    """No `time.time` in them: a step of the wall clock is no matter of theirs."""
    folder = Path(edge_agent.__file__).parent / "spool"
    for module in folder.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "time"
            ):
                assert node.attr in ("monotonic", "sleep"), f"{module.name}:{node.lineno}: time.{node.attr}"
