"""The reference as a program: options, capacity, and its end."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from camera_ai import control_pb2, control_pb2_grpc, detection_pb2_grpc
from camera_ai.detection_pb2 import OUTCOME_DETECTED, OUTCOME_TOO_LARGE, DetectRequest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.conftest import Program
from tests.polling import until
from tests.wire.reference import ReferenceProgram, built

MODES = ["async", "sync"]
# No call of a test takes as long as this: one that hangs fails, and says where.
CALL_TIMEOUT_S = 60.0
# The drain's own patience, and time for a loaded machine.
END_TIMEOUT_S = 25.0
# Calls that are begun and over at once, and how many of them at a time.
HASTY_CALLS, AT_ONCE = 6_000, 60
TRIES = 50
# A call may also find all places taken by those before it.
HASTY_ENDS = (
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)

Start = Callable[..., ReferenceProgram]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start reference servers; they are ended after the test."""
    with contextlib.ExitStack() as ending:

        def start(*options: str) -> ReferenceProgram:
            program = ReferenceProgram(*options)
            ending.callback(program.kill)
            return program

        yield start


Connect = Callable[[ReferenceProgram], grpc.aio.Channel]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Connect to servers; the channels are closed after the test."""
    channels: list[grpc.aio.Channel] = []

    def connect(program: ReferenceProgram) -> grpc.aio.Channel:
        channels.append(grpc.aio.insecure_channel(program.address))
        return channels[-1]

    yield connect
    for channel in channels:
        await channel.close()


def stream(channel: grpc.aio.Channel) -> Any:
    """Begin a DetectStream call."""
    stub: Any = detection_pb2_grpc.ObjectDetectionStub(channel)  # type: ignore[no-untyped-call]
    return stub.DetectStream(timeout=CALL_TIMEOUT_S)


def refusal(*options: str) -> tuple[int, list[str]]:
    """Start with options that cannot be used: the exit code, and what stderr says."""
    program = Program(str(built()), *options)
    try:
        return program.wait(END_TIMEOUT_S), program.errors
    finally:
        program.kill()


@pytest.mark.parametrize(
    ("option", "part"),
    [
        ("--workers=0", "--workers: found '0', expected a number from 1 to 1024"),
        ("--detector=yolo", "--detector: found 'yolo', expected coco-ssd, simulated:MS or simulated:MS,wall"),
        ("--mode=threads", "--mode: found 'threads', expected async or sync"),
        ("--listen=nowhere", "--listen: found 'nowhere', expected HOST:PORT"),
        ("--listen=0.0.0.0:0", "give --insecure to listen there all the same"),
        ("--nonsense", "no such option: '--nonsense'; see --help"),
    ],
)
def test_an_option_that_cannot_be_used_is_one_line(option: str, part: str) -> None:
    """On stderr, with exit code 2."""
    code, errors = refusal(option)

    assert code == 2
    assert len(errors) == 1
    assert errors[0].startswith("reference-server: ")
    assert part in errors[0]


def test_a_port_in_use_is_one_line(start: Start) -> None:
    """Not shared with whoever has it; exit code 1."""
    address = start("--detector=simulated:1").address

    assert refusal("--detector=simulated:1", f"--listen={address}") == (
        1,
        [f"reference-server: --listen {address}: Address already in use"],
    )


def test_a_missing_model_is_one_line() -> None:
    """With the file's name; exit code 1."""
    code, errors = refusal("--listen=127.0.0.1:0", "--model-dir=/no/such")

    assert code == 1
    assert errors == [
        "reference-server: /no/such/ssdlite_mobilenet_v2_coco.anchors.npy: "
        "cannot be read: No such file or directory"
    ]


@pytest.mark.parametrize("mode", MODES)
async def test_frames_are_answered_first_in_first_out(start: Start, connect: Connect, mode: str) -> None:
    """None is superseded or stale, whatever its age; what is too large is answered in its turn."""
    server = start(f"--mode={mode}", "--detector=simulated:5", "--workers=1", "--max-image-bytes=1024")
    call = stream(connect(server))
    for frame_id in range(8):
        data = bytes(1025 if frame_id == 3 else 1024)
        await call.write(
            DetectRequest(frame_id=frame_id, image_data=data, age_ms=60_000, max_age_ms=frame_id)
        )
    await call.done_writing()

    answers = [answer async for answer in call]

    assert [answer.frame_id for answer in answers] == list(range(8))
    outcomes = [answer.outcome for answer in answers]
    assert outcomes == [OUTCOME_DETECTED] * 3 + [OUTCOME_TOO_LARGE] + [OUTCOME_DETECTED] * 4
    assert answers[0].work_ms >= 5


async def test_a_silent_call_gives_its_place(start: Start, connect: Connect) -> None:
    """The oldest that never sent a frame, for a new one; one that has sent keeps it."""
    channel = connect(start("--detector=simulated:1", "--max-streams=2"))
    begun, silent = stream(channel), stream(channel)
    await begun.write(DetectRequest(frame_id=1))
    await begun.read()
    await silent.initial_metadata()

    new = stream(channel)
    await new.write(DetectRequest(frame_id=1))

    assert (await new.read()).outcome == OUTCOME_DETECTED
    assert await silent.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "no frame was sent" in await silent.details()
    one_more = stream(channel)
    assert await one_more.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await one_more.details() == "over capacity: 2 of 2 streams"
    await begun.write(DetectRequest(frame_id=2))
    assert (await begun.read()).frame_id == 2


@pytest.mark.parametrize("mode", MODES)
async def test_a_drain_answers_what_is_in_work(start: Start, connect: Connect, mode: str) -> None:
    """Then every call ends with UNAVAILABLE, idle ones too, and the program with 0."""
    server = start(f"--mode={mode}", "--detector=simulated:1000", "--workers=2")
    channel = connect(server)
    working, idle = stream(channel), stream(channel)
    await idle.initial_metadata()
    await put_in_work(working, 7, server)

    server.signal(signal.SIGTERM)

    assert (await working.read()).frame_id == 7
    for call in (working, idle):
        assert await call.code() is grpc.StatusCode.UNAVAILABLE
    assert await asyncio.to_thread(server.wait, END_TIMEOUT_S) == 0
    assert server.errors == []


def worked_ms(server: ReferenceProgram) -> float:
    """Give the processor time that a server has used."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e3 / os.sysconf("SC_CLK_TCK")


async def put_in_work(call: Any, frame_id: int, server: ReferenceProgram) -> None:
    """Send a frame that takes long; returns once the server works on it, beyond what its start took."""
    before_ms = worked_ms(server)
    await call.write(DetectRequest(frame_id=frame_id))
    await until(lambda: worked_ms(server) - before_ms > 200, "the frame is in work")


@pytest.mark.parametrize("mode", MODES)
async def test_a_drain_is_told_to_those_who_watch(start: Start, connect: Connect, mode: str) -> None:
    """Agents get the wish, and their call ends well; the health service says that no frames are taken."""
    server = start(f"--mode={mode}", "--detector=simulated:1")
    channel = connect(server)
    agent: Any = control_pb2_grpc.ControlStub(channel)  # type: ignore[no-untyped-call]
    wishes = agent.Watch(control_pb2.WatchRequest(), timeout=CALL_TIMEOUT_S)
    health = health_pb2_grpc.HealthStub(channel)
    states = health.Watch(health_pb2.HealthCheckRequest(), timeout=CALL_TIMEOUT_S)
    assert (await states.read()).status == health_pb2.HealthCheckResponse.SERVING
    # Begun after the agent's call, so that one has arrived too.
    await health.Check(health_pb2.HealthCheckRequest(), timeout=CALL_TIMEOUT_S)

    server.signal(signal.SIGTERM)

    wish = await wishes.read()
    assert wish.drain.reason
    assert 0 < wish.drain.grace_ms <= 10_000
    assert (await states.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert await wishes.code() is grpc.StatusCode.OK
    assert await asyncio.to_thread(server.wait, END_TIMEOUT_S) == 0


async def test_watching_that_is_over_at_once_keeps_no_place(start: Start, connect: Connect) -> None:
    """Thousands of calls whose end overtakes their beginning: all places are free again, and it drains."""
    server = start("--detector=simulated:1", "--workers=4", "--max-streams=1")
    channel = connect(server)
    await channel.channel_ready()
    agent: Any = control_pb2_grpc.ControlStub(channel)  # type: ignore[no-untyped-call]
    for first in range(0, HASTY_CALLS, AT_ONCE):
        # A deadline within a millisecond: the server ends such a call by itself, often before it has begun.
        hasty = [
            agent.Watch(control_pb2.WatchRequest(), timeout=(number % 100) * 1e-5)
            for number in range(first, first + AT_ONCE)
        ]
        for call in hasty:
            assert await call.code() in HASTY_ENDS

    # As many as there are places, one a stream and 16 more; the last of those before may still be ending.
    health = health_pb2_grpc.HealthStub(channel)
    wishes: list[Any] = []
    for _ in range(TRIES):
        wishes = [call for call in wishes if not call.done()]
        if len(wishes) == 17:
            break
        wishes += [
            agent.Watch(control_pb2.WatchRequest(), timeout=CALL_TIMEOUT_S) for _ in range(17 - len(wishes))
        ]
        # Begun after those calls, so they have arrived too.
        await health.Check(health_pb2.HealthCheckRequest(), timeout=CALL_TIMEOUT_S)
        await asyncio.sleep(0.1)
    assert [call.done() for call in wishes] == [False] * 17

    server.signal(signal.SIGTERM)

    for call in wishes:
        assert (await call.read()).drain.reason
        assert await call.code() is grpc.StatusCode.OK
    assert await asyncio.to_thread(server.wait, END_TIMEOUT_S) == 0
    assert server.errors == []


async def test_the_end_is_bounded(start: Start, connect: Connect) -> None:
    """A frame that takes a minute is cut after some ten seconds, with a line that says so."""
    servers = [start(f"--mode={mode}", "--detector=simulated:60000") for mode in MODES]
    calls = [stream(connect(server)) for server in servers]
    for call, server in zip(calls, servers, strict=True):
        await put_in_work(call, 1, server)
        server.signal(signal.SIGINT)

    for call, server in zip(calls, servers, strict=True):
        assert await call.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        assert await asyncio.to_thread(server.wait, END_TIMEOUT_S) == 0
        assert server.errors == ["reference-server: a worker did not end in time and is cut"]
