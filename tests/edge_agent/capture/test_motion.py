"""The motion gate on a real street: what opens it, what does not, and what it reports."""

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from edge_agent.capture.luma import luma_of
from edge_agent.capture.motion import HOLD_S, REFRESH_S, Decision, MotionGate, MotionInterval, Why
from tests.edge_agent.capture.street import FPS, Plane, Street


class Seen:
    """A gate that is shown one plane after the other, and all that it decided."""

    def __init__(self, gate: MotionGate | None = None, *, fps: float = FPS) -> None:
        self.gate = gate or MotionGate()
        self.decisions: list[Decision] = []
        self.now_s = 1000.0
        self._period_s = 1 / fps

    def show(self, shown: Iterable[Plane], *, watched: bool = False) -> list[Decision]:
        """Show planes at the usual rate; gives what was decided on them."""
        decided = []
        for plane in shown:
            decided.append(self.gate.decide(plane, self.now_s, watched=watched))
            self.now_s += self._period_s
        self.decisions += decided
        return decided

    @property
    def intervals(self) -> list[MotionInterval]:
        """What has been reported."""
        return [decision.finished for decision in self.decisions if decision.finished]


def seconds(duration_s: float, make: Callable[[], Plane]) -> Iterable[Plane]:
    """Make planes for so long."""
    return (make() for _ in range(round(duration_s * FPS)))


def sent(decisions: Iterable[Decision]) -> int:
    return sum(decision.send for decision in decisions)


def reasons(decisions: Iterable[Decision]) -> Counter[str]:
    return Counter(decision.why.value for decision in decisions)


def coded(path: Path, scenes: list[Plane], codec: str, options: dict[str, str]) -> Iterable[Plane]:
    """Encode planes, without colours, and decode them again."""
    height, width = scenes[0].shape
    with av.open(str(path), "w") as clip:
        stream = clip.add_stream(codec, rate=FPS, options=options)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.codec_context.thread_count = width, height, 1
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for number, scene in enumerate(scenes):
            planes = np.vstack([scene, np.full((height // 2, width), 128, np.uint8)])
            picture = av.VideoFrame.from_ndarray(planes, format=stream.pix_fmt)
            picture.pts, picture.time_base = number, Fraction(1, FPS)
            clip.mux(stream.encode(picture))
        clip.mux(stream.encode(None))
    with av.open(str(path)) as clip:
        for picture in clip.decode(video=0):
            yield luma_of(picture)


@pytest.fixture
def street(walkers: Path) -> Street:
    """Give the street of the footage."""
    return Street(walkers)


def test_a_start_is_learned_and_then_refreshed(street: Street) -> None:
    """Shortly all frames, then one each REFRESH_S."""
    seen = Seen()

    decided = seen.show(seconds(14, street.seen))

    assert reasons(decided) == {"learning": 8, "still": 129, "refresh": 3}
    assert all(decision.why is Why.LEARNING for decision in decided[:8])
    at_s = [number / FPS for number, decision in enumerate(decided) if decision.why is Why.REFRESH]
    assert at_s == [0.7 + REFRESH_S * count for count in (1, 2, 3)]
    assert seen.gate.finish() is None


def test_somebody_watching_gets_every_frame(street: Street) -> None:
    """And none more once nobody does; the background was learned meanwhile."""
    seen = Seen()
    seen.show(seconds(1, street.seen), watched=True)

    assert reasons(seen.show(seconds(6, street.seen), watched=True)) == {"watched": 60}
    assert sent(seen.show(seconds(3.9, street.seen))) == 0


def test_a_person_who_stops_stays_present(street: Street) -> None:
    """Walking in, standing for a minute, walking out: one interval, all of it sent, and then an end."""
    seen = Seen()
    seen.show(seconds(5, street.seen))
    walk = [street.with_person(left) for left in range(20, 440, 14)]

    walking = seen.show(map(street.seen, walk))
    standing = seen.show(street.seen(walk[-1]) for _ in range(60 * FPS))
    leaving = seen.show(map(street.seen, reversed(walk)))
    seen.show(seconds(HOLD_S + 5, street.seen))

    assert walking[0].why is Why.MOTION
    assert reasons(walking + standing + leaving) == {"motion": 660}
    after_s = seen.now_s - 5 - HOLD_S
    [interval] = seen.intervals
    assert interval.begun_s == pytest.approx(1005.0)
    assert interval.begun_s + interval.duration_s <= after_s + 4.5, "what it uncovered was soon understood"
    assert 0.003 < interval.peak_share < 0.05
    assert not interval.goes_on


def test_a_parked_thing_is_absorbed_after_four_minutes(street: Street) -> None:
    """Not before; and when it leaves, the street that it uncovers is no motion for more than seconds."""
    seen = Seen(fps=2)
    seen.show(street.seen() for _ in range(20))
    parked = street.with_person(300)

    present = seen.show(street.seen(parked) for _ in range(2 * 235))
    later = seen.show(street.seen(parked) for _ in range(2 * 20))
    gone = seen.show(street.seen() for _ in range(2 * 20))

    assert reasons(present) == {"motion": 2 * 235}
    assert reasons(later[-2 * 6 :]).keys() <= {"still", "refresh"}
    assert gone[0].why is Why.MOTION
    assert reasons(gone[-2 * 12 :]).keys() <= {"still", "refresh"}


def test_what_was_there_at_the_start_leaves_no_ghost(street: Street) -> None:
    """Somebody stands there when the agent starts, and walks away: the gate closes after seconds."""
    seen = Seen()
    there = street.with_person(300)
    seen.show(street.seen(there) for _ in range(30 * FPS))
    seen.show(map(street.seen, [street.with_person(left) for left in range(300, 700, 14)]))

    after = seen.show(seconds(20, street.seen))

    assert reasons(after[round((3 + HOLD_S + 2) * FPS) :]).keys() <= {"still", "refresh"}


@pytest.mark.parametrize(("gain", "offset"), [(0.35, 0), (0.15, 2), (1.6, 10), (1, 60), (0.5, 80)])
def test_lights_switched_are_no_motion(street: Street, gain: float, offset: float) -> None:
    """Off and on: a frame or so for each, and nothing moved."""
    seen = Seen()
    seen.show(seconds(10, street.seen))

    dark = seen.show(seconds(8, lambda: street.seen(gain=gain, offset=offset)))
    light = seen.show(seconds(8, street.seen))

    assert reasons(dark + light).keys() <= {"still", "refresh", "scene"}
    assert reasons(dark + light)["scene"] <= 2
    assert sent(dark + light) <= 6
    walker = seen.show(map(street.seen, [street.with_person(left) for left in range(300, 440, 14)]))
    assert walker[0].why is Why.MOTION


def test_lamps_that_light_the_picture_unevenly_are_no_motion(street: Street) -> None:
    """Most of the picture brighter, more so on one side: one frame, then still."""
    seen = Seen()
    seen.show(seconds(10, street.seen))
    lamp = np.linspace(0.9, 2.2, street.empty.shape[1], dtype=np.float32)

    lit = seen.show(seconds(12, lambda: street.seen(street.empty * lamp)))

    assert reasons(lit)["scene"] <= 1
    assert reasons(lit).keys() <= {"scene", "still", "refresh"}


def test_exposure_that_settles_is_no_motion(street: Street) -> None:
    """The camera's own reaction to a lamp, over a second."""
    seen = Seen()
    seen.show(seconds(10, street.seen))

    gains = [1.8, 1.6, 1.45, 1.3, 1.2, 1.12, 1.06, 1.02, *[1.0] * 60]
    settled = seen.show(street.seen(gain=gain) for gain in gains)

    assert reasons(settled).keys() <= {"scene", "still", "refresh"}
    assert sent(settled) <= 4


@pytest.mark.parametrize("exposed", [0.85, 1.25])
def test_exposure_that_follows_somebody_near_hides_nothing(street: Street, exposed: float) -> None:
    """Somebody fills a twelfth of the picture, and the camera's exposure answers: motion throughout."""
    seen = Seen()
    seen.show(seconds(6, street.seen))
    near = [street.with_person(left, 220, times=4) for left in range(0, 552, 16)]
    gains = [1 + (exposed - 1) * min(1.0, number / 8) for number in range(len(near))]

    walking = seen.show(street.seen(plane, gain) for plane, gain in zip(near, gains, strict=True))
    after = seen.show(street.seen(gain=exposed + (1 - exposed) * min(1.0, n / 8)) for n in range(100))

    assert reasons(walking) == {"motion": len(near)}
    assert 0.05 < max(decision.share for decision in walking) < 0.15
    assert reasons(after[round((HOLD_S + 5) * FPS) :]).keys() <= {"still", "refresh"}


def test_a_masked_region_is_ignored(street: Street) -> None:
    """A person in it is nothing; one beside it is. Masks may be drawn anew while the gate is at work."""
    left_half = ((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0))
    seen = Seen(MotionGate(masks=(left_half,)))
    seen.show(seconds(5, street.seen))

    walk = [street.with_person(left) for left in range(20, 300, 14)]
    inside = seen.show(map(street.seen, walk))
    outside = seen.show(seconds(1, lambda: street.seen(street.with_person(500))))
    seen.show(seconds(12, street.seen))
    seen.gate.set_masks(())
    unmasked = seen.show(map(street.seen, walk))

    assert reasons(inside).keys() <= {"still", "refresh"}
    assert reasons(outside) == {"motion": 10}
    assert reasons(unmasked) == {"motion": 20}


def test_a_picture_wholly_masked_never_moves(street: Street) -> None:
    """Nothing counts, so nothing is divided by nothing."""
    seen = Seen(MotionGate(masks=(((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)),)))

    decided = seen.show(street.seen(plane) for plane in street.footage[:100:2])

    assert reasons(decided).keys() == {"learning", "refresh", "still"}
    assert {decision.share for decision in decided} == {0.0}


def test_sensitivity_tells_the_faint_from_the_plain(street: Street) -> None:
    """A patch of 40 px, so many levels brighter: 100 sees 5, 50 does not but 12, 1 only 40."""
    seen_by = {}
    for sensitivity in (1, 50, 100):
        for levels in (5, 12, 40):
            seen = Seen(MotionGate(sensitivity))
            seen.show(seconds(5, street.seen))
            patch = street.empty.copy()
            patch[400:440, 100:140] += levels
            seen_by[sensitivity, levels] = reasons(seen.show(seconds(1, lambda p=patch: street.seen(p))))[
                "motion"
            ]

    assert {key: count >= 9 for key, count in seen_by.items()} == {
        (1, 5): False, (1, 12): False, (1, 40): True,
        (50, 5): False, (50, 12): True, (50, 40): True,
        (100, 5): True, (100, 12): True, (100, 40): True,
    }  # fmt: skip
    with pytest.raises(ValueError, match="sensitivity: expected 1 to 100, got 0"):
        MotionGate(0)


def test_single_cells_do_not_count(street: Street) -> None:
    """Insects and hot pixels, one cell each, all over the picture."""
    seen = Seen()
    seen.show(seconds(5, street.seen))
    rng = np.random.default_rng(3)

    def with_specks() -> Plane:
        scene = street.empty.copy()
        for row, column in rng.permutation([(y, x) for y in range(18) for x in range(24)])[:40]:
            scene[row * 32 : row * 32 + 8, column * 32 : column * 32 + 8] += 60
        return street.seen(scene)

    assert reasons(seen.show(seconds(10, with_specks))).keys() <= {"still", "refresh"}


@pytest.mark.parametrize(
    ("codec", "options"),
    [
        ("libx264", {"b": "200k", "maxrate": "200k", "bufsize": "400k", "preset": "veryfast", "g": "20"}),
        ("libx265", {"crf": "35", "preset": "ultrafast", "x265-params": "log-level=none"}),
        ("mjpeg", {"q:v": "20"}),
    ],
)
def test_what_coding_leaves_is_no_motion(
    street: Street, tmp_path: Path, codec: str, options: dict[str, str]
) -> None:
    """Few bits a second, blocks that lag behind the light and jump at keyframes: still; a person: motion."""
    scenes = [street.seen(gain=1 - 0.005 * number / FPS) for number in range(15 * FPS)]
    scenes += [street.seen(street.with_person(left), 0.925) for left in range(300, 370, 14)]
    seen = Seen()

    decided = seen.show(coded(tmp_path / "coded.mkv", scenes, codec, options))

    assert reasons(decided[: 15 * FPS]) == {"learning": 8, "still": 139, "refresh": 3}
    assert reasons(decided[15 * FPS :])["motion"] >= 4


def test_what_never_rests_is_swallowed_in_the_end(street: Street) -> None:
    """A flag: it holds the gate open for minutes, not for ever; a person beside it opens it afterwards."""
    seen = Seen(fps=2)
    seen.show(street.seen() for _ in range(20))
    rng = np.random.default_rng(6)

    def with_flag(scene: Plane | None = None) -> Plane:
        waving = (street.empty if scene is None else scene).astype(np.float32)
        waving[100:160, 100:180] += np.kron(rng.uniform(20, 90, (6, 8)), np.ones((10, 10)))
        return street.seen(waving)

    waving = seen.show(with_flag() for _ in range(2 * 60 * 12))
    beside = seen.show(with_flag(street.with_person(left)) for left in range(300, 400, 14))

    assert reasons(waving[: 2 * 60 * 2]) == {"motion": 2 * 60 * 2}
    assert reasons(waving[2 * 60 * 9 :]).keys() <= {"still", "refresh"}
    assert reasons(beside) == {"motion": 8}


def test_motion_without_end_is_reported_in_pieces(street: Street) -> None:
    """Pieces of five minutes, each with its peak, without a gap; the last one when it ends."""
    seen = Seen(fps=1)
    seen.show(street.seen() for _ in range(10))
    rng = np.random.default_rng(4)

    moving = (street.seen(street.with_person(int(rng.integers(0, 700)))) for _ in range(700))
    seen.show(moving)
    seen.show(street.seen() for _ in range(30))

    pieces = seen.intervals
    assert [piece.goes_on for piece in pieces] == [True, True, False]
    assert pieces[0].duration_s == pytest.approx(300, abs=1.5)
    assert pieces[1].begun_s - pieces[0].begun_s == pytest.approx(300, abs=0.1)
    assert all(0 < piece.peak_share < 0.1 for piece in pieces)
    assert seen.gate.finish() is None


def test_the_open_interval_ends_with_the_stream(street: Street) -> None:
    """What is going on is given at the end, once."""
    seen = Seen()
    seen.show(seconds(5, street.seen))
    seen.show(seconds(2, lambda: street.seen(street.with_person(300))))

    interval = seen.gate.finish()

    assert interval is not None
    assert (interval.begun_s, interval.duration_s) == (pytest.approx(1005), pytest.approx(1.9))
    assert seen.gate.finish() is None


def test_another_size_or_a_long_gap_begins_anew(street: Street) -> None:
    """The frames are sent while the new background is learned; a short gap changes nothing."""
    seen = Seen()
    seen.show(seconds(5, street.seen))
    half = seen.show(street.seen()[::2, ::2].copy() for _ in range(10))
    seen.now_s += 20
    short = seen.show(street.seen()[::2, ::2].copy() for _ in range(5))
    seen.now_s += 3600
    long = seen.show(street.seen()[::2, ::2].copy() for _ in range(5))
    seen.gate.restart()
    again = seen.show(street.seen()[::2, ::2].copy() for _ in range(5))

    assert reasons(half)["learning"] == 8
    assert reasons(short) == {"refresh": 1, "still": 4}
    assert reasons(long) == reasons(again) == {"learning": 5}


@pytest.mark.parametrize("shape", [(1, 1), (1, 4096), (4096, 1), (3, 2), (479, 641), (4096, 4096)])
def test_pictures_of_any_size_can_be_gated(shape: tuple[int, int]) -> None:
    """Also those that are smaller than what counts as moving."""
    seen = Seen(MotionGate(1, masks=(((0.1, 0.1), (0.9, 0.1), (0.5, 0.9)),)))
    rng = np.random.default_rng(5)

    decided = seen.show(rng.integers(0, 256, shape, np.uint8) for _ in range(12))

    assert all(0 <= decision.share <= 1 for decision in decided)
    assert decided[0].why is Why.LEARNING


def test_time_that_stands_still_is_borne(street: Street) -> None:
    """Frames that were taken at the same instant, or seem to be older."""
    gate = MotionGate()

    for now_s in (5.0, 5.0, 4.0, 4.1):
        assert gate.decide(street.seen(), now_s, watched=False).send
