"""What comes over the wire is what the model says: an independent computation agrees, frame by frame."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from camera_ai import detection_pb2_grpc
from camera_ai.detection_pb2 import OUTCOME_DETECTED, DetectRequest

from tests import footage, pictures
from tests.conftest import ServerProgram
from tests.wire.objects import told, without_partner
from tests.wire.oracle import Candidate, Oracle, nms_margin, suppress

FRAMES = 400
# Objects from this score on have to agree; the server tells of more, down to its own threshold.
COMPARED_SCORE = 0.55
TOLD_SCORE = 0.5
EDGE_PX, EDGE_SHARE, SCORE = 2.0, 0.02, 0.02
NMS_MARGIN = 0.02
LEAST_SHARE = 0.995


@dataclass(frozen=True, slots=True)
class Missing:
    """An object that only one side has."""

    frame: int
    side: str
    object: Candidate
    nms_margin: float


def agree(one: Candidate, other: Candidate) -> bool:
    """Compare label, score and every edge."""
    allowed = (max(EDGE_PX, EDGE_SHARE * one.width), max(EDGE_PX, EDGE_SHARE * one.height)) * 2
    return (
        one.label == other.label
        and abs(one.score - other.score) <= SCORE
        and all(abs(a - b) <= most for a, b, most in zip(one.edges, other.edges, allowed, strict=True))
    )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Run a server with the default detector."""
    server = ServerProgram()
    yield server.address
    server.kill()


class Comparison:
    """The server and the oracle, side by side."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._oracle = Oracle()
        self.compared = 0
        self.missing: list[Missing] = []

    async def ask(self, frame_id: int, jpeg: bytes) -> list[Candidate]:
        """Ask the server."""
        await self._call.write(DetectRequest(frame_id=frame_id, image_data=jpeg, max_age_ms=60_000))
        answer = await self._call.read()
        assert (answer.frame_id, answer.outcome) == (frame_id, OUTCOME_DETECTED)
        return told(answer)

    async def compare(self, frame_id: int, jpeg: bytes) -> None:
        """Ask both for one frame, and keep what only one of them has."""
        # The oracle's boxes a little below the threshold may be what decided a suppression.
        over_the_wire, candidates = await asyncio.gather(
            self.ask(frame_id, jpeg), asyncio.to_thread(self._oracle.candidates, jpeg, TOLD_SCORE - SCORE)
        )
        computed = suppress(candidates)
        for side, ones, others in (("oracle", computed, over_the_wire), ("wire", over_the_wire, computed)):
            compared = [one for one in ones if one.score >= COMPARED_SCORE]
            self.compared += len(compared)
            for alone in without_partner(compared, others, agree):
                self.missing.append(Missing(frame_id, side, alone, nms_margin(alone, candidates)))


async def test_boxes_over_the_wire_equal_an_independent_computation(address: str, walkers: Path) -> None:
    """Same classes, edges and scores in all frames of the footage, but for suppressions on a knife's edge."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = detection_pb2_grpc.ObjectDetectionStub(channel)  # type: ignore[no-untyped-call]
        comparison = Comparison(stub.DetectStream())
        frames = 0
        for frame_id, pixels in enumerate(footage.frames(walkers)):
            await comparison.compare(frame_id, pictures.encode(pixels, quality=90))
            frames += 1

    print(
        f"{comparison.compared} objects compared in {frames} frames; only on one side: {comparison.missing}"
    )
    assert frames == FRAMES
    assert comparison.compared > 2 * FRAMES
    assert len(comparison.missing) <= (1 - LEAST_SHARE) * comparison.compared
    for missing in comparison.missing:
        assert missing.nms_margin < NMS_MARGIN, missing


async def test_a_street_is_seen_as_it_is(address: str, walkers: Path) -> None:
    """Seven people and two parked cars, on both sides."""
    jpeg = pictures.encode(footage.frame(walkers, 300), quality=90)
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = detection_pb2_grpc.ObjectDetectionStub(channel)  # type: ignore[no-untyped-call]
        over_the_wire = await Comparison(stub.DetectStream()).ask(300, jpeg)
    computed = suppress(Oracle().candidates(jpeg, TOLD_SCORE))

    for objects in (over_the_wire, computed):
        assert sorted(found.label for found in objects) == ["car"] * 2 + ["person"] * 7


BOX = Candidate("person", 0.8, (100, 100, 200, 300))


@pytest.mark.parametrize(
    ("other", "agrees"),
    [
        (Candidate("person", 0.8, (100, 100, 200, 300)), True),
        (Candidate("person", 0.785, (102, 98, 198, 304)), True),
        (Candidate("car", 0.8, (100, 100, 200, 300)), False),
        (Candidate("person", 0.77, (100, 100, 200, 300)), False),
        (Candidate("person", 0.8, (102.1, 100, 200, 300)), False),
        (Candidate("person", 0.8, (100, 100, 200, 304.1)), False),
    ],
)
def test_the_comparison_tells_what_differs(other: Candidate, agrees: bool) -> None:
    """A label, a score, or an edge."""
    assert agree(BOX, other) == agrees
    assert (without_partner([BOX, BOX], [other], agree) == [BOX]) == agrees


@pytest.mark.parametrize(
    ("rival", "margin"),
    [
        (Candidate("car", 0.8, (100, 100, 200, 300)), float("inf")),
        (Candidate("person", 0.7, (300, 100, 400, 300)), 0.6),
        (Candidate("person", 0.7, (100, 100, 200, 225)), 0.025),
        (Candidate("person", 0.79, (100, 100, 200, 290)), 0.01),
        (Candidate("person", 0.6, (100, 100, 200, 290)), 0.2),
    ],
    ids=["other label", "no overlap", "overlap near the threshold", "score near the rival's", "clear"],
)
def test_the_margin_of_a_suppression(rival: Candidate, margin: float) -> None:
    """How close it was, by overlap or by score."""
    assert nms_margin(BOX, [BOX, rival]) == pytest.approx(margin)
