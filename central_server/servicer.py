"""The gRPC side of DetectStream: calls in, answers out, with bytes-level handlers."""

import asyncio

import grpc
import numpy as np

from central_server import wire
from central_server.detection_call import DetectionCall
from central_server.detectors.detector import Query
from central_server.dispatcher import Dispatcher

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
