"""A server of a released version: it knows what that version's contract says, and nothing else."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import grpc

from tests.wire.versions.contract import Contract

Context = grpc.aio.ServicerContext[bytes, bytes]

FACTS = (
    ("camera-ai-version", "0.1.0"),
    ("camera-ai-detector", "old"),
    ("camera-ai-max-image-bytes", "4194304"),
    ("camera-ai-max-image-pixels", "16777216"),
    ("camera-ai-window", "2"),
    ("camera-ai-max-age-ms", "1000"),
    ("camera-ai-input-wh", "300x300"),
)


class OldServer(grpc.GenericRpcHandler):
    """Answers DetectStream with one person, keeps Watch open until it drains; all else is UNIMPLEMENTED."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._draining = asyncio.Event()
        self.asked: Counter[str] = Counter()
        self.requests: list[Any] = []
        self.watching: list[Any] = []

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """Find a method by its name."""
        method = handler_call_details.method
        self.asked[method] += 1
        if method == "/camera_ai.ObjectDetection/DetectStream":
            return grpc.stream_stream_rpc_method_handler(self._detect_stream)
        if method == "/camera_ai.Control/Watch":
            return grpc.unary_stream_rpc_method_handler(self._watch)
        return None

    def drain(self) -> None:
        """Say that it ends."""
        self._draining.set()

    async def _detect_stream(self, requests: AsyncIterator[bytes], context: Context) -> None:
        await context.send_initial_metadata(FACTS)
        request_class = self._contract.message("DetectRequest")
        async for data in requests:
            request = request_class.FromString(data)
            self.requests.append(request)
            bbox = self._contract.fill("BoundingBox", x=1, y=2, width=3, height=4)
            found = self._contract.fill("Object", label="person", confidence=0.75, bbox=bbox)
            answer = self._contract.fill(
                "DetectResponse",
                frame_id=request.frame_id,
                objects=[found],
                outcome=self._contract.number("Outcome", "OUTCOME_DETECTED"),
                queue_ms=0.5,
                work_ms=1.5,
            )
            await context.write(answer.SerializeToString())
            if self._draining.is_set():
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is draining")

    async def _watch(self, data: bytes, context: Context) -> None:
        self.watching.append(self._contract.message("WatchRequest").FromString(data))
        await self._draining.wait()
        drain = self._contract.fill("Drain", reason="the server is shutting down", grace_ms=1000)
        await context.write(self._contract.fill("Wish", drain=drain).SerializeToString())

    @contextlib.asynccontextmanager
    async def serving(self, address: str = "127.0.0.1:0") -> AsyncIterator[str]:
        """Serve on loopback meanwhile; gives the address."""
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((self,))
        port = server.add_insecure_port(address)
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(0)
