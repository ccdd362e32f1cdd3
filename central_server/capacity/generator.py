"""The load itself: one event loop, a writer and a reader for each camera."""

import asyncio
import math
import random
import resource
import time
from typing import Any

import grpc
import numpy as np

from central_server.capacity.load_result import UNANSWERED, LoadResult
from central_server.capacity.load_spec import LoadError, LoadSpec
from central_server.capacity.messages import read_answer, request_age, request_end, request_start, varint
from central_server.frame import Outcome

METHOD = "/camera_ai.ObjectDetection/DetectStream"
# From the last connection to the first instant: all writers are asleep by then.
LEAD_S = 0.1
# How often the loop's own lag is looked at.
TICK_S = 0.01
# A server has that long to end a call after its last answer.
END_S = 2.0
MAX_OUTCOME = 127
NEVER = math.nan

# Without it gRPC would carry all channels to one address over one connection.
OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)
OPTIONS = [
    OWN_CONNECTION,
    # A call is made once: what retries would need kept, and copied, is not.
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


class Camera:
    """One call: its frames at their instants, and what became of each."""

    def __init__(self, number: int, spec: LoadSpec, call: Any, ends: list[bytes], end: asyncio.Event) -> None:
        self.number = number
        self.frames = spec.frames_of(number)
        period_s = 1 / spec.rate_of(number)
        self.due_s = [spec.phase_s(number) + n * period_s for n in range(self.frames)]
        self.lag_s = [0.0] * self.frames
        self.sent_s = [NEVER] * self.frames
        self.answered_s = [NEVER] * self.frames
        self.outcome = [UNANSWERED] * self.frames
        self.error = ""
        self._call = call
        self._start = request_start(f"camera-{number + 1}")
        # Not every camera shows the same picture at the same time.
        self._ends = ends[number % len(ends) :] + ends[: number % len(ends)]
        self._window = spec.window or self.frames
        self._late_s = math.inf if spec.give_up_ms is None else spec.give_up_ms / 1e3
        self._gives_up = spec.give_up_ms is not None
        self._end = end
        self._answered = 0
        self._in_flight = 0
        self._room = asyncio.Event()

    async def write(self, start_s: float) -> None:
        """Send each frame at its instant, or as soon after it as the write before it is done."""
        call, ends = self._call, self._ends
        try:
            for n, due_s in enumerate(self.due_s):
                self.lag_s[n] = await _wake_at(start_s + due_s)
                while self._in_flight >= self._window:
                    self._room.clear()
                    await self._room.wait()
                self._in_flight += 1
                self.sent_s[n] = time.monotonic() - start_s
                # Numbered from 1: a server that leaves the number out is found out.
                age = request_age(int((self.sent_s[n] - self.due_s[n]) * 1e3))
                await call.write(b"".join((self._start, varint(n + 1), age, ends[n % len(ends)])))
            await call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # The reader knows why.

    async def read(self, start_s: float) -> None:
        """Note each answer as it arrives, until the call has ended."""
        try:
            while self._answered < self.frames:
                data = await self._call.read()
                if data is grpc.aio.EOF:
                    break
                self._note(data, time.monotonic() - start_s)
            self.error = await self._last_words()
        except grpc.aio.AioRpcError as error:
            self.error = f"{error.code().name}: {error.details()}"
        except ValueError as error:
            self.error = str(error)
            self._call.cancel()
        if self._gives_up and self.error:
            self._end.set()

    async def _last_words(self) -> str:
        """Wait for the end of the call; say what was wrong with it, if anything."""
        try:
            async with asyncio.timeout(END_S):
                if (data := await self._call.read()) is not grpc.aio.EOF:
                    self._note(data, NEVER)
        except TimeoutError:
            return f"the server did not end the call within {END_S:g} s of its last answer"
        code, detail = await self._call.code(), await self._call.details()
        if code is not grpc.StatusCode.OK:
            return f"{code.name}: {detail}"
        if self._answered < self.frames:
            return f"the server ended the call with {self.frames - self._answered} frames unanswered"
        return ""

    def _note(self, data: bytes, now_s: float) -> None:
        frame_id, outcome = read_answer(data)
        n = frame_id - 1
        if not 0 <= n < self.frames or math.isnan(self.sent_s[n]) or self.outcome[n] != UNANSWERED:
            raise ValueError(f"found an answer to frame {frame_id}, which nobody waits for")
        self.answered_s[n] = now_s
        self.outcome[n] = min(outcome, MAX_OUTCOME)
        self._answered += 1
        self._in_flight -= 1
        self._room.set()
        if self._gives_up and (outcome != Outcome.DETECTED or now_s - self.due_s[n] > self._late_s):
            self._end.set()


async def generate(spec: LoadSpec) -> LoadResult:
    """Run the load in this event loop.

    Raises:
        LoadError: the server cannot be reached, or an image not be read.

    """
    ends = [request_end(image, spec.max_age_ms) for image in _images(spec)]
    channels = [grpc.aio.insecure_channel(spec.address, OPTIONS) for _ in range(spec.cameras)]
    try:
        await _connect(spec, channels)
        end = asyncio.Event()
        cameras = [
            Camera(number, spec, channel.stream_stream(METHOD)(), ends, end)
            for number, channel in enumerate(channels)
        ]
        return await _run(spec, cameras, end)
    finally:
        await asyncio.gather(*(channel.close() for channel in channels))


async def _run(spec: LoadSpec, cameras: list[Camera], end: asyncio.Event) -> LoadResult:
    used_s = _processor_s()
    start_s = time.monotonic() + LEAD_S
    tasks = [
        asyncio.create_task(work)
        for camera in cameras
        for work in (camera.write(start_s), camera.read(start_s))
    ]
    ended = asyncio.create_task(end.wait())
    loop_lag_s: list[float] = []
    ticker = asyncio.create_task(_tick(start_s, loop_lag_s))
    done = asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.wait(
        (ended, done), timeout=LEAD_S + spec.last_due_s + spec.grace_s, return_when=asyncio.FIRST_COMPLETED
    )
    length_s = time.monotonic() - start_s
    used_s = _processor_s() - used_s
    result = _result(cameras, loop_lag_s, start_s, length_s, used_s, end.is_set())
    others = (ended, ticker)
    for task in (*others, *tasks):
        task.cancel()
    for failure in await asyncio.gather(*others, *tasks, return_exceptions=True):
        # A call that is given up cancels whoever waits for it.
        if isinstance(failure, BaseException) and not isinstance(failure, asyncio.CancelledError):
            raise failure
    return result


async def _wake_at(instant_s: float) -> float:
    """Sleep until an instant; give how much later it woke up, 0 where the instant had passed before."""
    slept = False
    while (early_s := instant_s - time.monotonic()) > 0:
        slept = True
        # The loop's timers have whole milliseconds, by a clock that may be some tenths behind.
        await asyncio.sleep(math.ceil(early_s * 1e3) / 1e3)
    return -early_s if slept else 0.0


async def _tick(start_s: float, lag_s: list[float]) -> None:
    """Note how late the loop comes to each tick: an answer that arrived at it was noted as late.

    A loop that is held up misses many ticks, and each of them counts.
    """
    tick_s = start_s
    while True:
        tick_s += TICK_S
        await _wake_at(tick_s)
        lag_s.append(time.monotonic() - tick_s)


def _result(
    cameras: list[Camera],
    loop_lag_s: list[float],
    start_s: float,
    length_s: float,
    used_s: float,
    gave_up: bool,
) -> LoadResult:
    def joined(name: str) -> Any:
        return np.concatenate([np.asarray(getattr(camera, name), np.float64) for camera in cameras])

    result = LoadResult(
        cameras=len(cameras),
        camera=np.repeat(np.arange(len(cameras), dtype=np.int32), [camera.frames for camera in cameras]),
        due_s=joined("due_s"),
        lag_s=joined("lag_s"),
        sent_s=joined("sent_s"),
        answered_s=joined("answered_s"),
        outcome=joined("outcome").astype(np.int8),
        loop_lag_s=np.asarray(loop_lag_s, np.float64),
        errors={camera.number: camera.error for camera in cameras if camera.error},
        processor_s=used_s,
        start_s=start_s,
        length_s=length_s,
        gave_up=gave_up,
    )
    # What was not due yet when the run gave up is nobody's failure.
    return result.between(-math.inf, length_s) if gave_up else result


def _images(spec: LoadSpec) -> list[bytes]:
    if not spec.images:
        return [random.Random(0).randbytes(spec.payload_bytes)]  # noqa: S311 - bytes to be carried, no secret
    try:
        return [path.read_bytes() for path in spec.images]
    except OSError as error:
        raise LoadError(f"{error.filename}: cannot be read: {error.strerror}") from error


async def _connect(spec: LoadSpec, channels: list[grpc.aio.Channel]) -> None:
    try:
        async with asyncio.timeout(spec.connect_timeout_s):
            await asyncio.gather(*(channel.channel_ready() for channel in channels))
    except TimeoutError:
        raise LoadError(
            f"{spec.address}: found no server within {spec.connect_timeout_s:g} s for "
            f"{len(channels)} connections"
        ) from None


def _processor_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
