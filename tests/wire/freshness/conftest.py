"""A client of the whole contract, and servers with work of a known length."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import pytest
from camera_ai import detection_pb2_grpc
from camera_ai.detection_pb2 import DetectRequest, DetectResponse, Outcome

from tests.conftest import ServerProgram

# No call of a test takes as long as this: one that hangs fails, and says where.
CALL_TIMEOUT_S = 60.0


class Call:
    """One DetectStream call; a task of its own reads, and keeps the answers by frame id."""

    def __init__(self, grpc_call: Any) -> None:
        self.grpc = grpc_call
        self.answers: dict[int, DetectResponse] = {}
        self.sent = 0
        self._answered = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
            while (answer := await self.grpc.read()) is not grpc.aio.EOF:
                async with self._answered:
                    assert answer.frame_id < self.sent, f"nobody asked for {answer.frame_id}"
                    assert answer.frame_id not in self.answers, f"a second answer to {answer.frame_id}"
                    self.answers[answer.frame_id] = answer
                    self._answered.notify_all()

    async def send(self, image_data: bytes = b"any bytes", **fields: Any) -> int:
        """Send the next frame; gives its id, counted from 0."""
        frame_id = self.sent
        self.sent += 1
        await self.grpc.write(DetectRequest(frame_id=frame_id, image_data=image_data, **fields))
        return frame_id

    async def answer(self, frame_id: int) -> DetectResponse:
        """Wait for the answer to a frame."""
        async with asyncio.timeout(CALL_TIMEOUT_S), self._answered:
            await self._answered.wait_for(lambda: frame_id in self.answers or self._reader.done())
        return self.answers[frame_id]

    async def ask(self, image_data: bytes = b"any bytes", **fields: Any) -> DetectResponse:
        """Send a frame and wait for its answer."""
        return await self.answer(await self.send(image_data, **fields))

    async def end(self) -> None:
        """Half-close and read up to the end; every frame has its one answer then."""
        await self.grpc.done_writing()
        async with asyncio.timeout(CALL_TIMEOUT_S):
            await self._reader
        assert sorted(self.answers) == list(range(self.sent))
        assert await self.grpc.code() is grpc.StatusCode.OK

    @property
    def outcomes(self) -> dict[int, str]:
        """What became of each frame that is answered, by id."""
        return {number: Outcome.Name(answer.outcome) for number, answer in sorted(self.answers.items())}

    def count(self) -> Counter[str]:
        """Count the outcomes."""
        return Counter(self.outcomes.values())

    async def refusal(self) -> tuple[grpc.StatusCode, str]:
        """Wait for the end of a call that is refused: status and text."""
        return await self.grpc.code(), await self.grpc.details()


class Client:
    """One channel to a server."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.aio.insecure_channel(address)
        self._stub: Any = detection_pb2_grpc.ObjectDetectionStub(self.channel)  # type: ignore[no-untyped-call]

    def call(self, **metadata: str) -> Call:
        """Begin a call; metadata keys are written with hyphens."""
        pairs = [(key.replace("_", "-"), value) for key, value in metadata.items()]
        return Call(self._stub.DetectStream(timeout=CALL_TIMEOUT_S, metadata=pairs))


Connect = Callable[[ServerProgram], Client]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Connect to servers; the channels are closed after the test."""
    clients: list[Client] = []

    def connect(server: ServerProgram) -> Client:
        clients.append(Client(server.address))
        return clients[-1]

    yield connect
    for client in clients:
        await client.channel.close()


def running(*options: str) -> Iterator[ServerProgram]:
    """Run a server for several tests."""
    program = ServerProgram(*options)
    try:
        yield program
    finally:
        program.kill()


@pytest.fixture(scope="session")
def busy_server() -> Iterator[ServerProgram]:
    """Run a server whose only worker takes 300 ms for a frame: what is sent meanwhile has to wait."""
    yield from running("--detector=simulated:300", "--workers=1")


@pytest.fixture(scope="session")
def quick_server() -> Iterator[ServerProgram]:
    """Run a server whose only worker takes 5 ms for a frame."""
    yield from running("--detector=simulated:5", "--workers=1")


@pytest.fixture(scope="session")
def seeing_server() -> Iterator[ServerProgram]:
    """Run a server with the default detector."""
    yield from running("--max-age-ms=60000")
