"""One camera's stream to the central server: frames up, answers down, again and again."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable

import grpc

from edge_agent import wire
from edge_agent.backoff import Backoff
from edge_agent.config import CameraConfig
from edge_agent.connection import Connection
from edge_agent.errors import one_line
from edge_agent.frame import Frame
from edge_agent.result import Result
from edge_agent.uplink.budget import cost_bytes
from edge_agent.uplink.steps import Step
from edge_agent.uplink.turns import Lane, Uplink

log = logging.getLogger(__name__)

FACTS_TIMEOUT_S = 10.0
# A server that answers nothing for this long beyond a frame's maximum age is taken for dead.
ANSWER_PATIENCE_S = 10.0
CHECK_PERIOD_S = 1.0
# A window that a server announces is taken up to here: beyond it frames only wait elsewhere.
MAX_WINDOW = 16

# The server is well and does not want this stream: no reason to doubt the channel.
REFUSALS = frozenset(
    {
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)

Call = grpc.aio.StreamStreamCall[bytes, bytes]


class NoAnswerError(Exception):
    """The server holds frames and does not answer."""


class CameraStream:
    """Sends a camera's frames, latest first, and hands on the answers; lives in the event loop.

    `on_step` is called when the frames are to be made otherwise, for want of bandwidth; `on_slow` with the
    reason why they are not answered in time, empty when they are again.

    Attributes:
        drops: frames that were not sent or not answered, by reason.
        refusal: why the server refuses the stream; empty while it does not.

    """

    def __init__(
        self,
        camera: CameraConfig,
        connection: Connection,
        on_result: Callable[[Result], None],
        on_refusal: Callable[[str], None],
        on_facts: Callable[[wire.Facts], None],
        *,
        uplink: Uplink | None = None,
        on_step: Callable[[], None] = lambda: None,
        on_slow: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._camera = camera
        self._connection = connection
        self._on_result = on_result
        self._on_refusal = on_refusal
        self._on_facts = on_facts
        self._max_image_bytes: int | None = None
        self._uplink = uplink or Uplink()
        self._lane = Lane(self._uplink, camera, self._its_turn, on_step, on_slow, self._grew_stale)
        self._window = self._lane.window
        # Frames whose turn it is: no more than the window has room for.
        self._outgoing: asyncio.Queue[Frame] = asyncio.Queue()
        self._backoff = Backoff()
        self.drops: Counter[str] = Counter()
        self.refusal = ""
        self._ended_because = ""
        self._call: Call | None = None
        self._hurry = asyncio.Event()

    def configure(self, camera: CameraConfig) -> None:
        """Go over to another configuration of the camera; a call that asked for other objects begins anew."""
        before, self._camera = self._camera, camera
        self._lane.configure(camera)
        is_shown = before.privacy_masks != camera.privacy_masks and self._take_back("other privacy masks")
        if is_shown or wire.build_wanted(before) != wire.build_wanted(camera):
            if self._call is not None:
                self._call.cancel()
            self.hurry()

    def stop_soon(self) -> None:
        """Send nothing more from now on; `run` is to be cancelled as well."""
        self._take_back("stopped")
        if self._call is not None:
            self._call.cancel()

    def _take_back(self, reason: str) -> bool:
        """Drop what waits; tell whether more is on its way, which a call lets go when it is cancelled."""
        if self._window.waiting is not None:
            self._window.discard()
            self.drops[reason] += 1
        return self._window.in_flight > 0

    def hurry(self) -> None:
        """Do not wait before the next call: what ended the last one may be mended."""
        self._backoff = Backoff()
        self._hurry.set()

    @property
    def sent_bytes(self) -> int:
        """Bytes sent since the start, with what the transport puts around them."""
        return self._lane.meter.sent_bytes

    def kbit_per_s(self) -> float:
        """Give kilobits a second sent in the last ten seconds."""
        return self._lane.meter.kbit_per_s(time.monotonic())

    def mb_per_day(self) -> float:
        """Give megabytes a day at the rate of the last hour, or since the start where that is later."""
        return self._lane.meter.mb_per_day(time.monotonic())

    @property
    def step(self) -> Step:
        """What the frames are to be at most."""
        return self._lane.steps.step

    def want(self, fps: float, *, is_watched: bool) -> None:
        """Take the rate that is wanted now, and whether someone is looking."""
        self._lane.want(fps, is_watched=is_watched)

    def offer(self, frame: Frame) -> None:
        """Take the camera's latest frame; it is sent as soon as the window has room and it has its turn."""
        if frame.privacy_masks != self._camera.privacy_masks:
            self.drops["other privacy masks"] += 1
            return
        if self._is_too_large(frame):
            return
        if dropped := self._lane.offer(frame, time.monotonic()):
            self.drops[dropped] += 1

    async def run(self) -> None:
        """Stream until cancelled; nothing else ends it."""
        self._uplink.join(self._lane)
        try:
            while True:
                reason = await self._one_call()
                if reason != self._ended_because:
                    log.info("camera %s: stream ended: %s", self._camera.name, reason)
                self._ended_because = reason
                self._hurry.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._backoff.next_delay_s()):
                        await self._hurry.wait()
        finally:
            self._uplink.leave(self._lane)

    async def _one_call(self) -> str:
        """Stream over one call until it ends; gives back why it did."""
        if not self._connection.is_up:
            self._refused("")  # by a server that is no longer there
        channel = await self._connection.channel()
        call: Call = channel.stream_stream(wire.DETECT_STREAM)(metadata=wire.build_wanted(self._camera))
        self._call = call
        try:
            await self._stream(channel, call)
        except grpc.aio.AioRpcError as error:
            return self._failed(channel, error)
        except (NoAnswerError, wire.BadMessageError) as error:
            # Of this call alone: others over the channel may be well, and keepalive watches the channel.
            return str(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return "its channel was closed, or it asks for something else"
        except Exception as error:  # a fault of ours in one camera's stream is not to end it for good
            log.exception("camera %s: its stream failed", self._camera.name)
            return f"internal error: {type(error).__name__}"
        finally:
            call.cancel()
            self.drops["unanswered"] += self._lane.lose()
            self._outgoing = asyncio.Queue()
        return "the server ended the stream"

    def _failed(self, channel: grpc.aio.Channel, error: grpc.aio.AioRpcError) -> str:
        reason = one_line(error.details() or error.code().name)
        if error.code() in REFUSALS:
            self._refused(reason)
        elif error.code() is grpc.StatusCode.UNAVAILABLE:
            self._connection.retire(channel, reason)
        return reason

    async def _stream(self, channel: grpc.aio.Channel, call: Call) -> None:
        begun_s = time.monotonic()
        try:
            async with asyncio.timeout(FACTS_TIMEOUT_S):
                facts = wire.parse_facts(_pairs(await call.initial_metadata()))
        except TimeoutError:
            raise NoAnswerError(f"nothing from the server within {FACTS_TIMEOUT_S:g} s") from None
        self._max_image_bytes = facts.max_image_bytes
        self._on_facts(facts)
        # One may wait that was made before the limit was known.
        if self._window.waiting is not None and self._is_too_large(self._window.waiting):
            self._window.discard()
        self._window.size = min(facts.window, MAX_WINDOW)
        self._uplink.begin(self._lane, channel, time.monotonic() - begun_s)
        reader = asyncio.create_task(self._read(call))
        others = (asyncio.create_task(self._send(call)), asyncio.create_task(self._check()))
        try:
            # Whichever ends first tells why; a sender that finds the call ended leaves that to the reader.
            done, _ = await asyncio.wait((reader, *others), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            await reader
        finally:
            for task in (reader, *others):
                task.cancel()
            await asyncio.gather(reader, *others, return_exceptions=True)

    def _is_too_large(self, frame: Frame) -> bool:
        """Tell whether the server would not take an image, and count it then."""
        is_so = self._max_image_bytes is not None and len(frame.image_data) > self._max_image_bytes
        self.drops["too large"] += is_so
        return is_so

    def _its_turn(self, frame: Frame) -> None:
        self._outgoing.put_nowait(frame)

    def _grew_stale(self) -> None:
        self.drops["stale"] += 1

    async def _send(self, call: Call) -> None:
        while True:
            frame = await self._outgoing.get()
            now_s = time.monotonic()
            request = wire.build_request(frame, now_s, self._camera.max_age_ms)
            self._lane.meter.add(cost_bytes(len(request)), now_s)
            try:
                await call.write(request)
            except (asyncio.InvalidStateError, grpc.aio.AioRpcError):
                return

    async def _read(self, call: Call) -> None:
        while isinstance(data := await call.read(), bytes):  # else grpc.aio.EOF
            answer = wire.parse_response(data)
            sent = self._window.answered(answer.frame_id)
            if sent is None:
                self.drops["unasked answer"] += 1
                continue
            self._backoff.healthy()
            self._ended_because = ""
            self._connection.healthy()
            self._refused("")
            latency_ms = (time.monotonic() - sent.captured_s) * 1e3
            self._lane.answered(answer, latency_ms)
            self._on_result(
                Result(self._camera.name, sent.capture_time_ns, sent.width, sent.height, latency_ms, answer)
            )

    async def _check(self) -> None:
        patience_s = self._camera.max_age_ms / 1e3 + ANSWER_PATIENCE_S
        while True:
            await asyncio.sleep(CHECK_PERIOD_S)
            oldest_s = self._window.oldest_sent_s()
            if oldest_s is not None and time.monotonic() - oldest_s > patience_s:
                raise NoAnswerError(f"no answer within {patience_s:g} s")

    def _refused(self, reason: str) -> None:
        if reason != self.refusal:
            self.refusal = reason
            self._on_refusal(reason)


def _pairs(metadata: grpc.aio.Metadata | None) -> list[tuple[str, str | bytes]]:
    return [(key, value) for key, value in metadata or ()]
