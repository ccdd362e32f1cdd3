"""What the uplink carries, learned from frames and answers over lines whose rate is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.uplink.throughput import OUTAGE_S, Throughput

ROUND_TRIP_S = 0.05
SERVER_S = 0.02


class Line:
    """A line of a known rate, on which frames wait for those before them; time is what it is told."""

    def __init__(self, bytes_s: float) -> None:
        self.bytes_s = bytes_s
        self.throughput = Throughput()
        self.throughput.short_message(ROUND_TRIP_S)
        self.now_s = 0.0
        self._free_s = 0.0
        self._sent = 0
        self._due: list[tuple[float, int]] = []

    def send(self, size_bytes: int) -> None:
        """Put a frame on the line."""
        self._sent += 1
        self.throughput.sent(self._sent, size_bytes, self.now_s)
        self._free_s = max(self._free_s, self.now_s) + size_bytes / self.bytes_s
        self._due.append((self._free_s + ROUND_TRIP_S + SERVER_S, self._sent))

    def wait(self, seconds: float) -> None:
        """Let time pass, and the answers of it come."""
        end_s = self.now_s + seconds
        while self._due and self._due[0][0] <= end_s:
            self.now_s, key = self._due.pop(0)
            self.throughput.answered(key, SERVER_S, self.now_s)
        self.now_s = end_s


@given(
    st.floats(10_000, 300_000),
    st.lists(st.tuples(st.integers(20_000, 90_000), st.floats(0.01, 1.0)), min_size=8, max_size=40),
)
def test_a_steady_line_is_known_whatever_is_sent_on_it(
    bytes_s: float, frames: list[tuple[int, float]]
) -> None:
    """Be it busy or idle in between: bytes over the time that it was busy."""
    line = Line(bytes_s)
    for size_bytes, pause_s in frames:
        if line.throughput.bytes_in_flight / bytes_s < OUTAGE_S / 2:
            line.send(size_bytes)
        line.wait(pause_s)
    line.wait(30)

    assert line.throughput.bytes_in_flight == 0
    known_bytes_s = line.throughput.bytes_s(line.now_s)
    assert known_bytes_s is not None
    # Where a frame alone takes so long that it counts as an outage, it is taken for faster than it is.
    assert known_bytes_s >= bytes_s * 0.97
    if 90_000 / bytes_s < OUTAGE_S / 2:
        assert known_bytes_s <= bytes_s * 2.2


def test_there_is_no_limit_while_nothing_queues() -> None:
    """A line that carries everything is not said to be short, and what it could carry is no matter."""
    line = Line(5_000_000)
    for _ in range(100):
        line.send(60_000)
        line.wait(0.1)
    assert line.throughput.limit_bytes_s(line.now_s) == float("inf")


def test_a_line_that_gets_thin_is_noticed_before_the_next_answer() -> None:
    """It is the silence that tells: no frame more is expected in time, and no estimate stays high."""
    line = Line(5_000_000)
    for _ in range(50):
        line.send(60_000)
        line.wait(0.1)
    line.bytes_s = 62_500
    line.send(60_000)
    line.wait(0.15)
    assert line.throughput.way_s(60_000, line.now_s) is None
    line.wait(0.45)
    assert line.throughput.limit_bytes_s(line.now_s) < 150_000
    for _ in range(8):
        line.send(30_000)
        line.wait(0.6)
    assert line.throughput.limit_bytes_s(line.now_s) == pytest.approx(62_500, rel=0.3)
    way_s = line.throughput.way_s(30_000, line.now_s)
    assert way_s == pytest.approx(30_000 / 62_500 + ROUND_TRIP_S / 2, rel=0.3)


def test_a_line_that_gets_wide_is_noticed_within_seconds() -> None:
    """Frames that come through quicker raise the limit at once; it ends when it bounds nothing any more."""
    line = Line(62_500)
    for _ in range(10):
        line.send(30_000)
        line.wait(0.5)
    assert line.throughput.limit_bytes_s(line.now_s) < 80_000
    line.bytes_s = 10_000_000
    line.wait(1.0)
    for _ in range(20):
        line.send(10_000)
        line.wait(0.1)
    assert line.throughput.limit_bytes_s(line.now_s) > 1_000_000


def test_an_outage_is_no_throughput() -> None:
    """Ten minutes of nothing say nothing of the line before and after."""
    line = Line(5_000_000)
    for _ in range(20):
        line.send(60_000)
        line.wait(0.1)
    line._free_s = line.now_s + 600
    line.send(60_000)
    line.wait(601)
    for _ in range(20):
        line.send(20_000)
        line.wait(0.1)
    assert line.throughput.limit_bytes_s(line.now_s) > 500_000


def test_a_frame_that_a_later_one_overtakes_is_not_on_the_way_any_more() -> None:
    """One that the server does not answer blocks nothing once another one is answered."""
    throughput = Throughput()
    throughput.sent("silent", 50_000, 0.0)
    throughput.sent("well", 10_000, 0.1)
    assert throughput.bytes_in_flight == 60_000
    throughput.answered("well", 0.0, 0.2)
    assert throughput.bytes_in_flight == 0
    throughput.lost("silent")
    throughput.lost("never sent")
    assert throughput.bytes_in_flight == 0


def test_what_may_never_be_answered_is_left_out() -> None:
    """Nothing is concluded from the silence of a call that was silent before."""
    throughput = Throughput()
    throughput.sent("doubtful", 50_000, 0.0, is_doubtful=True)
    assert throughput.bytes_in_flight == 0
    assert throughput.limit_bytes_s(60.0) == float("inf")
    throughput.answered("doubtful", 0.0, 61.0)
    assert throughput.bytes_in_flight == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["send", "answer", "lose", "nonsense"]),
            st.integers(0, 200_000),
            st.floats(0, 2),
            st.floats(0, 3),
        ),
        max_size=80,
    )
)
def test_whatever_happens_the_figures_are_figures(events: list[tuple[str, int, float, float]]) -> None:
    """Nothing is ever below nothing on the way; rates are above 0; times are finite."""
    throughput, now_s, flying = Throughput(), 0.0, []
    for number, (event, size_bytes, pause_s, server_s) in enumerate(events):
        now_s += pause_s
        if event == "send":
            throughput.sent(number, size_bytes + 1, now_s, is_doubtful=size_bytes % 7 == 0)
            flying.append(number)
        elif event == "answer" and flying:
            throughput.answered(flying.pop(size_bytes % len(flying)), server_s, now_s)
        elif event == "lose" and flying:
            throughput.lost(flying.pop(0))
        elif event == "nonsense":
            throughput.answered(-1, server_s, now_s)
        assert throughput.bytes_in_flight >= 0
        assert throughput.limit_bytes_s(now_s) >= 0
        way_s = throughput.way_s(1000, now_s)
        assert way_s is None or way_s >= 0
    for number in flying:
        throughput.lost(number)
    assert throughput.bytes_in_flight == 0
