"""Listening to the central server's wishes: one Watch call, opened anew when the cameras change."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version

import grpc

from edge_agent import wire
from edge_agent.backoff import Backoff
from edge_agent.errors import one_line
from edge_agent.wish import CameraWish, Drain, StandingWishes

log = logging.getLogger(__name__)

Call = grpc.aio.UnaryStreamCall[bytes, bytes]

# An older server says nothing at the beginning of a call.
BEGIN_TIMEOUT_S = 1.0
# So long after its beginning a call has told all that stands.
SETTLE_S = 2.0
# Trouble after a call that went well for so long is a new one.
OLD_CALL_S = 60.0
# A server in its senses does not send so many; what is beyond is taken at a hundred a second.
MANY_WISHES = 1000
PAUSE_S = 0.01
# Wishes that are refused are told in the log at most so often.
REFUSAL_PERIOD_S = 60.0


class _EndedError(Exception):
    """The server has ended the call without a reason."""


class Watch:
    """Hands on the wishes of whatever server is there.

    `on_wish` is called in the event loop with each wish for a camera that changes something, and with one
    that takes it back (rate 0, not watched, no masks) when it has ended. One channel is listened to at once.
    """

    def __init__(
        self, gateway: str, cameras: Callable[[], Iterable[str]], on_wish: Callable[[CameraWish], None]
    ) -> None:
        self._gateway = gateway
        self._cameras = cameras
        self._on_wish = on_wish
        self._standing = StandingWishes()
        self._changed = asyncio.Event()
        self._told: frozenset[str] = frozenset()
        self._current: Call | None = None
        self._refused = 0
        self._refusal_told_s = float("-inf")

    def standing(self, camera: str) -> tuple[CameraWish, ...]:
        """Give the wishes that stand for a camera: for one that begins anew."""
        return self._standing.of(camera)

    def cameras_changed(self) -> None:
        """Tell the server the cameras that there are now."""
        self._standing.keep_only(self._cameras())
        if self._told != frozenset(self._cameras()):
            self._changed.set()

    def rename(self, gateway: str) -> None:
        """Tell the server another name of this gateway."""
        if gateway != self._gateway:
            self._gateway = gateway
            self._changed.set()

    async def listen(self, channel: grpc.aio.Channel) -> str | None:
        """Listen until there is a reason to leave the channel; None: this server has no wishes."""
        backoff = Backoff()
        while True:
            begun_s = time.monotonic()
            try:
                return await self._listen_once(channel)
            except _EndedError:
                log.debug("the server has ended the call for wishes")
            except grpc.aio.AioRpcError as error:
                is_lost = channel.get_state() is not grpc.ChannelConnectivity.READY
                if error.code() is grpc.StatusCode.UNAVAILABLE and is_lost:
                    return one_line(error.details() or "unavailable")
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    self._tell(self._standing.end_unconfirmed())
                    return None
                log.debug("the server's wishes cannot be heard: %s", one_line(error.details() or ""))
            if time.monotonic() - begun_s > OLD_CALL_S:
                backoff = Backoff()
            await asyncio.sleep(backoff.next_delay_s())

    async def _listen_once(self, channel: grpc.aio.Channel) -> str:
        """Listen by one call after the other while they go well; gives back the reason of a drain."""
        call, reader, settling = self._open(channel)
        try:
            while not await self._ended_unchanged(reader):
                old_call, old_reader, old_settling = call, reader, settling
                # From here on what the old one says of cameras no longer counts; its drain does.
                call, reader, settling = self._open(channel)
                begun = asyncio.create_task(_begun(call))
                try:
                    await asyncio.wait((begun, reader, old_reader), return_when=asyncio.FIRST_COMPLETED)
                    if old_reader.done():
                        return old_reader.result()
                finally:
                    await _end(old_call, old_reader, old_settling, begun)
            return reader.result()
        finally:
            await _end(call, reader, settling)
            if self._current is call:
                self._current = None
                self._tell(self._standing.end_viewing())

    async def _ended_unchanged(self, reader: "asyncio.Task[str]") -> bool:
        """Wait for the cameras to change or the call to end; tell whether it has ended."""
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait((reader, changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        return reader.done()

    def _open(self, channel: grpc.aio.Channel) -> "tuple[Call, asyncio.Task[str], asyncio.Task[None]]":
        """Begin a call; gives its reader, and what ends the wishes that it does not repeat."""
        self._changed.clear()
        names = tuple(self._cameras())
        self._told = frozenset(names)
        request = wire.build_watch_request(version("camera-ai"), names, self._gateway)
        call: Call = watch_method(channel)(request)
        self._current = call
        self._standing.begin()
        return call, asyncio.create_task(self._read(call)), asyncio.create_task(self._settle(call))

    async def _read(self, call: Call) -> str:
        """Take wishes until the server drains; gives back its reason."""
        taken = 0
        while isinstance(data := await call.read(), bytes):
            taken += 1
            try:
                wish = wire.parse_wish(data)
            except wire.BadMessageError as error:
                self._refuse(str(error))
            else:
                if isinstance(wish, Drain):
                    return f"the server drains: {one_line(wish.reason)}"
                if wish is not None and call is self._current:
                    self._take(wish)
            if taken > MANY_WISHES:
                await asyncio.sleep(PAUSE_S)
        raise _EndedError

    async def _settle(self, call: Call) -> None:
        await _begun(call)
        await asyncio.sleep(SETTLE_S)
        if call is self._current:
            self._tell(self._standing.end_unconfirmed())

    def _take(self, wish: CameraWish) -> None:
        if wish.camera not in set(self._cameras()):
            self._refuse(f"there is no camera {one_line(wish.camera)[:64]!r}")
        elif self._standing.take(wish):
            self._on_wish(wish)

    def _tell(self, wishes: list[CameraWish]) -> None:
        for wish in wishes:
            self._on_wish(wish)

    def _refuse(self, reason: str) -> None:
        self._refused += 1
        now_s = time.monotonic()
        if now_s - self._refusal_told_s >= REFUSAL_PERIOD_S:
            log.warning("a wish of the server is refused: %s (%d so far)", one_line(reason), self._refused)
            self._refusal_told_s = now_s


def watch_method(channel: grpc.aio.Channel) -> grpc.aio.UnaryStreamMultiCallable[bytes, bytes]:
    """Give the method as it is called."""
    return channel.unary_stream(wire.WATCH)


async def _begun(call: Call) -> None:
    """Wait until the server says that it listens, or for long enough."""
    with contextlib.suppress(TimeoutError, grpc.aio.AioRpcError):
        async with asyncio.timeout(BEGIN_TIMEOUT_S):
            await call.initial_metadata()


async def _end(call: Call, *tasks: "asyncio.Task[str] | asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    call.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
