"""What is taken for a wish, and which wishes stand."""

import math

import pytest
from camera_ai import control_pb2

from edge_agent import wire
from edge_agent.wish import CameraWish, Drain, FrameRate, Masks, StandingWishes, Viewing, Wish

TRIANGLE = ((0.0, 0.0), (1.0, 0.0), (1.0, 0.5))


def frame_rate(fps: float) -> control_pb2.Wish:
    return control_pb2.Wish(frame_rate=control_pb2.FrameRate(camera_id="door", frames_per_second=fps))


def masks(*polygons: tuple[tuple[float, float], ...]) -> control_pb2.Wish:
    return control_pb2.Wish(
        masks=control_pb2.Masks(
            camera_id="door",
            polygons=[
                control_pb2.Polygon(points=[control_pb2.Point(x_norm=x, y_norm=y) for x, y in polygon])
                for polygon in polygons
            ],
        )
    )


@pytest.mark.parametrize(
    ("message", "wish"),
    [
        (control_pb2.Wish(drain=control_pb2.Drain(reason="r", grace_ms=7)), Drain("r", 7)),
        (frame_rate(0), FrameRate("door")),
        (frame_rate(60), FrameRate("door", 60)),
        (
            control_pb2.Wish(viewing=control_pb2.Viewing(camera_id="door", watched=True)),
            Viewing("door", True),
        ),
        (masks(), Masks("door")),
        (masks(TRIANGLE, TRIANGLE), Masks("door", (TRIANGLE, TRIANGLE))),
        (control_pb2.Wish(), None),
    ],
)
def test_wishes_are_read(message: control_pb2.Wish, wish: Wish | None) -> None:
    """Each kind; one of a later version is none."""
    assert wire.parse_wish(message.SerializeToString()) == wish


def test_the_least_rate_is_taken() -> None:
    """The wire's floats are shorter than Python's."""
    wish = wire.parse_wish(frame_rate(0.1).SerializeToString())

    assert isinstance(wish, FrameRate)
    assert wish.fps == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        *((frame_rate(fps), "frames a second") for fps in (math.nan, math.inf, -1.0, 61.0, 1e9, 1e-30)),
        (masks(()), "a mask of 0 points"),
        (masks(TRIANGLE[:2]), "a mask of 2 points"),
        (masks(TRIANGLE * 22), "a mask of 66 points"),
        (masks(*[TRIANGLE] * 33), "33 masks"),
        (masks(TRIANGLE, ((0.0, 0.0), (math.nan, 0.0), (1.0, 1.0))), "outside of the frame"),
        (masks(((0.0, 0.0), (0.0, -0.1), (1.0, 1.0))), "outside of the frame"),
        (masks(((0.0, 0.0), (0.0, 1e30), (1.0, 1.0))), "outside of the frame"),
        (masks(TRIANGLE * 10_000), "a wish of"),
        (b"\xff\xff", "no Wish"),
    ],
)
def test_what_cannot_be_meant_is_refused(data: control_pb2.Wish | bytes, complaint: str) -> None:
    """Whole: a list of masks of which one is none changes nothing."""
    with pytest.raises(wire.BadMessageError, match=complaint):
        wire.parse_wish(data if isinstance(data, bytes) else data.SerializeToString())


def taken(*wishes: CameraWish) -> StandingWishes:
    standing = StandingWishes()
    for wish in wishes:
        standing.take(wish)
    return standing


def test_the_latest_of_each_kind_stands() -> None:
    """What is told again changes nothing; what takes a wish back leaves nothing."""
    standing = taken(FrameRate("door", 5), FrameRate("door", 2), Viewing("door", True), Viewing("yard", True))

    assert not standing.take(FrameRate("door", 2))
    assert not standing.take(Masks("door"))
    assert standing.of("door") == (FrameRate("door", 2), Viewing("door", True))
    assert standing.take(FrameRate("door", 0))
    assert standing.of("door") == (Viewing("door", True),)


def test_what_the_next_server_does_not_repeat_has_ended() -> None:
    """And what it repeats stands."""
    standing = taken(FrameRate("door", 5), Masks("door", (TRIANGLE,)), FrameRate("yard", 2))
    standing.begin()
    standing.take(FrameRate("door", 5))
    standing.take(FrameRate("yard", 3))

    assert standing.end_unconfirmed() == [Masks("door")]
    assert standing.end_unconfirmed() == []
    assert standing.of("door") + standing.of("yard") == (FrameRate("door", 5), FrameRate("yard", 3))


def test_nobody_watches_without_a_server() -> None:
    """A rate and masks wait for the next one; a camera that is no more takes its wishes along."""
    standing = taken(
        FrameRate("door", 5), Viewing("door", True), Viewing("yard", True), Masks("yard", (TRIANGLE,))
    )

    assert standing.end_viewing() == [Viewing("door"), Viewing("yard")]
    assert standing.of("door") == (FrameRate("door", 5),)
    standing.keep_only(["door"])
    assert standing.of("yard") == ()
