"""The gRPC side of DetectStream and Control: calls in, answers and wishes out, with bytes-level handlers."""

import asyncio
import logging

import grpc
import numpy as np

from central_server import wire
from central_server.detection_call import DetectionCall
from central_server.detectors.detector import Query
from central_server.dispatcher import Dispatcher
from central_server.errors import BadMessageError

log = logging.getLogger(__name__)

# A status has to fit into the 8 kB that clients take of metadata, however many labels a model has.
MAX_LIST_CHARS = 1500


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
        # In the order of their beginning.
        self._calls: dict[DetectionCall, None] = {}
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
        if len(self._calls) >= self._max_streams and not self._make_room():
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"over capacity: {len(self._calls)} of {self._max_streams} streams",
            )
        try:
            query = self._query(wire.parse_wanted(context.invocation_metadata() or ()))
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        call = DetectionCall(self._dispatcher, query, self._facts, context)
        self._calls[call] = None
        self._all_ended.clear()
        try:
            await call.serve(self._draining)
        finally:
            self._calls.pop(call, None)
            if not self._calls:
                self._all_ended.set()

    def drain(self) -> None:
        """Read no more frames, answer what was accepted, end all calls."""
        self._draining.set()

    async def all_ended(self, timeout_s: float) -> bool:
        """Wait until no call is open; False when time runs out first."""
        try:
            await asyncio.wait_for(self._all_ended.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def _make_room(self) -> bool:
        """End the oldest of the calls that never sent a frame: silence keeps nobody out."""
        for call in self._calls:
            if not call.has_begun:
                call.give_way()
                del self._calls[call]
                return True
        return False

    def _query(self, wanted: wire.Wanted) -> Query:
        min_score = self._default_min_score if wanted.min_score is None else wanted.min_score
        if not wanted.labels:
            return Query(min_score)
        unknown = sorted(set(wanted.labels) - set(self._labels))
        if unknown:
            known = [label for label in self._labels if label]
            raise ValueError(
                f"{wire.LABELS_KEY}: found {_listed(unknown)}, expected some of: {_listed(known)}"
            )
        return Query(min_score, np.array([label in wanted.labels for label in self._labels], np.uint8))


def _listed(labels: list[str]) -> str:
    text = ", ".join(labels)
    return text if len(text) <= MAX_LIST_CHARS else f"{text[:MAX_LIST_CHARS]}…"


class ControlServicer:
    """Answers Watch: today's only wish is the drain."""

    def __init__(self, grace_ms: int, max_watching: int) -> None:
        self._grace_ms = grace_ms
        self._max_watching = max_watching
        self._watching = 0
        self._draining = asyncio.Event()

    def handler(self) -> grpc.GenericRpcHandler:
        """Give what a gRPC server registers."""
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(self.watch)
        return grpc.method_handlers_generic_handler(wire.CONTROL_SERVICE, {"Watch": method})

    async def watch(self, message: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        """Stay open; tell when the server drains."""
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
