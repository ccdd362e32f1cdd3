"""A camera's stream with everything it reports, and servers that misbehave on purpose."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence

import grpc

from edge_agent import wire
from edge_agent.client import CameraStream
from edge_agent.config import CameraConfig, ServerConfig
from edge_agent.connection import Connection
from edge_agent.frame import Frame
from edge_agent.result import Result
from edge_agent.uplink.turns import Uplink

DEADLINE_S = 15.0

Context = grpc.aio.ServicerContext[bytes, bytes]


class Rig:
    """A camera's stream with everything it reports."""

    def __init__(self, server: ServerConfig, camera: CameraConfig, beside: "Rig | None" = None) -> None:
        self.server = server
        self.results: list[Result] = []
        self.refusals: list[str] = []
        self.facts: list[wire.Facts] = []
        self.statuses: list[str] = []
        self.camera = camera
        shared = beside.connection if beside else None
        self.connection = shared or Connection(server, lambda: [camera.name], self.statuses.append)
        self.uplink = beside.uplink if beside else Uplink()
        self.slow: list[str] = []
        self.stream = CameraStream(
            camera,
            self.connection,
            self.results.append,
            self.refusals.append,
            self.facts.append,
            uplink=self.uplink,
            on_slow=self.slow.append,
        )
        self._next_id = 0

    def offer(self, image: bytes = b"any bytes", age_s: float = 0.0) -> None:
        """Offer the next frame, captured `age_s` ago."""
        self._next_id += 1
        captured_s = time.monotonic() - age_s
        masks = self.camera.privacy_masks
        self.stream.offer(
            Frame(self.camera.name, self._next_id, time.time_ns(), captured_s, image, 64, 48, masks)
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Rig"]:
        """Run the stream meanwhile."""
        task = asyncio.create_task(self.stream.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.connection.close()

    async def answer(self) -> Result:
        """Offer frames, ten a second, until one is answered."""
        before = len(self.results)
        deadline_s = time.monotonic() + DEADLINE_S
        while len(self.results) == before:
            assert time.monotonic() < deadline_s, (
                f"no answer; server: {self.statuses}, refused: {self.refusals}"
            )
            self.offer()
            await asyncio.sleep(0.1)
        return self.results[-1]

    async def offering(self, fps: float = 10.0, image: bytes = b"any bytes") -> None:
        """Offer frames until cancelled."""
        while True:
            self.offer(image)
            await asyncio.sleep(1 / fps)


def rig(address: str, name: str = "door", **wanted: object) -> Rig:
    return Rig(ServerConfig(address=address), CameraConfig(name=name, url="rtsp://127.0.0.1/", **wanted))


@contextlib.asynccontextmanager
async def scripted_server(
    detect_stream: Callable[..., object] | None = None,
    watch: Callable[..., object] | None = None,
    report_records: Callable[..., object] | None = None,
    options: Sequence[tuple[str, int]] = (),
) -> AsyncIterator[str]:
    """Serve what is given with behaviour that no real server has, and nothing else; gives the address."""
    server = grpc.aio.server(options=options)
    handlers = []
    if detect_stream is not None:
        handlers.append((wire.DETECT_STREAM, grpc.stream_stream_rpc_method_handler(detect_stream)))
    if watch is not None:
        handlers.append((wire.WATCH, grpc.unary_stream_rpc_method_handler(watch)))
    if report_records is not None:
        handlers.append((wire.REPORT_RECORDS, grpc.stream_stream_rpc_method_handler(report_records)))
    for path, handler in handlers:
        service, method = path.strip("/").split("/")
        generic = grpc.method_handlers_generic_handler(service, {method: handler})
        server.add_generic_rpc_handlers((generic,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)
