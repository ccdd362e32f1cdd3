"""ReportRecords: durable before it is acknowledged, once in effect, whatever a peer sends."""

import asyncio
import contextlib
import json
import math
import sqlite3
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import psutil
import pytest
from camera_ai import telemetry_pb2
from camera_ai.detection_pb2 import DetectRequest, DetectResponse
from camera_ai.telemetry_pb2 import MotionInterval, Reading, Record

from central_server import wire
from central_server.records import writer
from central_server.records.store import RecordStore, Retention, read_records
from tests.central_server.records.conftest import Reporter, batch, state
from tests.disks import fill
from tests.polling import until

DETECT_STREAM = "/camera_ai.ObjectDetection/DetectStream"


async def test_what_was_acknowledged_survives_a_server_that_is_killed(
    server, report, stored, start_server, data: Path
) -> None:
    """Killed right after the acknowledgement; what comes again is acknowledged again and kept once."""
    spool_id = str(uuid.uuid4())
    message = batch([state(sequence) for sequence in range(1, 101)], spool_id)
    assert (await report().send(message)).through_sequence == 100
    server.kill()
    assert [record["reason"] for record in stored()] == [str(sequence) for sequence in range(1, 101)]

    again = start_server("--detector", "simulated:1", "--data", str(data))
    async with grpc.aio.insecure_channel(again.address) as channel:
        reporter = Reporter(channel)
        ack = await reporter.send(message)
        assert (ack.through_sequence, list(ack.refused)) == (100, [])
        assert (await reporter.send(batch([state(101)], spool_id))).through_sequence == 101
        assert await reporter.end() is grpc.StatusCode.OK
    assert [record["sequence"] for record in stored()] == list(range(1, 102))


async def test_a_server_without_a_data_directory_says_so(start_server) -> None:
    """The gateway keeps its records and knows why."""
    server = start_server("--detector", "simulated:1")
    async with grpc.aio.insecure_channel(server.address) as channel:
        error = await Reporter(channel).refused(batch([state(1)]))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert error.details() == "this server keeps no records: it was started without --data"


async def test_no_record_of_another_spool_can_be_overwritten(report, stored) -> None:
    """A record is its spool's: the same sequence of another spool is another record, and content stays."""
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    reporter = report()
    await reporter.send(batch([state(1, text="mine")], first))
    await reporter.send(batch([state(1, text="yours")], second))
    ack = await reporter.send(batch([state(1, text="forged"), state(2, text="next")], first))

    assert ack.through_sequence == 2
    refused = [(item.sequence, item.reason) for item in ack.refused]
    assert refused == [(1, "another record has this sequence")]
    kept = {(record["spool_id"], record["sequence"]): record["reason"] for record in stored()}
    assert kept == {(first, 1): "mine", (second, 1): "yours", (first, 2): "next"}


BAD_BATCHES = [
    (b"\xff\xff\xff", "found 3 bytes that are no RecordBatch"),
    (b"", "found 0 records, expected 1 to 1000"),
    (batch([]), "found 0 records, expected 1 to 1000"),
    (batch([state(1)], "door"), "found spool id 'door', expected a UUID"),
    (batch([state(0)]), "found sequence 0 after 0, expected a greater one"),
    (batch([state(2), state(1)]), "found sequence 1 after 2, expected a greater one"),
    (batch([state(1), state(1)]), "found sequence 1 after 1, expected a greater one"),
    (batch([state(2**63)]), f"found sequence {2**63} after 0, expected a greater one"),
    (batch([state(n) for n in range(1, 1002)]), "found 1001 records, expected 1 to 1000"),
    (batch([state(1, text="x" * 300_000)]), "found a batch of 300087 bytes, expected at most 262144"),
    (b"\x1a\x00" * 120_000, "found 120000 records, expected 1 to 1000"),
    (b"\x1a\x00" * 1_000_000, "found a batch of 2000000 bytes, expected at most 262144"),
]


async def test_a_batch_that_is_none_ends_the_call_with_the_reason(report, stored) -> None:
    """The call ends, nothing of the batch is kept, and the next call is as welcome as any."""
    for message, reason in BAD_BATCHES:
        error = await report().refused(message)
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert error.details() == reason
    assert (await report().send(batch([state(1)]))).through_sequence == 1
    assert len(stored()) == 1


async def test_a_record_that_is_none_is_refused_and_the_others_are_kept(report, stored) -> None:
    """A refusal names the record and the reason; there is no use in sending it again."""
    records = [
        state(1),
        Record(sequence=2, camera_id="door"),
        Record(sequence=3, camera_id="x" * 129, motion=MotionInterval()),
        Record(sequence=4, motion=MotionInterval(peak_share=math.nan)),
        Record(sequence=5, reading=Reading(value=math.inf)),
        state(6, text="x" * 17_000),
        state(7),
    ]
    ack = await report().send(batch(records))
    assert ack.through_sequence == 7
    assert {item.sequence: item.reason for item in ack.refused} == {
        2: "found no body",
        3: "found a camera id of 129 characters, expected at most 128",
        4: "found a figure that is no number",
        5: "found a figure that is no number",
        6: "found 17039 bytes, expected at most 16384",
    }
    assert [record["sequence"] for record in stored()] == [1, 7]


async def test_a_record_of_a_later_version_is_kept_whole(report, stored, data: Path) -> None:
    """What this server does not know is no reason to lose it."""
    # Field 99 of a record: a message with one text.
    body = Record(sequence=1, camera_id="door", time_ns=1).SerializeToString() + b"\x9a\x06\x04\x0a\x02hi"
    message = batch([]) + b"\x1a" + bytes([len(body)]) + body
    assert (await report().send(message)).refused == []
    assert stored()[0]["kind"] == "unknown"
    with contextlib.closing(sqlite3.connect(data / "records.db")) as db:
        assert db.execute("SELECT body FROM record").fetchone()[0] == body


async def test_records_keep_the_time_that_can_be_trusted(report, stored) -> None:
    """A gateway in 1970, or in the year 2200, does not hide its records: the arrival counts for them."""
    unset = state(1, time_ns=5)
    unset.clock_trust = telemetry_pb2.CLOCK_TRUST_UNSET
    await report().send(batch([unset, state(2, time_ns=2**62), state(3, time_ns=10**18)]))
    first, second, third = sorted(stored(), key=lambda record: record["sequence"])
    assert (first["time"], first["clock"], first["gateway_time_ns"]) == (first["received"], "unset", 5)
    assert second["time"] == second["received"]
    assert third["time"] == "2001-09-09T01:46:40.000Z"


async def test_a_flood_of_silent_and_broken_calls_keeps_no_gateway_out(start_server, data: Path) -> None:
    """Beyond the number of calls those that are silent give way; memory stays."""
    server = start_server("--detector", "simulated:1", "--data", str(data), "--max-streams", "4")
    async with grpc.aio.insecure_channel(server.address) as channel:
        honest = Reporter(channel)
        spool_id = str(uuid.uuid4())
        await honest.send(batch([state(1)], spool_id))
        before_bytes = psutil.Process(server.process.pid).memory_info().rss
        for _ in range(5):
            flood = [Reporter(channel) for _ in range(20)]
            for index, reporter in enumerate(flood):
                if index % 2:
                    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, AssertionError):
                        await reporter.send(b"\x1a\x00" * 120_000)
                else:
                    await asyncio.sleep(0.01)
            for reporter in flood:
                reporter.cancel()
        again = Reporter(channel)
        assert (await again.send(batch([state(2)], spool_id))).through_sequence == 2
        grown_bytes = psutil.Process(server.process.pid).memory_info().rss - before_bytes
    assert grown_bytes < 64 << 20


async def test_who_leaves_without_reading_is_no_fault_of_ours(server, report, stored) -> None:
    """Its records are kept, and the log has no traceback of it."""
    refused = batch([Record(sequence=sequence) for sequence in range(1, 1001)])
    reporter = report()
    await reporter.send(batch([state(1)]))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            while True:  # until neither side's window has room
                await reporter._call.write(refused)
    reporter.cancel()
    await report().send(batch([state(2)]))
    assert len(stored()) == 2
    assert server.stop() == 0
    assert not [line for line in server.errors if "Traceback" in line]


async def test_frames_are_answered_while_the_disk_is_not_there(server, report, data: Path) -> None:
    """Somebody has the file locked: no record is acknowledged, detection goes on, and it mends by itself."""
    await report().send(batch([state(1)]))
    with contextlib.closing(sqlite3.connect(data / "records.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        reporter = report()
        waiting = asyncio.create_task(reporter.refused(batch([state(1)])))
        async with grpc.aio.insecure_channel(server.address) as channel:
            frames = channel.stream_stream(DETECT_STREAM)()
            answered = 0
            while not waiting.done():
                await frames.write(DetectRequest(frame_id=answered, image_data=b"any").SerializeToString())
                response = DetectResponse.FromString(await frames.read())
                assert response.frame_id == answered
                answered += 1
                await asyncio.sleep(0.01)
            frames.cancel()
        error = await waiting
        other.execute("ROLLBACK")
    assert answered > 20
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.details() == "the records cannot be stored now: database is locked"
    assert (await report().send(batch([state(1)]))).through_sequence == 1


async def test_a_damaged_file_is_kept_and_a_new_one_begun(
    server, report, start_server, data: Path, stored
) -> None:
    """Without a new start, and once: what was acknowledged is never thrown away by the program."""
    await report().send(batch([state(1)]))
    assert server.stop() == 0
    (data / "records.db").write_bytes(b"no database at all" * 1000)
    second = start_server("--detector", "simulated:1", "--data", str(data))
    async with grpc.aio.insecure_channel(second.address) as channel:
        error = await Reporter(channel).refused(batch([state(1)]))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await Reporter(channel).send(batch([state(2)]))).through_sequence == 2
    assert (data / "records.db.corrupt").read_bytes().startswith(b"no database")
    assert [record["sequence"] for record in stored()] == [2]
    assert [line for line in second.errors if "was damaged" in line]


async def test_a_file_that_was_taken_away_is_begun_anew(server, report, stored, data: Path) -> None:
    """What is acknowledged after that is in a file that can be found, and the log says so."""
    reporter = report()
    await reporter.send(batch([state(1)]))
    (data / "records.db").unlink()
    assert (await reporter.send(batch([state(2)]))).through_sequence == 2
    assert [record["sequence"] for record in stored()] == [2]
    server.kill()
    assert [record["sequence"] for record in stored()] == [2]
    assert [line for line in server.errors if "was taken away" in line]


async def test_what_is_too_old_goes_though_no_gateway_reports(data: Path, monkeypatch) -> None:
    """After a start, too: nobody has to send a record for others to go."""
    monkeypatch.setattr(writer, "PRUNE_PERIOD_S", 0.2)
    data.mkdir()  # noqa: ASYNC240
    path = data / "records.db"
    store = RecordStore(path, Retention())
    store.append([wire.parse_batch(batch([state(1)]))])
    store.close()
    keeper = writer.RecordWriter(data, Retention(max_age_s=0.1))
    keeper.start()
    await until(lambda: not read_records(path), "the record is gone", 30)
    assert await asyncio.to_thread(keeper.close)


async def test_a_drain_acknowledges_what_was_taken_and_says_why_it_ends(server, report, stored) -> None:
    """SIGTERM: the call ends with UNAVAILABLE, the server with 0."""
    reporter = report()
    await reporter.send(batch([state(1)]))
    stopping = asyncio.create_task(asyncio.to_thread(server.stop))
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await reporter._call.read()
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    assert await stopping == 0
    assert len(stored()) == 1


def test_a_data_directory_that_cannot_be_is_refused_at_the_start(start_program, tmp_path: Path) -> None:
    """One line, and the exit code of a wrong option."""
    (tmp_path / "file").write_text("")
    program = start_program(
        "central-server", "serve", "--listen", "127.0.0.1:0", "--detector", "simulated:1",
        "--data", str(tmp_path / "file" / "data"),
    )  # fmt: skip
    assert program.wait() == 2
    assert program.errors == [f"central-server: --data {tmp_path / 'file' / 'data'}: Not a directory"]


async def reports_without_end(reporter: Reporter, spool_id: str) -> AsyncIterator[int]:
    """Report batch after batch; gives what is acknowledged so far."""
    acknowledged = 0
    while True:
        records = [state(acknowledged + more, text="x" * 400) for more in range(1, 201)]
        acknowledged = (await reporter.send(batch(records, spool_id))).through_sequence
        yield acknowledged


async def test_a_full_disk_is_said_and_nothing_acknowledged_is_lost(
    start_server, small_disk: Path, start_program
) -> None:
    """Reports are refused with the reason while it lasts; detection and the acknowledged records stay."""
    server = start_server("--detector", "simulated:1", "--data", str(small_disk))
    spool_id = str(uuid.uuid4())
    acknowledged = 0
    async with grpc.aio.insecure_channel(server.address) as channel:
        reporter = Reporter(channel)
        with pytest.raises(grpc.aio.AioRpcError) as raised:  # noqa: PT012 - which of them, nobody knows
            async for acknowledged in reports_without_end(reporter, spool_id):
                assert acknowledged < 100_000
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert raised.value.details() == "the records cannot be stored now: database or disk is full"
        filler = fill(small_disk)
        again = [state(acknowledged + more, text="x" * 400) for more in range(1, 201)]
        assert (await Reporter(channel).refused(batch(again, spool_id))).code() is raised.value.code()
        filler.unlink()

    server.kill()
    program = start_program(
        "central-server", "records", "list", "--data", str(small_disk), "--json", "--limit", "100000"
    )
    assert program.wait() == 0, program.errors
    assert [json.loads(line)["sequence"] for line in program.lines] == list(range(1, acknowledged + 1))
