"""Sends what the spool holds to the central server, over the cameras' connection and after their frames."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from dataclasses import dataclass

import grpc

from edge_agent import wire
from edge_agent.backoff import Backoff
from edge_agent.connection import Connection
from edge_agent.errors import one_line
from edge_agent.spool.rows import Batch, Position
from edge_agent.spool.spool import Spool

log = logging.getLogger(__name__)

# Small, for a thin uplink carries frames, too: both together are half a second of 500 kbit/s.
MAX_BATCH_BYTES = 16 << 10
MAX_BATCH_RECORDS = 200
MAX_UNACKNOWLEDGED = 2
# The server may wait for a disk that is slow or locked; after that its silence counts as a failure.
ACK_PATIENCE_S = 60.0
CHECK_PERIOD_S = 1.0
# How often to look, where no news came.
POLL_S = 5.0
# A call that has nothing to send is ended.
IDLE_S = 60.0
END_TIMEOUT_S = 10.0
# A server may say at once that it takes the call, or why not; one that does not is not waited for.
FIRST_WORD_S = 0.3
# A server that keeps no records is asked again when the connection is a new one, else this rarely.
RARELY_S = 900.0

Call = grpc.aio.StreamStreamCall[bytes, bytes]


class BadAckError(Exception):
    """The server does not acknowledge, or acknowledges what was not sent."""


@dataclass(frozen=True, slots=True)
class _Sent:
    batch: Batch
    sent_s: float


class Uploader:
    """Uploads until cancelled; whatever becomes of its calls is no matter of the cameras.

    Attributes:
        trouble: why records do not arrive, in plain words; empty while they do.
        unwanted: whether that is because the server keeps none, which is its choice.
        gateway: the name that goes with them, for people.

    """

    def __init__(self, connection: Connection, spool: Spool, gateway: str) -> None:
        self.trouble = ""
        self.unwanted = False
        self.gateway = gateway
        self._connection = connection
        self._spool = spool
        self._backoff = Backoff()
        self._news = asyncio.Event()
        self._sent: deque[_Sent] = deque()
        self._room = asyncio.Event()
        self._position = Position()
        self._window = 1
        # A batch that is refused as a whole is sent again record by record, to find the one that is to blame:
        # how many are still to be sent so.
        self._singly = 0

    async def run(self) -> None:
        """Upload whenever there is something and a server that takes it."""
        loop = asyncio.get_running_loop()
        self._spool.on_news(lambda: _wake(loop, self._news))
        while True:
            channel: grpc.aio.Channel | None = None
            try:
                await self._something_to_send()
                channel = await self._connection.channel()
                reason, rarely = await self._one_call(channel)
            except Exception as error:  # a fault of ours in the uploader is not to end it for good
                log.exception("records: the upload failed")
                reason, rarely = f"internal error: {type(error).__name__}", False
            self.unwanted = rarely
            self._tell(reason)
            if rarely and channel is not None:
                await self._wait_for_another(channel)
            elif reason:
                await asyncio.sleep(self._backoff.next_delay_s())

    async def _something_to_send(self) -> None:
        self._news.clear()
        while not self._spool.status().waiting:
            await self._next_news()
            self._news.clear()

    async def _next_news(self) -> None:
        try:
            async with asyncio.timeout(POLL_S):
                await self._news.wait()
        except TimeoutError:
            return

    async def _one_call(self, channel: grpc.aio.Channel) -> tuple[str, bool]:
        """Send over one call until it ends.

        Returns:
            Why it ended, empty for well; and whether it is of little use to try again.

        """
        self._sent.clear()
        # Nothing is written after the batch that a call may be refused for: that would hide the reason.
        self._window = 1
        self._room.set()
        self._position = Position()
        begun_s = time.monotonic()
        call: Call = channel.stream_stream(wire.REPORT_RECORDS)()
        try:
            if await self._exchange(call):
                return "", False
        except grpc.aio.AioRpcError as error:
            return self._failed(channel, error)
        except (BadAckError, wire.BadMessageError) as error:
            return str(error), False
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return "its channel was closed", False
        finally:
            call.cancel()
        # It may end a call that has nothing to say, to make room for another.
        lasted = time.monotonic() - begun_s >= CHECK_PERIOD_S
        return ("" if lasted and not self._sent else "the server ended the call"), False

    def _failed(self, channel: grpc.aio.Channel, error: grpc.aio.AioRpcError) -> tuple[str, bool]:
        reason = one_line(error.details() or error.code().name)
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            self._connection.suspect(channel, reason)
        elif error.code() is grpc.StatusCode.INVALID_ARGUMENT:
            self._narrow(reason)
        elif error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return "the server is of a version that takes no records", True
        return reason, error.code() is grpc.StatusCode.FAILED_PRECONDITION

    def _narrow(self, reason: str) -> None:
        """Find the record that the server takes for no record, and leave it out."""
        if not self._sent:
            return
        batch = self._sent[0].batch
        if len(batch.rows) > 1:
            self._singly = len(batch.rows)
            return
        self._singly = 0
        log.error("the server refuses record %d for good: %s", batch.last_sequence, reason)
        self._spool.acknowledge(batch, refused=len(batch.rows))

    async def _exchange(self, call: Call) -> bool:
        """Send and read until the call ends; True when it was ended here, for want of records."""
        tasks = [asyncio.create_task(work) for work in (self._read(call), self._send(call), self._check())]
        reader, sender, _ = tasks
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            # The sender's end is a half-close, or the call's own end: then the reader is told why.
            async with asyncio.timeout(END_TIMEOUT_S):
                await reader
            return sender in done and bool(sender.result())
        except TimeoutError:
            raise BadAckError(f"the server did not end the call within {END_TIMEOUT_S:g} s") from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, call: Call) -> bool:
        """Send until the call ends, or is ended here: then True."""
        # A write into a call that has just been refused would hide the reason.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_WORD_S):
                await call.initial_metadata()
        idle_since_s = time.monotonic()
        while time.monotonic() - idle_since_s < IDLE_S or self._sent:
            await self._room.wait()
            self._news.clear()
            most = 1 if self._singly else MAX_BATCH_RECORDS
            batch = await asyncio.wrap_future(self._spool.take(self._position, most, MAX_BATCH_BYTES))
            if batch is None:
                await self._next_news()
                continue
            idle_since_s = time.monotonic()
            self._position = batch.end
            self._sent.append(_Sent(batch, idle_since_s))
            if len(self._sent) >= self._window:
                self._room.clear()
            records = ((row.sequence, row.body) for row in batch.rows)
            try:
                await call.write(wire.build_batch(batch.spool_id, self.gateway, records))
            except (asyncio.InvalidStateError, grpc.aio.AioRpcError):
                return False
        await call.done_writing()
        return True

    async def _read(self, call: Call) -> None:
        while isinstance(data := await call.read(), bytes):  # else grpc.aio.EOF
            through_sequence, refused = wire.parse_ack(data)
            if not self._sent or self._sent[0].batch.last_sequence != through_sequence:
                raise BadAckError(f"found an acknowledgement up to {through_sequence}, which was not due")
            batch = self._sent.popleft().batch
            for sequence, reason in refused:
                log.warning("the server refuses record %d: %s", sequence, reason)
            self._spool.acknowledge(batch, min(len(refused), len(batch.rows)))
            self._singly = max(0, self._singly - len(batch.rows))
            self._window = MAX_UNACKNOWLEDGED
            self._backoff.healthy()
            self.unwanted = False
            self._connection.healthy()
            self._tell("")
            self._room.set()

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(CHECK_PERIOD_S)
            if self._sent and time.monotonic() - self._sent[0].sent_s > ACK_PATIENCE_S:
                raise BadAckError(f"no acknowledgement within {ACK_PATIENCE_S:g} s")

    async def _wait_for_another(self, channel: grpc.aio.Channel) -> None:
        """Wait for another connection, which may be to another server, but no longer than is rare."""
        until_s = time.monotonic() + RARELY_S
        while time.monotonic() < until_s:
            await asyncio.sleep(POLL_S)
            try:
                async with asyncio.timeout(max(0.0, until_s - time.monotonic())):
                    if await self._connection.channel() is not channel:
                        return
            except TimeoutError:
                return

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            if trouble:
                level = logging.INFO if self.unwanted else logging.WARNING
                log.log(level, "records wait on this gateway: %s", trouble)
            else:
                log.info("records are uploaded again")
        self.trouble = trouble


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(event.set)
    except RuntimeError:  # the loop has closed: the agent is ending
        return
