"""The gRPC side of DetectStream and Control: calls in, answers and wishes out, with bytes-level handlers."""

import asyncio
import logging
from collections import deque

import grpc
import numpy as np

from central_server import wire
from central_server.counters import in_words
from central_server.detectors.detector import Query
from central_server.dispatcher import Dispatcher
from central_server.errors import BadMessageError
from central_server.frame import Answer
from central_server.scheduler import Stream

log = logging.getLogger(__name__)

# A client that sends without reading is no longer read from at this many unwritten answers a call.
MAX_UNWRITTEN = 64
# Under this name are counted the frames of clients that name no camera.
UNNAMED = "(unnamed)"


class DetectionServicer:
    """Answers DetectStream."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        facts: wire.Facts,
        labels: tuple[str, ...],
        default_min_score: float,
        max_streams: int,
    ) -> None:
        self._dispatcher = dispatcher
        self._facts = facts
        self._labels = labels
        self._default_min_score = default_min_score
        self._max_streams = max_streams
        self._draining = asyncio.Event()
        self._calls: set[DetectionCall] = set()
        self._all_ended = asyncio.Event()
        self._all_ended.set()

    def handler(self) -> grpc.GenericRpcHandler:
        """Give what a gRPC server registers."""
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(
            self.detect_stream
        )
        return grpc.method_handlers_generic_handler(wire.DETECTION_SERVICE, {"DetectStream": method})

    @property
    def open_streams(self) -> int:
        """How many calls are open."""
        return len(self._calls)

    async def detect_stream(
        self, _requests: object, context: "grpc.aio.ServicerContext[bytes, bytes]"
    ) -> None:
        """Serve one call until its client is done or gone, or the server drains."""
        if self._draining.is_set():
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is draining")
        if len(self._calls) >= self._max_streams:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"over capacity: {len(self._calls)} of {self._max_streams} streams",
            )
        try:
            query = self._query(wire.parse_wanted(context.invocation_metadata() or ()))
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        call = DetectionCall(self._dispatcher, query, context)
        self._calls.add(call)
        self._all_ended.clear()
        try:
            await context.send_initial_metadata(self._facts.to_metadata())
            drained = await call.serve(self._draining)
        except BadMessageError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            self._calls.discard(call)
            if not self._calls:
                self._all_ended.set()
        if drained:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is draining")

    async def drain(self, timeout_s: float) -> bool:
        """Read no more frames, answer what was accepted, end all calls; False when time runs out first."""
        self._draining.set()
        try:
            await asyncio.wait_for(self._all_ended.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def _query(self, wanted: wire.Wanted) -> Query:
        min_score = self._default_min_score if wanted.min_score is None else wanted.min_score
        if not wanted.labels:
            return Query(min_score)
        unknown = sorted(set(wanted.labels) - set(self._labels))
        if unknown:
            known = ", ".join(label for label in self._labels if label)
            raise ValueError(f"{wire.LABELS_KEY}: found {', '.join(unknown)}, expected some of: {known}")
        return Query(min_score, np.array([label in wanted.labels for label in self._labels], np.uint8))


class DetectionCall:
    """One DetectStream call: a reader that submits frames, and a writer that sends the answers."""

    def __init__(
        self, dispatcher: Dispatcher, query: Query, context: "grpc.aio.ServicerContext[bytes, bytes]"
    ) -> None:
        self._dispatcher = dispatcher
        self._query = query
        self._context = context
        self._stream: Stream | None = None
        self._answers: deque[Answer] = deque()
        self._unwritten = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._reading_ended = False

    async def serve(self, draining: asyncio.Event) -> bool:
        """Serve until the client is done, or the server drains (then True); cancelled when the client goes.

        Raises:
            BadMessageError: the client sent what is no request.

        """
        reader = asyncio.create_task(self._read_frames())
        writer = asyncio.create_task(self._write_answers())
        drain = asyncio.create_task(draining.wait())
        try:
            await asyncio.wait((reader, writer, drain), return_when=asyncio.FIRST_COMPLETED)
            if not reader.done():
                reader.cancel()
            await asyncio.wait((reader,))
            self._reading_ended = True
            self._changed.set()
            await writer
            if not reader.cancelled():
                reader.result()
            return reader.cancelled()
        finally:
            for task in (reader, writer, drain):
                task.cancel()
            await asyncio.gather(reader, writer, drain, return_exceptions=True)
            self._close()

    async def _read_frames(self) -> None:
        while True:
            message = await self._context.read()
            if not isinstance(message, bytes):  # grpc.aio.EOF
                return
            frame = wire.parse_request(message)
            if self._stream is None:
                self._stream = self._open(frame.camera_id)
            self._unwritten += 1
            self._dispatcher.submit(self._stream, frame)
            while self._unwritten >= MAX_UNWRITTEN:
                self._room.clear()
                await self._room.wait()

    async def _write_answers(self) -> None:
        while True:
            while self._answers:
                await self._context.write(wire.build_response(self._answers.popleft()))
                self._unwritten -= 1
                self._room.set()
            if self._reading_ended and not self._unwritten:
                return
            self._changed.clear()
            await self._changed.wait()

    def _open(self, camera_id: str) -> Stream:
        log.info("stream of camera %r from %s", camera_id, self._context.peer())
        return self._dispatcher.open_stream(camera_id or UNNAMED, self._query, self._on_answer)

    def _on_answer(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._changed.set()

    def _close(self) -> None:
        if self._stream is not None:
            self._dispatcher.close_stream(self._stream)
            log.info("stream of camera %r ended: %s", self._stream.camera_id, in_words(self._stream.counts))


class ControlServicer:
    """Answers Watch: today's only wish is the drain."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._draining = asyncio.Event()

    def handler(self) -> grpc.GenericRpcHandler:
        """Give what a gRPC server registers."""
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(self.watch)
        return grpc.method_handlers_generic_handler(wire.CONTROL_SERVICE, {"Watch": method})

    async def watch(self, message: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        """Stay open; tell when the server drains."""
        try:
            request = wire.parse_watch_request(message)
        except BadMessageError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        log.info(
            "agent %r with %d cameras watches from %s",
            request.agent_version,
            len(request.camera_ids),
            context.peer(),
        )
        await self._draining.wait()
        await context.write(wire.build_drain("the server is shutting down", self._grace_ms))

    def drain(self) -> None:
        """Tell every watching agent."""
        self._draining.set()
