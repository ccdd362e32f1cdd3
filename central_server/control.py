"""Control/Watch: the server's wishes, to each agent that listens; with bytes-level handlers."""

import asyncio
import logging

import grpc

from central_server import wire
from central_server.errors import BadMessageError
from central_server.wishes import Watcher, Wishes

log = logging.getLogger(__name__)

# An agent that leaves at once, having asked only why it cannot connect, is known to have left by then.
BEGIN_DELAY_S = 0.01


class ControlServicer:
    """Answers Watch: what is wished of an agent's cameras, and the drain."""

    def __init__(self, wishes: Wishes, grace_ms: int, max_watching: int) -> None:
        self._wishes = wishes
        self._grace_ms = grace_ms
        self._max_watching = max_watching
        self._watching = 0
        self._draining = False
        self._calls: set[_WatchCall] = set()

    def handler(self) -> grpc.GenericRpcHandler:
        """Give what a gRPC server registers."""
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(self.watch)
        return grpc.method_handlers_generic_handler(wire.CONTROL_SERVICE, {"Watch": method})

    async def watch(self, message: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        """Tell what stands, then every change, at last the drain."""
        if self._watching >= self._max_watching:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"over capacity: {self._watching} agents watch"
            )
        self._watching += 1
        try:
            await self._watch(message, context)
        finally:
            self._watching -= 1

    async def _watch(self, message: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        try:
            request = wire.parse_watch_request(message)
        except BadMessageError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        call = _WatchCall(request, context)
        if self._draining:
            call.drain()
        log.info(
            "agent %r of gateway %r with %d cameras watches from %s",
            request.agent_version,
            request.gateway,
            len(request.camera_ids),
            context.peer(),
        )
        self._calls.add(call)
        self._wishes.enter(call.watcher)
        try:
            await call.serve(wire.build_drain("the server is shutting down", self._grace_ms))
        finally:
            self._wishes.leave(call.watcher)
            self._calls.discard(call)

    def drain(self) -> None:
        """Tell every watching agent."""
        self._draining = True
        for call in self._calls:
            call.drain()


class _WatchCall:
    """One agent's call. Its writer is never cancelled: what it was waiting for grpcio would never free."""

    def __init__(self, request: wire.WatchRequest, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        self._context = context
        self._changed = asyncio.Event()
        self._draining = False
        self._gone = False
        self.watcher = Watcher(
            request.gateway,
            request.agent_version,
            frozenset(request.camera_ids),
            context.peer(),
            self._changed.set,
        )

    def drain(self) -> None:
        """Announce the drain and end."""
        self._draining = True
        self._changed.set()

    async def serve(self, drain_message: bytes) -> None:
        """Write wishes until the agent has gone or the server drains."""
        writer = asyncio.create_task(self._write(drain_message))
        try:
            await asyncio.wait((writer,))
            writer.result()
        finally:
            self._gone = True
            self._changed.set()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write(self, drain_message: bytes) -> None:
        await asyncio.sleep(BEGIN_DELAY_S)
        if self._gone:
            return
        # At once: an agent that changes from one call to the next sees that the new one is heard.
        await self._context.send_initial_metadata(())
        while not self._gone:
            if self._draining:
                await self._context.write(drain_message)
                return
            untold = self.watcher.next_untold()
            if untold is None:
                self._changed.clear()
                await self._changed.wait()
                continue
            await self._context.write(wire.build_wish(*untold))
