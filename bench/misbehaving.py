"""Clients that do not behave, each a program: `python -m bench.misbehaving KIND HOST:PORT`.

It says `ready`, and begins when a line comes on standard input.
"""

import asyncio
import itertools
import sys
from typing import Any

import grpc
from camera_ai.detection_pb2 import DetectRequest, DetectResponse

METHOD = "/camera_ai.ObjectDetection/DetectStream"
PAYLOAD = bytes(60_000)
FPS = 10.0
# Frames of each call that is left without waiting for answers.
FRAMES_LEFT = 10
LEAVE_EVERY_S = 0.2
OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)


def connect(address: str) -> grpc.aio.Channel:
    """Make a connection of its own."""
    return grpc.aio.insecure_channel(address, options=[OWN_CONNECTION])


def open_call(channel: grpc.aio.Channel) -> Any:
    """Begin a DetectStream call."""
    method: Any = channel.stream_stream(
        METHOD,
        request_serializer=DetectRequest.SerializeToString,
        response_deserializer=DetectResponse.FromString,
    )
    return method()


async def begin() -> None:
    """Wait until the measure says so."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def freezing(address: str) -> None:
    """Behave well, until somebody stops the process."""
    async with connect(address) as channel:
        call = open_call(channel)
        await call.initial_metadata()
        await begin()
        for frame_id in itertools.count(1):
            await call.write(DetectRequest(frame_id=frame_id, image_data=PAYLOAD))
            await call.read()
            await asyncio.sleep(1 / FPS)


async def deaf(address: str) -> None:
    """Send as fast as the server takes it, and never read an answer."""
    async with connect(address) as channel:
        call = open_call(channel)
        await call.initial_metadata()
        await begin()
        for frame_id in itertools.count(1):
            await call.write(DetectRequest(frame_id=frame_id, image_data=PAYLOAD))


async def leaving(address: str) -> None:
    """Connect, send some frames, and go without waiting for the answers, again and again."""
    await begin()
    while True:
        async with connect(address) as channel:
            call = open_call(channel)
            for frame_id in range(FRAMES_LEFT):
                await call.write(DetectRequest(frame_id=frame_id, image_data=PAYLOAD))
        await asyncio.sleep(LEAVE_EVERY_S)


KINDS = {"freezing": freezing, "deaf": deaf, "leaving": leaving}

if __name__ == "__main__":
    asyncio.run(KINDS[sys.argv[1]](sys.argv[2]))
