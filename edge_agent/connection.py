"""The one channel to the central server, made again whenever it is lost."""

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path

import grpc

from edge_agent.backoff import Backoff
from edge_agent.config import ServerConfig
from edge_agent.config.authorities import read_authorities
from edge_agent.errors import ConfigError, one_line
from edge_agent.watch import Watch, watch_method
from edge_agent.wish import CameraWish

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
# What a retired channel's calls have to end by themselves.
RETIRE_GRACE_S = 10.0

KEEPALIVE_MS = 20_000
# A server, or what stands before it, that finds this too often says so, and ends the connection: twice as
# long each time, up to here.
LONGEST_KEEPALIVE_MS = 640_000
TOO_MANY_PINGS = re.compile("too.many.pings", re.IGNORECASE)

CHANNEL_OPTIONS = (
    # Frames go up; what comes down is small.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", 4 << 20),
    # A peer that vanished without closing is noticed within half a minute.
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Attempts are paced here, for all cameras together; not by a pool that outlives the channel.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
)


def credentials(server: ServerConfig, authorities: bytes | None = None) -> grpc.ChannelCredentials | None:
    """Give the channel's credentials; None for plaintext, which the configuration has to have allowed.

    Args:
        server: says how the channel is to be secured.
        authorities: what the file of authorities holds; None reads it.

    Raises:
        ConfigError: the file of authorities cannot be read.

    """
    if server.ca is None:
        return grpc.ssl_channel_credentials() if server.tls else None
    try:
        return grpc.ssl_channel_credentials(authorities or read_authorities(Path(server.ca)))
    except ValueError as error:
        raise ConfigError(f"server.ca: {error}") from None


class Connection:
    """Gives the cameras a channel that is ready; retries with jittered backoff, for all of them together."""

    def __init__(
        self,
        server: ServerConfig,
        cameras: Callable[[], Iterable[str]],
        on_status: Callable[[str], None],
        *,
        authorities: bytes | None = None,
        gateway: str = "",
        on_wish: Callable[[CameraWish], None] = lambda _: None,
    ) -> None:
        self._server = server
        self._authorities = authorities
        self._credentials = credentials(server, authorities)
        self._watch = Watch(gateway, cameras, on_wish)
        self._on_status = on_status
        self._backoff = Backoff()
        self._told = ""
        self._keepalive_ms = KEEPALIVE_MS
        self._lock = asyncio.Lock()
        self._channel: grpc.aio.Channel | None = None
        self._attempting: asyncio.Task[grpc.aio.Channel | None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_up(self) -> bool:
        """Whether there is a channel that is connected, as far as is known."""
        return self._channel is not None

    async def channel(self) -> grpc.aio.Channel:
        """Wait for a channel that is connected."""
        async with self._lock:
            while self._channel is None:
                server, channel = self._server, None
                self._attempting = asyncio.create_task(self._attempt())
                try:
                    channel = await self._attempting
                except asyncio.CancelledError:
                    task = asyncio.current_task()
                    if task is not None and task.cancelling():
                        raise
                if server is self._server:
                    self._channel = channel
                elif channel is not None:
                    self._start(self._close(channel, 0.0))
            return self._channel

    def use(self, server: ServerConfig, authorities: bytes | None, gateway: str) -> None:
        """Go over to another server, or to the same one in another way: the old channel's calls end at once.

        Raises:
            ConfigError: the authorities cannot be used; nothing has changed.

        """
        is_same = (server, authorities) == (self._server, self._authorities)
        if not is_same:
            self._credentials = credentials(server, authorities)
        self._watch.rename(gateway)
        if is_same:
            return
        channel = self._channel
        if channel is not None:
            self.retire(channel, "the configuration names another server, or another way to it", 0.0)
        self._server, self._authorities = server, authorities
        self._keepalive_ms = KEEPALIVE_MS
        self._backoff = Backoff()
        self._told = ""
        if self._attempting is not None:
            self._attempting.cancel()

    def retire(self, channel: grpc.aio.Channel, reason: str, grace_s: float | None = None) -> None:
        """Use a channel for no new calls: it is lost, or its server drains; its calls may still end well."""
        if channel is not self._channel:
            return
        self._channel = None
        if TOO_MANY_PINGS.search(reason):
            self._keepalive_ms = min(2 * self._keepalive_ms, LONGEST_KEEPALIVE_MS)
            log.info("the server wants fewer pings: one in %g s from now on", self._keepalive_ms / 1e3)
        self._tell(f"not connected: {reason}")
        listening, self._listening = self._listening, None
        if listening is not None and listening is not asyncio.current_task():
            listening.cancel()
        self._start(self._close(channel, RETIRE_GRACE_S if grace_s is None else grace_s))

    def suspect(self, channel: grpc.aio.Channel, reason: str) -> None:
        """Note that a call beside the frames failed as if there were no server: leave a channel that is lost.

        One that is connected stays: such a call may fail for ever, and is not to end the frames' calls each
        time. A server that drains ends those, too, or says so.
        """
        if channel.get_state() is not grpc.ChannelConnectivity.READY:
            self.retire(channel, reason)

    def healthy(self) -> None:
        """Note a sign of life from the server."""
        self._backoff.healthy()

    def cameras_changed(self) -> None:
        """Tell the server the cameras that there are now, if they are others."""
        self._watch.cameras_changed()

    def standing_wishes(self, camera: str) -> tuple[CameraWish, ...]:
        """Give the server's wishes that stand for a camera: for one that begins anew."""
        return self._watch.standing(camera)

    async def close(self) -> None:
        """Close the channel and what belongs to it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def _attempt(self) -> grpc.aio.Channel | None:
        channel = self._make_channel()
        ready = False
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                ready = await _wait_until_connected(channel)
            if ready:
                self._tell("connected")
                self._listening = self._start(self._listen(channel))
                return channel
            reason = await self._why_not(channel)
        except TimeoutError:
            reason = f"no connection within {CONNECT_TIMEOUT_S:g} s"
        finally:
            if not ready:
                await channel.close()
        self._tell(f"not connected: {reason}")
        await asyncio.sleep(self._backoff.next_delay_s())
        return None

    def _make_channel(self) -> grpc.aio.Channel:
        options = (*CHANNEL_OPTIONS, ("grpc.keepalive_time_ms", self._keepalive_ms))
        if self._credentials is None:
            return grpc.aio.insecure_channel(self._server.address, options)
        return grpc.aio.secure_channel(self._server.address, self._credentials, options)

    async def _why_not(self, channel: grpc.aio.Channel) -> str:
        """Ask by a call, for a channel's state alone carries no reason."""
        call = watch_method(channel)(b"", timeout=1.0)
        status = await call.code()
        details = (await call.details()) or status.name
        # Of several addresses the last one's reason; before it gRPC says only that there is none.
        return one_line(details.rpartition("last error: ")[2].removeprefix("UNKNOWN: "))

    async def _listen(self, channel: grpc.aio.Channel) -> None:
        """Listen to the server's wishes; a server without them is well, too."""
        reason = await self._watch.listen(channel)
        if reason is not None:
            self.retire(channel, reason)

    async def _close(self, channel: grpc.aio.Channel, grace_s: float) -> None:
        await channel.close(grace_s)

    def _start(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _tell(self, status: str) -> None:
        if status != self._told:
            log.info("server %s %s", self._server.address, status)
        self._told = status
        self._on_status(status)


async def _wait_until_connected(channel: grpc.aio.Channel) -> bool:
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
            return False
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)
    return True
