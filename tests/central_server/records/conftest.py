"""Clients of ReportRecords that say whatever a test wants, and the records that a server has stored."""

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from camera_ai import telemetry_pb2
from camera_ai.telemetry_pb2 import Record, RecordAck, RecordBatch

from tests.conftest import ServerProgram, StartProgram, StartServer

REPORT_RECORDS = "/camera_ai.Telemetry/ReportRecords"


def state(sequence: int, camera: str = "door", text: str = "", time_ns: int | None = None) -> Record:
    """Make a camera's state as a record."""
    return Record(
        sequence=sequence,
        camera_id=camera,
        time_ns=time.time_ns() if time_ns is None else time_ns,
        clock_trust=telemetry_pb2.CLOCK_TRUST_GOOD,
        camera_state=telemetry_pb2.CameraStateChange(state="streaming", reason=text or str(sequence)),
    )


def batch(records: list[Record], spool_id: str | None = None, gateway: str = "shop") -> bytes:
    """Make a batch."""
    return RecordBatch(
        spool_id=spool_id or str(uuid.uuid4()), gateway=gateway, records=records
    ).SerializeToString()


class Reporter:
    """One call of ReportRecords."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._call = channel.stream_stream(REPORT_RECORDS)()

    async def send(self, message: bytes) -> RecordAck:
        """Send a batch and wait for its acknowledgement."""
        # Told before anything is sent: a write into a call that is refused would hide the reason.
        await self._call.initial_metadata()
        with contextlib.suppress(asyncio.InvalidStateError):  # refused: reading tells why
            await self._call.write(message)
        answer = await self._call.read()
        assert isinstance(answer, bytes), "the call has ended"
        return RecordAck.FromString(answer)

    async def refused(self, message: bytes) -> grpc.aio.AioRpcError:
        """Send what ends the call; gives how it ended."""
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await self.send(message)
        return raised.value

    async def end(self) -> grpc.StatusCode:
        """Half-close and wait for the end."""
        await self._call.done_writing()
        return await self._call.code()

    def cancel(self) -> None:
        """Be gone."""
        self._call.cancel()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Give a data directory that is not there yet."""
    return tmp_path / "data"


@pytest.fixture
def server(start_server: StartServer, data: Path) -> ServerProgram:
    """Run a server that keeps records."""
    return start_server("--detector", "simulated:1", "--data", str(data))


@pytest.fixture
async def report(server: ServerProgram) -> AsyncIterator[Callable[[], Reporter]]:
    """Give new calls to the server."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield lambda: Reporter(channel)


@pytest.fixture
def stored(start_program: StartProgram, data: Path) -> Callable[..., list[dict[str, Any]]]:
    """Give the records that `records list` tells of."""

    def listed(*options: str) -> list[dict[str, Any]]:
        program = start_program(
            "central-server", "records", "list", "--data", str(data), "--json", "--limit", "100000", *options
        )
        assert program.wait() == 0, program.errors
        return [json.loads(line) for line in program.lines]

    return listed
