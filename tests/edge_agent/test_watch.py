"""The agent's side of Control/Watch over TCP, with the real server and with scripted ones."""

import asyncio
import json
import logging
import math
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import grpc
import pytest
from camera_ai import control_pb2

from edge_agent import watch
from edge_agent.config import ServerConfig
from edge_agent.connection import Connection
from edge_agent.wish import CameraWish, FrameRate, Masks, Viewing
from tests.conftest import StartServer
from tests.edge_agent.streams import Context, scripted_server
from tests.polling import until

Script = Callable[[control_pb2.WatchRequest, Context], Awaitable[None]]

TRIANGLE = ((0.0, 0.0), (1.0, 0.0), (1.0, 0.5))


class Gateway:
    """Cameras by name, a connection, and what it was told."""

    def __init__(self, address: str, *cameras: str, name: str = "shop") -> None:
        self.cameras = list(cameras)
        self.wishes: list[CameraWish] = []
        self.statuses: list[str] = []
        self.connection = Connection(
            ServerConfig(address=address),
            lambda: self.cameras,
            self.statuses.append,
            gateway=name,
            on_wish=self.wishes.append,
        )
        self._task: asyncio.Task[None] | None = None

    async def _stay_connected(self) -> None:
        while True:
            await self.connection.channel()
            await asyncio.sleep(0.02)

    async def __aenter__(self) -> "Gateway":
        self._task = asyncio.create_task(self._stay_connected())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.connection.close()


async def ask(path: Path, **question: Any) -> list[dict[str, Any]]:
    """Ask the server's operator socket."""

    def asked() -> list[dict[str, Any]]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(30)
            connection.connect(str(path))
            connection.sendall(json.dumps(question).encode() + b"\n")
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as answers:
                return [json.loads(answer) for answer in answers]

    return await asyncio.to_thread(asked)


async def wish(path: Path, camera: str, **wished: Any) -> None:
    """Wish something of the shop's camera."""
    (answer,) = await ask(path, command="wish", gateway="shop", camera=camera, **wished)
    assert answer["gateway"] == "shop", answer


async def watching(path: Path) -> list[list[str]]:
    """Give the cameras of each agent that watches."""
    return [agent["cameras"] for agent in (await ask(path, command="gateways"))[:-1]]


async def until_watching(path: Path, *cameras: list[str]) -> None:
    async with asyncio.timeout(15):
        while await watching(path) != list(cameras):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)


async def test_wishes_arrive_and_what_stands_is_told_to_whoever_comes(
    start_server: StartServer, tmp_path: Path
) -> None:
    """By a real server: first what stood before, then each change; nothing twice."""
    path = tmp_path / "control.sock"
    server = start_server("--detector=simulated:1", f"--control={path}")
    await wish(path, "door", fps=2)
    await wish(path, "cellar", fps=3)
    async with Gateway(server.address, "door", "yard") as gateway:
        await until(lambda: gateway.wishes, "what stood before")
        await wish(path, "yard", watched=True)
        await wish(path, "door", masks=[TRIANGLE])
        await wish(path, "door", fps=0)
        await until(lambda: len(gateway.wishes) == 4, "the changes")

    assert gateway.wishes[:4] == [
        FrameRate("door", 2),
        Viewing("yard", True),
        Masks("door", (TRIANGLE,)),
        FrameRate("door"),
    ]
    # With the connection the watching ends.
    assert gateway.wishes[4:] == [Viewing("yard", False)]


async def test_when_the_cameras_change_the_server_knows_at_once(
    start_server: StartServer, tmp_path: Path
) -> None:
    """A new call with the new names takes the place of the old; the others' wishes stand untouched."""
    path = tmp_path / "control.sock"
    server = start_server("--detector=simulated:1", f"--control={path}")
    async with Gateway(server.address, "door", "yard") as gateway:
        await until_watching(path, ["door", "yard"])
        await wish(path, "door", watched=True)
        await wish(path, "yard", fps=3)
        await until(lambda: len(gateway.wishes) == 2, "both wishes")
        gateway.cameras[:] = ["cellar", "door"]
        gateway.connection.cameras_changed()
        await until_watching(path, ["cellar", "door"])
        assert gateway.connection.standing_wishes("yard") == ()
        gateway.connection.cameras_changed()  # The same: no third call.
        await wish(path, "cellar", fps=4)
        await until(lambda: len(gateway.wishes) == 3, "the new camera's wish")
        assert gateway.connection.standing_wishes("door") == (Viewing("door", True),)

    assert gateway.wishes[:3] == [Viewing("door", True), FrameRate("yard", 3), FrameRate("cellar", 4)]
    assert sum("watches from" in line for line in server.errors) == 2


async def test_what_a_lost_server_wished(start_server: StartServer, tmp_path: Path, monkeypatch) -> None:
    """Nobody watches any more, at once; rate and masks stand until the next server has not repeated them."""
    monkeypatch.setattr(watch, "SETTLE_S", 0.2)
    path = tmp_path / "control.sock"
    server = start_server("--detector=simulated:1", f"--control={path}")
    async with Gateway(server.address, "door") as gateway:
        await until_watching(path, ["door"])
        for wished in ({"fps": 2}, {"watched": True}, {"masks": [TRIANGLE]}):
            await wish(path, "door", **wished)
        await until(lambda: len(gateway.wishes) == 3, "all three")
        server.kill()
        await until(lambda: len(gateway.wishes) == 4, "the viewer's end")
        assert gateway.wishes[3] == Viewing("door", False)
        assert set(gateway.connection.standing_wishes("door")) == {
            FrameRate("door", 2),
            Masks("door", (TRIANGLE,)),
        }
        start_server("--detector=simulated:1", listen=server.address)
        await until(lambda: len(gateway.wishes) == 6, "the end of the others")

    assert set(gateway.wishes[4:]) == {FrameRate("door", 0), Masks("door", ())}


def scripted(script: Script) -> AbstractAsyncContextManager[str]:
    """Serve Watch as no real server does; gives the address."""

    async def handle(request: bytes, context: Context) -> None:
        await script(control_pb2.WatchRequest.FromString(request), context)

    return scripted_server(watch=handle)


def hostile() -> Iterable[bytes]:
    """Give wishes that nobody can mean, and one at the end that is well."""
    for fps in (math.nan, 1e9, -3.0):
        rate = control_pb2.FrameRate(camera_id="door", frames_per_second=fps)
        yield control_pb2.Wish(frame_rate=rate).SerializeToString()
    points = [control_pb2.Point(x_norm=0.5, y_norm=0.5)] * 200_000
    for polygons in ([control_pb2.Polygon(points=points)], [control_pb2.Polygon()] * 40):
        masks = control_pb2.Masks(camera_id="door", polygons=polygons)
        yield control_pb2.Wish(masks=masks).SerializeToString()
    yield b"\xff\xff\xff"
    for number in range(1000):
        camera = f"no\x1b[2J{number}" if number else "x" * 10_000
        yield control_pb2.Wish(
            viewing=control_pb2.Viewing(camera_id=camera, watched=True)
        ).SerializeToString()
    yield control_pb2.Wish(viewing=control_pb2.Viewing(camera_id="door", watched=True)).SerializeToString()


async def test_what_a_hostile_server_wishes_is_refused_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A thousand bad wishes are one line of the log; a good one among them is taken."""

    async def script(_request: control_pb2.WatchRequest, context: Context) -> None:
        for message in hostile():
            await context.write(message)
        await asyncio.sleep(60)

    caplog.set_level(logging.DEBUG)
    async with scripted(script) as address, Gateway(address, "door") as gateway:
        await until(lambda: gateway.wishes, "the good one")

    assert gateway.wishes[:1] == [Viewing("door", True)]
    refusals = [record.getMessage() for record in caplog.records if "is refused" in record.getMessage()]
    assert refusals == [
        "a wish of the server is refused: found nan frames a second, expected 0 or 0.1 to 60 (1 so far)"
    ]


async def test_a_server_without_wishes(monkeypatch) -> None:
    """UNIMPLEMENTED is well: the channel stays, and nothing is asked again."""
    async with scripted_server() as address, Gateway(address, "door") as gateway:
        await until(lambda: gateway.statuses == ["connected"], "the connection")
        await asyncio.sleep(0.3)
        gateway.cameras.append("yard")
        gateway.connection.cameras_changed()
        await asyncio.sleep(0.1)

    assert gateway.statuses == ["connected"]


async def test_a_call_that_fails_is_made_again() -> None:
    """A server that has no room for another watcher is asked again, by and by; the channel stays."""
    calls = []

    async def script(request: control_pb2.WatchRequest, context: Context) -> None:
        calls.append(request)
        if len(calls) == 1:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "over capacity")
        if len(calls) == 2:
            return
        rate = control_pb2.FrameRate(camera_id="door", frames_per_second=3)
        await context.write(control_pb2.Wish(frame_rate=rate).SerializeToString())
        await asyncio.sleep(60)

    async with scripted(script) as address, Gateway(address, "door", name="Laden 7") as gateway:
        await until(lambda: gateway.wishes, "the third call")

    assert gateway.wishes[:1] == [FrameRate("door", 3)]
    assert [(request.gateway, list(request.camera_ids)) for request in calls] == [("Laden 7", ["door"])] * 3
    assert gateway.statuses == ["connected"]


async def test_an_older_server_that_says_nothing(monkeypatch) -> None:
    """It tells no beginning and no wishes: cameras that change make a new call all the same."""
    monkeypatch.setattr(watch, "BEGIN_TIMEOUT_S", 0.1)
    names = []
    open_calls = set()

    async def script(request: control_pb2.WatchRequest, context: Context) -> None:
        names.append(list(request.camera_ids))
        open_calls.add(context)
        try:
            await asyncio.sleep(60)
        finally:
            open_calls.discard(context)

    async with scripted(script) as address, Gateway(address, "door") as gateway:
        await until(lambda: names == [["door"]], "the first call")
        gateway.cameras.append("yard")
        gateway.connection.cameras_changed()
        await until(lambda: names == [["door"], ["door", "yard"]], "the second call")
        await until(lambda: len(open_calls) == 1, "the first call's end")

    assert gateway.statuses == ["connected"]
