"""A client that knows only the four published messages, whoever the server is."""

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc  # type: ignore[import-untyped]

METHOD = "/camera_ai.ObjectDetection/DetectStream"
# No call of a test takes as long as this: one that hangs fails, and says where.
CALL_TIMEOUT_S = 60.0


class Messages:
    """The published messages, compiled into a pool of their own: the project's have the same names."""

    def __init__(self, folder: Path) -> None:
        here = Path(__file__).parent
        compiled = folder / "published.bin"
        arguments = ["protoc", f"-I{here}", f"--descriptor_set_out={compiled}", str(here / "published.proto")]
        assert protoc.main(arguments) == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        self.request: Any = self._class(pool, "DetectRequest")
        self.response: Any = self._class(pool, "DetectResponse")

    @staticmethod
    def _class(pool: descriptor_pool.DescriptorPool, name: str) -> Any:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"camera_ai.{name}"))


class Client:
    """One channel to a server."""

    def __init__(self, address: str, messages: Messages) -> None:
        self.channel = grpc.aio.insecure_channel(
            address, options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        )
        self._messages = messages
        self._method: Any = self.channel.stream_stream(
            METHOD,
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=messages.response.FromString,
        )
        self._raw_method: Any = self.channel.stream_stream(
            METHOD, response_deserializer=messages.response.FromString
        )

    def call(self, **options: Any) -> "Call":
        """Begin a DetectStream call."""
        return Call(self._method(timeout=CALL_TIMEOUT_S, **options), self._messages)

    def raw_call(self, **options: Any) -> "Call":
        """Begin a call whose messages are sent with `send_bytes`."""
        return Call(self._raw_method(timeout=CALL_TIMEOUT_S, **options), self._messages)


class CallEndedError(Exception):
    """The server has ended the call; the text is its status."""


class Call:
    """One DetectStream call, one frame after the other."""

    def __init__(self, call: Any, messages: Messages) -> None:
        self.grpc = call
        self._messages = messages

    async def send(self, frame_id: int, image_data: bytes = b"any bytes") -> None:
        """Send a frame."""
        await self.grpc.write(self._messages.request(frame_id=frame_id, image_data=image_data))

    async def send_bytes(self, message: bytes) -> None:
        """Send what no request of the contract can say; the server may end the call meanwhile."""
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self.grpc.write(message)

    async def receive(self) -> Any:
        """Wait for the next answer, or grpc.aio.EOF at the end, whatever the end is."""
        try:
            return await self.grpc.read()
        except grpc.aio.AioRpcError:
            return grpc.aio.EOF

    async def ask(self, frame_id: int, image_data: bytes = b"any bytes") -> Any:
        """Send a frame and wait for its answer, with no other frame in flight.

        Raises:
            CallEndedError: instead of an answer.

        """
        # Where the call has ended, the read says so too.
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self.send(frame_id, image_data)
        answer = await self.receive()
        if answer is grpc.aio.EOF:
            raise CallEndedError(f"{await self.grpc.code()}: {await self.grpc.details()}")
        assert answer.frame_id == frame_id
        return answer

    async def half_close(self) -> None:
        """Say that no more frames will come."""
        await self.grpc.done_writing()

    async def rest(self) -> list[Any]:
        """Half-close and give all answers up to the end."""
        await self.half_close()
        answers = []
        while (answer := await self.receive()) is not grpc.aio.EOF:
            answers.append(answer)
        return answers

    async def code(self) -> grpc.StatusCode:
        """Wait for the status that the call ends with."""
        code: grpc.StatusCode = await self.grpc.code()
        return code

    def cancel(self) -> None:
        """Go away without a word."""
        self.grpc.cancel()


def in_words(objects: Iterable[Any]) -> list[tuple[str, float, int, int, int, int]]:
    """Give objects as label, confidence (two places), x, y, width, height."""
    return [
        (o.label, round(o.confidence, 2), o.bbox.x, o.bbox.y, o.bbox.width, o.bbox.height) for o in objects
    ]
