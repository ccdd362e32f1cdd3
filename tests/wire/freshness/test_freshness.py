"""Fresh, not complete: what waits is replaced, what is old is not worked on, and everything is answered."""

import asyncio
from typing import Any

import pytest
from camera_ai.detection_pb2 import OUTCOME_DETECTED, OUTCOME_STALE, OUTCOME_SUPERSEDED

from tests.conftest import ServerProgram, StartServer
from tests.wire.freshness.conftest import Connect

DETECTED, STALE, SUPERSEDED = "OUTCOME_DETECTED", "OUTCOME_STALE", "OUTCOME_SUPERSEDED"


async def test_a_newer_frame_takes_the_place_of_one_that_waits(
    busy_server: ServerProgram, connect: Connect
) -> None:
    """While one frame is in work, of those that follow only the newest is worked on."""
    call = connect(busy_server).call()
    for _ in range(6):
        await call.send()
    await call.end()

    assert call.outcomes == {0: DETECTED, 5: DETECTED} | dict.fromkeys(range(1, 5), SUPERSEDED)
    assert not any(call.answers[number].objects for number in range(1, 5))


async def test_streams_do_not_supersede_each_other(busy_server: ServerProgram, connect: Connect) -> None:
    """Each has a waiting slot of its own."""
    client = connect(busy_server)
    calls = [client.call() for _ in range(3)]
    for call in calls:
        await call.send(max_age_ms=60_000)
        await call.send(max_age_ms=60_000)
    for call in calls:
        await call.end()

    in_work_first = sum(call.count() == {DETECTED: 2} for call in calls)
    assert in_work_first == 1
    assert sum(call.count() == {DETECTED: 1, SUPERSEDED: 1} for call in calls) == 2


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, OUTCOME_DETECTED),
        ({"age_ms": 500}, OUTCOME_DETECTED),
        ({"age_ms": 1000}, OUTCOME_STALE),
        ({"age_ms": 1500, "max_age_ms": 5000}, OUTCOME_DETECTED),
        ({"age_ms": 5000, "max_age_ms": 5000}, OUTCOME_STALE),
        ({"age_ms": 200, "max_age_ms": 150}, OUTCOME_STALE),
        ({"max_age_ms": 0}, OUTCOME_STALE),
        ({"age_ms": 2**32 - 1}, OUTCOME_STALE),
        ({"max_age_ms": 2**32 - 1}, OUTCOME_DETECTED),
        ({"capture_time_ns": 1, "age_ms": 5}, OUTCOME_DETECTED),
        ({"capture_time_ns": 2**63 - 1, "age_ms": 5}, OUTCOME_DETECTED),
    ],
    ids=str,
)
async def test_a_frame_too_old_when_sent_is_stale(
    quick_server: ServerProgram, connect: Connect, fields: dict[str, Any], outcome: int
) -> None:
    """Its age at sending against its maximum age, 1,000 ms where it has none; clocks are never compared."""
    answer = await connect(quick_server).call().ask(**fields)

    assert answer.outcome == outcome
    assert bool(answer.objects) == (outcome == OUTCOME_DETECTED)


async def test_the_default_maximum_age_is_the_servers(start_server: StartServer, connect: Connect) -> None:
    """A server that was started with another default uses it, and says so."""
    call = connect(start_server("--detector=simulated:0", "--max-age-ms=60000")).call()

    assert dict(await call.grpc.initial_metadata())["camera-ai-max-age-ms"] == "60000"
    assert (await call.ask(age_ms=50_000)).outcome == OUTCOME_DETECTED
    assert (await call.ask(age_ms=60_000)).outcome == OUTCOME_STALE


async def test_a_frame_grows_old_while_it_waits(busy_server: ServerProgram, connect: Connect) -> None:
    """What would be too old before work on it can start is not worked on."""
    client = connect(busy_server)
    first, second = client.call(), client.call()
    await first.send()
    await asyncio.sleep(0.05)
    await second.send(max_age_ms=100)
    await first.end()
    await second.end()

    assert first.count() == {DETECTED: 1}
    assert second.count() == {STALE: 1}
    assert second.answers[0].queue_ms >= 100
    assert second.answers[0].work_ms == 0


async def test_an_answer_says_how_long_it_took(busy_server: ServerProgram, connect: Connect) -> None:
    """The time in the queue and the time in work, apart."""
    client = connect(busy_server)
    first, second = client.call(), client.call()
    await first.send()
    await asyncio.sleep(0.05)
    await second.send()
    await first.end()
    await second.end()

    assert first.answers[0].work_ms >= 300
    assert second.answers[0].work_ms >= 300
    assert second.answers[0].queue_ms >= 200
    assert first.answers[0].queue_ms < second.answers[0].queue_ms


async def test_the_facts_come_before_the_first_frame(quick_server: ServerProgram, connect: Connect) -> None:
    """Limits, window and default maximum age are known before anything is sent."""
    call = connect(quick_server).call()
    facts = dict(await asyncio.wait_for(call.grpc.initial_metadata(), 10))

    assert call.sent == 0
    facts.pop("user-agent", None)
    assert facts.pop("camera-ai-version")
    assert facts == {
        "camera-ai-detector": "simulated:5",
        "camera-ai-max-image-bytes": str(4 << 20),
        "camera-ai-max-image-pixels": str(4096 * 4096),
        "camera-ai-window": "2",
        "camera-ai-max-age-ms": "1000",
    }
    await call.end()


async def test_a_model_says_its_input_size(seeing_server: ServerProgram, connect: Connect) -> None:
    """So that agents need not send more than is useful."""
    call = connect(seeing_server).call()

    assert dict(await call.grpc.initial_metadata())["camera-ai-input-wh"] == "300x300"


@pytest.mark.parametrize("cameras", [1, 5])
async def test_every_frame_of_a_flood_is_answered_once(
    quick_server: ServerProgram, connect: Connect, cameras: int
) -> None:
    """Five hundred frames as fast as they can be sent: each has exactly one answer, with its id."""
    client = connect(quick_server)
    calls = [client.call() for _ in range(cameras)]

    async def flood(number: int) -> None:
        for _ in range(500 // cameras):
            await calls[number].send(camera_id=f"flood {number}", max_age_ms=60_000)
        await calls[number].end()

    await asyncio.gather(*(flood(number) for number in range(cameras)))

    counts = [call.count() for call in calls]
    assert [sum(count.values()) for count in counts] == [500 // cameras] * cameras
    assert all(set(count) <= {DETECTED, SUPERSEDED} for count in counts)
    # The last frame of a call is superseded by nobody.
    assert all(call.answers[call.sent - 1].outcome == OUTCOME_DETECTED for call in calls)
    assert all(count[SUPERSEDED] > 0 for count in counts)


async def test_superseded_frames_are_answered_at_once(busy_server: ServerProgram, connect: Connect) -> None:
    """The answer does not wait for the work on another frame."""
    call = connect(busy_server).call()
    await call.send()
    await call.send()
    await call.send()

    assert (await call.answer(1)).outcome == OUTCOME_SUPERSEDED
    assert 0 not in call.answers
    await call.end()
