"""Records reach the server, whatever it and the link do; and harm nothing else when they do not."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import grpc
import pytest
from camera_ai.telemetry_pb2 import RecordAck, RecordBatch, RefusedRecord

from edge_agent.config import ServerConfig
from edge_agent.connection import Connection
from edge_agent.spool import spool as spool_module
from edge_agent.spool import uploader
from edge_agent.spool.spool import Spool
from edge_agent.spool.uploader import Uploader
from tests.edge_agent.spool import spools
from tests.edge_agent.spool.spools import record
from tests.edge_agent.streams import Context, scripted_server
from tests.polling import until

Handler = Callable[[AsyncIterator[bytes], Context], object]


class Gateway:
    """A spool, a connection and an uploader, with what the connection reports."""

    def __init__(self, address: str, path: Path) -> None:
        self.statuses: list[str] = []
        self.spool = Spool.open(path, spools.MAX_BYTES)
        self.connection = Connection(ServerConfig(address=address), lambda: ["door"], self.statuses.append)
        self.uploader = Uploader(self.connection, self.spool, "corner shop")

    def put(self, wanted: range) -> None:
        """Put records."""
        for number in wanted:
            self.spool.put(record(number))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Gateway"]:
        """Upload meanwhile."""
        task = asyncio.create_task(self.uploader.run())
        try:
            yield self
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.connection.close()
            assert await asyncio.to_thread(self.spool.close, 15.0)

    async def all_uploaded(self) -> None:
        """Wait until nothing waits any more."""
        await until(lambda: not self.spool.status().waiting, "everything is acknowledged", 30.0)


def records_taken_by(report_records: Handler) -> AbstractAsyncContextManager[str]:
    """Serve ReportRecords with behaviour that no real server has; gives the address."""
    return scripted_server(report_records=report_records)


class Taker:
    """A server that keeps what it takes; `answer` may refuse, fail or be silent for a batch."""

    def __init__(self) -> None:
        self.batches: list[RecordBatch] = []
        self.calls = 0

    async def serve(self, requests: AsyncIterator[bytes], context: Context) -> None:
        """Take batches."""
        self.calls += 1
        async for data in requests:
            batch = RecordBatch.FromString(data)
            if (ack := await self.answer(batch, context)) is not None:
                self.batches.append(batch)
                await context.write(ack.SerializeToString())

    async def answer(self, batch: RecordBatch, context: Context) -> RecordAck | None:
        """Acknowledge."""
        return RecordAck(through_sequence=batch.records[-1].sequence)

    @property
    def numbers(self) -> list[int]:
        """The numbers of all records that were taken."""
        return [
            spools.number_of(record.SerializeToString()) for batch in self.batches for record in batch.records
        ]


@pytest.fixture(autouse=True)
def scripted_servers_say_nothing_at_first(monkeypatch) -> None:
    """Do not wait for it."""
    monkeypatch.setattr(uploader, "FIRST_WORD_S", 0.02)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool.db"


async def test_records_arrive_in_order_with_the_gateways_name_and_within_bounds(path: Path) -> None:
    """Those that waited and those that come later, promptly, over one call."""
    taker = Taker()
    async with records_taken_by(taker.serve) as address, Gateway(address, path).running() as gateway:
        gateway.put(range(1000))
        await gateway.all_uploaded()
        gateway.put(range(1000, 1003))
        await gateway.all_uploaded()
        status = gateway.spool.status()

    assert taker.numbers == list(range(1003))
    assert taker.calls == 1
    assert {batch.gateway for batch in taker.batches} == {"corner shop"}
    assert max(batch.ByteSize() for batch in taker.batches) < 2 * uploader.MAX_BATCH_BYTES
    assert (status.uploaded, status.refused, status.dropped, status.waiting) == (1003, 0, 0, 0)
    assert status.last_uploaded_s is not None


async def test_a_server_that_never_acknowledges_is_left_and_nothing_is_lost(path: Path, monkeypatch) -> None:
    """After the patience the call ends; the channel stays, and what was sent is sent again."""
    monkeypatch.setattr(uploader, "ACK_PATIENCE_S", 0.3)
    monkeypatch.setattr(uploader, "CHECK_PERIOD_S", 0.1)

    class Silent(Taker):
        async def answer(self, batch: RecordBatch, context: Context) -> RecordAck | None:
            return await super().answer(batch, context) if self.calls > 2 else None

    taker = Silent()
    async with records_taken_by(taker.serve) as address, Gateway(address, path).running() as gateway:
        gateway.put(range(500))
        await until(lambda: gateway.uploader.trouble, "the trouble is told")
        assert "no acknowledgement within 0.3 s" in gateway.uploader.trouble
        await gateway.all_uploaded()
        assert gateway.uploader.trouble == ""
        assert gateway.statuses == ["connected"]

    assert taker.numbers == list(range(500))


async def test_an_old_server_without_telemetry_is_asked_rarely(path: Path, monkeypatch, caplog) -> None:
    """It is said once, the channel stays, and another connection is tried at once."""
    monkeypatch.setattr(uploader, "POLL_S", 0.05)
    caplog.set_level("INFO")
    async with scripted_server() as address, Gateway(address, path).running() as gateway:
        gateway.put(range(5))
        await until(lambda: gateway.uploader.trouble, "the trouble is told")
        assert gateway.uploader.trouble == "the server is of a version that takes no records"
        assert gateway.uploader.unwanted
        await asyncio.sleep(0.5)
        assert gateway.statuses == ["connected"]
        assert gateway.spool.status().waiting == 5
    assert len([line for line in caplog.messages if "records wait" in line]) == 1


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN]
)
async def test_a_server_that_fails_is_tried_again_and_the_channel_stays(
    path: Path, code: grpc.StatusCode
) -> None:
    """Its failure is no matter of the cameras, who use the same channel."""

    class Failing(Taker):
        async def answer(self, batch: RecordBatch, context: Context) -> RecordAck | None:
            if self.calls < 3:
                await context.abort(code, "the disk is full")
            return await super().answer(batch, context)

    taker = Failing()
    async with records_taken_by(taker.serve) as address, Gateway(address, path).running() as gateway:
        gateway.put(range(5))
        await gateway.all_uploaded()
        assert gateway.statuses == ["connected"]
    assert taker.numbers == list(range(5))


async def test_a_call_that_is_refused_as_unavailable_leaves_the_channel_to_the_frames(path: Path) -> None:
    """It is tried again over the same one: what stands before a server may refuse this call alone."""

    class Draining(Taker):
        async def answer(self, batch: RecordBatch, context: Context) -> RecordAck | None:
            if self.calls == 1:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is draining")
            return await super().answer(batch, context)

    taker = Draining()
    async with records_taken_by(taker.serve) as address, Gateway(address, path).running() as gateway:
        gateway.put(range(5))
        await gateway.all_uploaded()
        assert gateway.statuses == ["connected"]
    assert taker.numbers == list(range(5))


async def test_refused_records_are_counted_and_not_sent_again(path: Path) -> None:
    """What the server will never take does not come back."""

    class Choosy(Taker):
        async def answer(self, batch: RecordBatch, context: Context) -> RecordAck | None:
            refused = [
                RefusedRecord(sequence=item.sequence, reason="no\x1b[31m") for item in batch.records[:2]
            ]
            return RecordAck(through_sequence=batch.records[-1].sequence, refused=refused)

    taker = Choosy()
    async with records_taken_by(taker.serve) as address, Gateway(address, path).running() as gateway:
        gateway.put(range(10))
        await gateway.all_uploaded()
        status = gateway.spool.status()
    assert (status.refused, status.uploaded) == (2, 8)
    assert len(taker.batches) == 1


async def test_one_record_that_ends_every_call_is_found_and_left_out(path: Path) -> None:
    """A batch that is refused as a whole is sent record by record; the others arrive."""

    class Allergic(Taker):
        async def answer(self, batch: RecordBatch, context: Context) -> RecordAck | None:
            if 41 in [spools.number_of(item.SerializeToString()) for item in batch.records]:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "found 41")
            return await super().answer(batch, context)

    taker = Allergic()
    async with records_taken_by(taker.serve) as address, Gateway(address, path).running() as gateway:
        gateway.put(range(100))
        await gateway.all_uploaded()
        assert gateway.spool.status().refused == 1
    assert sorted(set(taker.numbers)) == [number for number in range(100) if number != 41]


@pytest.mark.parametrize("answer", [b"\xff\xff\xff", RecordAck(through_sequence=7777).SerializeToString()])
async def test_nonsense_is_no_acknowledgement(path: Path, answer: bytes) -> None:
    """Bytes that are no message, and an acknowledgement that was not due, lose nothing; calls are paced."""
    calls = 0

    async def nonsense(requests: AsyncIterator[bytes], context: Context) -> None:
        nonlocal calls
        calls += 1
        async for _ in requests:
            await context.write(answer)

    async with records_taken_by(nonsense) as address, Gateway(address, path).running() as gateway:
        gateway.put(range(5))
        await until(lambda: calls >= 3, "it tries again")
        assert gateway.spool.status().waiting == 5
        assert gateway.statuses == ["connected"]
        assert calls < 20


async def test_a_server_that_ends_each_call_at_once_is_not_met_by_a_storm(path: Path) -> None:
    """An end without a word counts as a failure."""
    calls = 0

    async def ending(requests: AsyncIterator[bytes], context: Context) -> None:
        nonlocal calls
        calls += 1

    async with records_taken_by(ending) as address, Gateway(address, path).running() as gateway:
        gateway.put(range(5))
        begun_s = time.monotonic()
        await until(lambda: calls >= 3, "several attempts")
        # The first three delays are of a quarter of a second and more, each at least half its length.
        assert time.monotonic() - begun_s >= 0.125 + 0.25
        # What a write into a call that has just ended fails with is gRPC's affair.
        assert gateway.uploader.trouble in ("the server ended the call", "Internal error from Core")


async def test_a_call_without_records_is_ended_and_begun_again_when_there_are_some(
    path: Path, monkeypatch
) -> None:
    """A quiet gateway keeps no call open."""
    monkeypatch.setattr(uploader, "IDLE_S", 0.3)
    monkeypatch.setattr(uploader, "POLL_S", 0.1)
    taker = Taker()
    async with records_taken_by(taker.serve) as address, Gateway(address, path).running() as gateway:
        for start in (0, 5):
            gateway.put(range(start, start + 5))
            await gateway.all_uploaded()
            await asyncio.sleep(0.5)
        assert gateway.uploader.trouble == ""
    assert taker.numbers == list(range(10))
    assert taker.calls == 2


async def test_what_the_disk_does_not_take_is_uploaded_from_memory(path: Path, monkeypatch) -> None:
    """A flash that has died keeps no record from the server."""
    monkeypatch.setattr(spool_module, "OVERTAKE_S", 0.5)
    path.mkdir()  # noqa: ASYNC240 - before anything runs
    taker = Taker()
    async with records_taken_by(taker.serve) as address, Gateway(address, path).running() as gateway:
        gateway.put(range(20))
        await gateway.all_uploaded()
        assert "cannot be opened" in gateway.spool.status().trouble
    assert taker.numbers == list(range(20))
