"""One DetectStream call, from its first frame to its end."""

import asyncio
import logging
import time
from collections import deque

import grpc

from central_server import wire
from central_server.counters import in_words
from central_server.detectors.detector import Query
from central_server.dispatcher import Dispatcher
from central_server.errors import BadMessageError
from central_server.frame import Answer, Frame, Outcome
from central_server.scheduler import Stream
from central_server.way import Way

log = logging.getLogger(__name__)

# A client that sends without reading is no longer read from at this many unwritten answers a call.
MAX_UNWRITTEN = 64
# After a frame that was dropped without work the next is read so much later: a client that sends far more
# than is served costs the server no more than 250 messages a second, the rest waits with the client.
DROP_PAUSE_S = 0.004
# A client that leaves at once is known to have left by then, and gets no facts.
FACTS_DELAY_S = 0.01
DROPPED = frozenset((Outcome.STALE, Outcome.SUPERSEDED, Outcome.TOO_LARGE))
# Under this name are counted the frames of clients that name no camera.
UNNAMED = "(unnamed)"


class DetectionCall:
    """A reader that submits frames, and a writer that sends the facts and the answers.

    Neither is ever cancelled, both end by themselves once the call has ended: what a cancelled task was
    waiting for, grpcio never frees, and likewise what it could not send to a client that has gone.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        query: Query,
        facts: wire.Facts,
        context: "grpc.aio.ServicerContext[bytes, bytes]",
    ) -> None:
        self._dispatcher = dispatcher
        self._query = query
        self._facts = facts
        self._context = context
        self._stream: Stream | None = None
        self._way = Way()
        self._answers: deque[Answer] = deque()
        self._unwritten = 0
        self._has_dropped = False
        self._accepting = True
        self._giving_way = asyncio.Event()
        self._gone = False
        # What the writer waits for while it has nothing to write; cheaper than an event, at each frame.
        self._change: asyncio.Future[None] | None = None
        self._room = asyncio.Event()

    @property
    def has_begun(self) -> bool:
        """Whether a frame has been sent."""
        return self._stream is not None

    def give_way(self) -> None:
        """End a call that holds a place without using it, for one that may."""
        self._giving_way.set()

    async def serve(self, draining: asyncio.Event) -> None:
        """Serve until the client is done or gone, or the server drains and has answered what it accepted."""
        reader = asyncio.create_task(self._read_frames())
        writer = asyncio.create_task(self._write_answers())
        drain = asyncio.create_task(draining.wait())
        giving_way = asyncio.create_task(self._giving_way.wait())
        try:
            await asyncio.wait((reader, writer, drain, giving_way), return_when=asyncio.FIRST_COMPLETED)
            cut = not reader.done()
            self._accepting = False
            self._wake_writer()
            await asyncio.wait((writer,))
            writer.result()
            if cut and not draining.is_set():
                detail = "over capacity: no frame was sent, and another call needs the place"
                await self._context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, detail)
            if cut:
                await self._context.abort(grpc.StatusCode.UNAVAILABLE, "the server is draining")
            reader.result()
        except BadMessageError as error:
            await self._context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            drain.cancel()
            giving_way.cancel()
            self._close()
            await asyncio.gather(reader, writer, drain, giving_way, return_exceptions=True)

    async def _read_frames(self) -> None:
        while self._accepting:
            message = await self._context.read()
            if not isinstance(message, bytes) or not self._accepting:  # The end is grpc.aio.EOF.
                return
            frame = self._aged(wire.parse_request(message))
            if self._stream is None:
                self._stream = self._open(frame.camera_id)
            self._unwritten += 1
            self._dispatcher.submit(self._stream, frame)
            if self._has_dropped:
                self._has_dropped = False
                await asyncio.sleep(DROP_PAUSE_S)
            while self._unwritten >= MAX_UNWRITTEN and not self._gone:
                self._room.clear()
                await self._room.wait()

    def _aged(self, frame: Frame) -> Frame:
        """Count to a frame's age for how long it was held up on its way."""
        if not frame.sent_ms:
            return frame
        held_up_s = self._way.held_up_s(frame.sent_ms / 1e3, time.monotonic())
        return frame._replace(age_ms=frame.age_ms + int(held_up_s * 1e3))

    async def _write_answers(self) -> None:
        await asyncio.sleep(FACTS_DELAY_S)
        if self._gone:
            return
        await self._context.send_initial_metadata(self._facts.to_metadata())
        loop = asyncio.get_running_loop()
        while True:
            while self._answers and not self._gone:
                await self._context.write(self._answers.popleft().message)
                self._unwritten -= 1
                self._room.set()
            if self._gone or (not self._accepting and not self._unwritten):
                return
            self._change = loop.create_future()
            await self._change

    def _open(self, camera_id: str) -> Stream:
        log.info("stream of camera %r from %s", camera_id or UNNAMED, self._context.peer())
        return self._dispatcher.open_stream(camera_id or UNNAMED, self._query, self._on_answer)

    def _wake_writer(self) -> None:
        change, self._change = self._change, None
        if change is not None and not change.done():
            change.set_result(None)

    def _on_answer(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._has_dropped |= answer.outcome in DROPPED
        self._wake_writer()

    def _close(self) -> None:
        self._accepting = False
        self._gone = True
        self._wake_writer()
        self._room.set()
        # The stream knows its call, by what it does with answers: the call forgets the stream.
        stream, self._stream = self._stream, None
        if stream is not None:
            self._dispatcher.close_stream(stream)
            log.info("stream of camera %r ended: %s", stream.camera_id, in_words(stream.counts))
