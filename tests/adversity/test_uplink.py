"""What happens on the uplink is that call's or that connection's trouble, and costs a handful of attempts."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest
from camera_ai.detection_pb2 import DetectRequest, DetectResponse

from edge_agent import client, connection
from edge_agent.config import CameraConfig
from edge_agent.spool.spool import Spool
from edge_agent.spool.uploader import Uploader
from tests.conftest import StartServer
from tests.edge_agent.spool.spools import MAX_BYTES, record
from tests.edge_agent.streams import Context, Rig, rig, scripted_server
from tests.polling import until

Handler = Callable[..., object]


async def answering(requests: AsyncIterator[bytes], context: Context) -> None:
    """Answer every camera but the one that is called yard."""
    await context.send_initial_metadata((("camera-ai-window", "2"),))
    async for data in requests:
        request = DetectRequest.FromString(data)
        if request.camera_id != "yard":
            await context.write(DetectResponse(frame_id=request.frame_id).SerializeToString())


async def silent(_request: object, context: Context) -> None:
    await asyncio.Event().wait()


async def taking(requests: AsyncIterator[bytes], context: Context) -> None:
    async for _ in requests:
        pass


async def failing(_request: object, context: Context) -> None:
    await context.abort(grpc.StatusCode.UNAVAILABLE, "503:upstream connect error")


@contextlib.asynccontextmanager
async def uploading(door: Rig, path: Path) -> AsyncIterator[Uploader]:
    """Upload records beside a camera's frames."""
    spool = Spool.open(path, MAX_BYTES)
    for number in range(20):
        spool.put(record(number))
    uploader = Uploader(door.connection, spool, "corner shop")
    task = asyncio.create_task(uploader.run())
    try:
        yield uploader
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.to_thread(spool.close, 15.0)


@pytest.mark.parametrize(("watch", "report_records"), [(silent, taking), (failing, failing)])
async def test_what_never_answers_or_always_fails_stops_nothing_else(
    watch: Handler, report_records: Handler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wishes, records and another camera's frames: the frames of this one are answered all the time."""
    monkeypatch.setattr(client, "ANSWER_PATIENCE_S", 0.5)
    async with scripted_server(answering, watch, report_records) as address:
        door = rig(address, "door")
        yard = Rig(door.server, CameraConfig(name="yard", url="rtsp://127.0.0.1/", max_age_ms=500), door)
        async with door.running(), yard.running(), uploading(door, tmp_path / "spool.sqlite"):
            offering = [asyncio.create_task(each.offering(image=bytes(20_000))) for each in (door, yard)]
            # By then yard's first call has ended without an answer, and several more have begun.
            await until(lambda: yard.stream.drops["unanswered"] >= 5, "yard has no answers", 30.0)
            answered = len(door.results)
            await until(lambda: len(door.results) >= answered + 20, "door goes on", 30.0)
            for task in offering:
                task.cancel()

    assert not yard.results
    assert door.statuses == ["connected"]
    assert door.stream.drops["unanswered"] == 0
    assert door.slow == []


async def test_connections_that_the_server_ends_at_once_are_not_a_tight_loop() -> None:
    """GOAWAY after a tenth of a second, for ever, as from a balancer that drains: attempts are paced."""
    peers: set[str] = set()

    async def counted(requests: AsyncIterator[bytes], context: Context) -> None:
        peers.add(context.peer())
        await answering(requests, context)

    age = (("grpc.max_connection_age_ms", 100), ("grpc.max_connection_age_grace_ms", 100))
    async with scripted_server(counted, options=age) as address:
        door = rig(address, "door")
        others = [
            Rig(door.server, CameraConfig(name=f"c{i}", url="rtsp://127.0.0.1/"), door) for i in range(3)
        ]
        async with contextlib.AsyncExitStack() as running:
            for each in (door, *others):
                await running.enter_async_context(each.running())
            offering = [asyncio.create_task(each.offering()) for each in (door, *others)]
            await asyncio.sleep(5)
            for task in offering:
                task.cancel()

    # Four cameras with delays that double from an eighth or a quarter of a second up to one.
    assert 2 <= len(peers) <= 40
    assert door.results


async def test_a_port_that_closes_every_connection_is_not_a_tight_loop() -> None:
    """The attempts are those of one connection, whatever the number of cameras."""
    accepted: list[float] = []

    async def close(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(time.monotonic())
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server, rig(f"{host}:{port}", "door").running() as door:
        others = [
            Rig(door.server, CameraConfig(name=f"c{i}", url="rtsp://127.0.0.1/"), door) for i in range(7)
        ]
        async with contextlib.AsyncExitStack() as running:
            for each in others:
                await running.enter_async_context(each.running())
            await asyncio.sleep(4)

    assert 2 <= len(accepted) <= 40


async def test_a_server_that_wants_fewer_pings_gets_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the connection for too many of them: the next one pings half as often."""
    monkeypatch.setattr(connection, "KEEPALIVE_MS", 1000)
    async with scripted_server(taking, silent) as address, rig(address).running() as door:
        await until(lambda: len(door.statuses) >= 3, "the server's complaint", 30.0)
        assert door.statuses == ["connected", "not connected: Too many pings", "connected"]
        assert door.connection._keepalive_ms == 2000


@pytest.mark.parametrize("frozen_s", [3.0, pytest.param(10.0, marks=pytest.mark.soak)])
async def test_a_server_that_thaws_begins_with_a_fresh_frame(
    start_server: StartServer, frozen_s: float
) -> None:
    """What was sent into the freeze is as old as it is: the first frame that is worked on came after it."""
    server = start_server("--detector", "simulated:1")
    async with rig(server.address).running() as door:
        offering = asyncio.create_task(door.offering(fps=20))
        await until(lambda: len(door.results) >= 10, "answers")
        server.signal(signal.SIGSTOP)
        await asyncio.sleep(frozen_s)
        before = len(door.results)
        thawed_ns = time.time_ns()
        server.signal(signal.SIGCONT)
        await until(
            lambda: sum(result.answer.outcome == "detected" for result in door.results[before:]) >= 5,
            "frames are worked on again",
        )
        offering.cancel()

    after = door.results[before:]
    detected = [result for result in after if result.answer.outcome == "detected"]
    # A frame may be as old as it is allowed to be, 1 s.
    assert min(result.capture_time_ns for result in detected) >= thawed_ns - 1e9
    assert {result.answer.outcome for result in after if result.latency_ms > 2000} == {"stale"}
    assert door.statuses == ["connected"]
