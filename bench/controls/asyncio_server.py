"""Asyncio gRPC in Python: one event loop, and the work in its default executor."""

import asyncio
import signal
from collections.abc import AsyncIterator

import grpc
from camera_ai import detection_pb2_grpc
from camera_ai.detection_pb2 import DetectRequest, DetectResponse

from bench.controls.answer import published_answer
from bench.controls.options import ControlOptions, options, parser

GRACE_S = 1.0


class Detection(detection_pb2_grpc.ObjectDetectionServicer):
    """Works on one frame of a call after the other, in a thread of the default executor."""

    def __init__(self, told: ControlOptions) -> None:
        self._told = told

    async def DetectStream(  # noqa: N802 - generated name
        self,
        request_iterator: AsyncIterator[DetectRequest],
        context: grpc.aio.ServicerContext[DetectRequest, DetectResponse],  # noqa: ARG002
    ) -> AsyncIterator[DetectResponse]:
        """Answer each frame."""
        loop = asyncio.get_running_loop()
        async for request in request_iterator:
            await loop.run_in_executor(None, self._told.work)
            yield published_answer(request.frame_id)


async def serve(told: ControlOptions) -> None:
    """Serve until SIGTERM; prints `listening HOST:PORT` once ready."""
    # SO_REUSEPORT is gRPC's default: several of these may share a port.
    server = grpc.aio.server()
    detection_pb2_grpc.add_ObjectDetectionServicer_to_server(Detection(told), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port(told.listen)
    await server.start()
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    print(told.listening(port), flush=True)
    await ending.wait()
    await server.stop(GRACE_S)


if __name__ == "__main__":
    asyncio.run(serve(options(parser("asyncio gRPC in Python").parse_args())))
