"""The gRPC side of ReportRecords: batches in, acknowledgements out, with bytes-level handlers."""

import asyncio
import contextlib
import logging

import grpc

from central_server import wire
from central_server.errors import BadMessageError
from central_server.records.writer import NotStoredError, RecordWriter

log = logging.getLogger(__name__)

NO_STORE = "this server keeps no records: it was started without --data"

Context = grpc.aio.ServicerContext[bytes, bytes]


class TelemetryServicer:
    """Answers ReportRecords; with no writer it says that no records are kept."""

    def __init__(self, writer: RecordWriter | None, max_calls: int) -> None:
        self._writer = writer
        self._max_calls = max_calls
        self._draining = asyncio.Event()
        # In the order of their last sign of life; those that wait for a batch can give way to others.
        self._waiting: dict[asyncio.Event, None] = {}
        self._open = 0

    def handler(self) -> grpc.GenericRpcHandler:
        """Give what a gRPC server registers."""
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(
            self.report_records
        )
        return grpc.method_handlers_generic_handler(wire.TELEMETRY_SERVICE, {"ReportRecords": method})

    def drain(self) -> None:
        """Take no more batches; end the calls when those that were taken are acknowledged."""
        self._draining.set()

    async def report_records(self, _requests: object, context: Context) -> None:
        """Take batches until the gateway is done or gone, or the server drains."""
        if self._writer is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, NO_STORE)
        if self._open >= self._max_calls and not self._make_room():
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"over capacity: {self._open} gateways report"
            )
        self._open += 1
        try:
            await self._serve(self._writer, context)
        finally:
            self._open -= 1

    async def _serve(self, writer: RecordWriter, context: Context) -> None:
        # At once: a call that is taken can be told from one that is refused before anything is sent.
        await context.send_initial_metadata(())
        while (message := await self._next(context)) is not None:
            try:
                wire.check_batch_size(message)
                stored = await writer.store(message)
            except BadMessageError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            except NotStoredError as error:
                # Not UNAVAILABLE, which would speak of the whole server.
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            try:
                await context.write(wire.build_ack(stored.last_sequence, stored.refused))
            except grpc.aio.InternalError:  # it left without reading; its records are stored
                return
        if self._draining.is_set():
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is draining")

    async def _next(self, context: Context) -> bytes | None:
        """Wait for a batch; None at the call's end, when the server drains, and to make room for another."""
        give_way = asyncio.Event()
        self._waiting[give_way] = None
        tasks = [
            asyncio.ensure_future(wait) for wait in (context.read(), give_way.wait(), self._draining.wait())
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            reading = tasks[0]
            if not reading.done():
                return None
            message = reading.result()
            return message if isinstance(message, bytes) else None
        finally:
            self._waiting.pop(give_way, None)
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)

    def _make_room(self) -> bool:
        """End the call that has been silent for longest: it begins anew when it has something to say."""
        for give_way in self._waiting:
            give_way.set()
            del self._waiting[give_way]
            return True
        return False
