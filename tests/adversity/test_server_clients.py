"""Clients that do not behave: the server stays small, and serves the others."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from camera_ai.detection_pb2 import OUTCOME_DETECTED, DetectRequest, DetectResponse

from tests.conftest import ServerProgram, StartServer
from tests.memory import Memory
from tests.polling import until

METHOD = "/camera_ai.ObjectDetection/DetectStream"
MEGABYTE = 1 << 20
# A client's writes are stuck when one of them takes this long, with nothing else to do.
STUCK_S = 3.0
ENDLESS = 200_000
# A subchannel of its own means a connection of its own, however many channels a process has.
OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)
SMALL_WINDOW = ("grpc.http2.bdp_probe", 0)


@contextlib.asynccontextmanager
async def connection(server: ServerProgram, *options: tuple[str, int]) -> AsyncIterator[Any]:
    """Connect, and give the method to call."""
    async with grpc.aio.insecure_channel(server.address, options=[OWN_CONNECTION, *options]) as channel:
        yield channel.stream_stream(
            METHOD,
            request_serializer=DetectRequest.SerializeToString,
            response_deserializer=DetectResponse.FromString,
        )


async def ask(call: Any, frame_id: int, image_data: bytes = b"any bytes") -> DetectResponse:
    """Send a frame and wait for its answer."""
    await call.write(DetectRequest(frame_id=frame_id, image_data=image_data))
    answer: DetectResponse = await asyncio.wait_for(call.read(), 30)
    assert answer.frame_id == frame_id
    return answer


async def test_a_client_that_sends_without_reading_is_stopped(start_server: StartServer) -> None:
    """It is no longer read from, so that its frames and answers take a bounded memory; others are served."""
    server = start_server("--detector=simulated:0")
    memory = Memory(server.process.pid)
    before = memory.resident_bytes()
    async with connection(server, SMALL_WINDOW) as detect, connection(server) as detect_as_another:
        greedy, other = detect(), detect_as_another()
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < ENDLESS:
                frame = DetectRequest(frame_id=sent, image_data=bytes(50_000))
                await asyncio.wait_for(greedy.write(frame), STUCK_S)
                sent += 1
        for frame_id in range(20):
            assert (await ask(other, frame_id)).outcome == OUTCOME_DETECTED
        grown = memory.resident_bytes() - before
        greedy.cancel()

    assert 100 < sent < ENDLESS
    assert grown < 40 * MEGABYTE


def open_files(server: ServerProgram) -> int:
    """Count the server's file descriptors."""
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


async def run_cycles(server: ServerProgram, cycles: int) -> None:
    """Connect, send two frames, and go without waiting for an answer, each time on a new connection."""
    for _ in range(cycles):
        async with connection(server) as detect:
            call = detect()
            for frame_id in range(2):
                request = DetectRequest(frame_id=frame_id, image_data=bytes(1000), camera_id="fleeting")
                await call.write(request)
            call.cancel()


def growth_a_cycle(samples: list[tuple[int, int]]) -> float:
    """Tell from (cycles, bytes) how the floor rises: the least of the last quarter against the first's.

    A burst of connections lets the heap swell for a while; what leaks never goes away again.
    """
    quarter = len(samples) // 4
    first = min(samples[:quarter], key=lambda sample: sample[1])
    last = min(samples[-quarter:], key=lambda sample: sample[1])
    return (last[1] - first[1]) / (last[0] - first[0])


async def measure_growth(server: ServerProgram, warm_up: int, cycles: int, step: int) -> float:
    """Run cycles, look at the server's memory after each step, and give its growth in bytes a cycle."""
    await run_cycles(server, warm_up)
    memory = Memory(server.process.pid)
    samples = [(0, memory.resident_bytes())]
    for done in range(step, cycles + 1, step):
        await run_cycles(server, step)
        samples.append((done, memory.resident_bytes()))
    print("cycles, MB:", [(done, round(size / MEGABYTE, 2)) for done, size in samples])
    return growth_a_cycle(samples)


async def assert_nothing_is_left(server: ServerProgram, files_before: int) -> None:
    """See that connections and streams are back to none before the server is told to end."""
    await until(lambda: open_files(server) <= files_before, "every connection is closed")
    async with connection(server) as detect:
        call = detect()
        await ask(call, 0)
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
    assert server.stop() == 0
    assert any("draining 0 streams" in line for line in server.errors)
    assert not [line for line in server.errors if "ERROR" in line or "Traceback" in line]


async def test_clients_that_come_and_go_leave_nothing(start_server: StartServer) -> None:
    """Connect, send, cancel, many times: the memory stays within what the allocator keeps for itself."""
    server = start_server("--detector=simulated:1")
    files_before = open_files(server)
    grown = await measure_growth(server, warm_up=500, cycles=1000, step=50)

    # A call that leaks, with its frames and tasks, is far more than this.
    assert grown < 2500
    await assert_nothing_is_left(server, files_before)


@pytest.mark.soak
async def test_twenty_thousand_clients_that_come_and_go_leave_nothing(start_server: StartServer) -> None:
    """Under a hundred bytes a cycle."""
    server = start_server("--detector=simulated:1")
    files_before = open_files(server)
    # The allocator has found its size by then: event loop and gRPC take theirs in a few late steps.
    grown = await measure_growth(server, warm_up=15_000, cycles=20_000, step=1000)
    print(f"{grown:.1f} bytes a cycle")

    assert grown < 100
    await assert_nothing_is_left(server, files_before)


@pytest.mark.parametrize(
    ("method", "room"), [("/camera_ai.Control/Watch", 3 + 16), ("/grpc.health.v1.Health/Watch", 32)]
)
async def test_those_who_watch_leave_room_for_the_others(
    start_server: StartServer, method: str, room: int
) -> None:
    """To watch is cheap, but not free: the rest is refused, and frames and health checks are served."""
    server = start_server("--detector=simulated:0", "--max-streams=3")
    async with grpc.aio.insecure_channel(server.address) as channel:
        watch: Any = channel.unary_stream(method)
        watching = [watch(b"") for _ in range(400)]
        await until(lambda: sum(call.done() for call in watching) >= 400 - room, "the rest is refused")
        refused = [await call.code() for call in watching if call.done()]
        async with connection(server) as detect:
            assert (await ask(detect(), 1)).outcome == OUTCOME_DETECTED
            check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
            assert await check(b"", timeout=30) == b"\x08\x01"

    assert refused == [grpc.StatusCode.RESOURCE_EXHAUSTED] * (400 - room)


async def test_calls_that_never_send_a_frame_keep_nobody_out(start_server: StartServer) -> None:
    """The oldest of them gives its place to a new call; calls that have sent frames keep theirs."""
    server = start_server("--detector=simulated:0", "--max-streams=3")
    async with connection(server) as detect:
        silent = []
        for _ in range(3):
            silent.append(detect())
            await silent[-1].initial_metadata()
        using = [detect() for _ in range(3)]
        for call in using:
            assert (await ask(call, 1)).outcome == OUTCOME_DETECTED
        for call in silent:
            assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "no frame was sent" in await call.details()
        late = detect()
        assert await late.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await late.details() == "over capacity: 3 of 3 streams"
        for call in using:
            await ask(call, 2)


async def test_peers_that_never_shake_hands_are_cut(start_server: StartServer) -> None:
    """Connections on which nothing is said do not stay."""
    server = start_server("--detector=simulated:0")
    host, port = server.address.split(":")
    before = open_files(server)
    with contextlib.ExitStack() as silent:
        for _ in range(20):
            silent.enter_context(socket.create_connection((host, int(port))))
        await until(lambda: open_files(server) > before, "they are connected")
        await until(lambda: open_files(server) <= before, "they are cut", timeout_s=40)


@pytest.mark.parametrize(
    "greeting",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: camera\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 9000,
    ],
    ids=["silence", "http/1", "tls", "http/2 and no more", "http/2 and garbage"],
)
async def test_peers_that_speak_something_else_do_no_harm(start_server: StartServer, greeting: bytes) -> None:
    """Two hundred connections of strangers: the server goes on, and its file descriptors come back."""
    server = start_server("--detector=simulated:0")
    host, port = server.address.split(":")
    async with connection(server) as detect:
        call = detect()
        await ask(call, 0)
        before = open_files(server)
        for _ in range(200):
            with socket.create_connection((host, int(port))) as peer, contextlib.suppress(OSError):
                peer.sendall(greeting)
        await ask(call, 1)
        await until(lambda: open_files(server) <= before, "the strangers' connections are closed")
        await ask(call, 2)

    assert len(server.errors) < 20


async def test_a_flood_is_read_no_faster_than_it_is_of_use(start_server: StartServer) -> None:
    """Who sends far more than is served has to wait: the rest stays with the client."""
    server = start_server("--detector=simulated:20", "--workers=1")
    async with connection(server) as detect:
        flood = detect()
        answered = 0

        async def read_answers() -> None:
            nonlocal answered
            while isinstance(await flood.read(), DetectResponse):
                answered += 1

        reader = asyncio.create_task(read_answers())
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        while loop.time() < begun_s + 2:
            await flood.write(DetectRequest(frame_id=answered, image_data=bytes(60_000)))
        elapsed_s = loop.time() - begun_s
        read = answered
        flood.cancel()
        await asyncio.gather(reader, return_exceptions=True)

    assert 10 < read < 300 * elapsed_s
