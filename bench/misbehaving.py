"""Clients that do not behave, each a program: `python -m bench.misbehaving KIND HOST:PORT`.

It says `ready`, begins when a line comes on standard input, and from then on prints how many frames it
has sent or how many times it has left.
"""

import asyncio
import itertools
import sys
from typing import Any

import grpc
from camera_ai.detection_pb2 import DetectRequest, DetectResponse

from central_server.capacity.generator import METHOD, OWN_CONNECTION

PAYLOAD = bytes(60_000)
FPS = 10.0
# Frames of each call that is left without waiting for answers.
FRAMES_LEFT = 10
PAUSE_S = 0.2
# How often it is told what was done: whoever reads it comes after the end.
TELL_EVERY_S = 0.2


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


class Tally:
    """Counts what a client does."""

    def __init__(self) -> None:
        self.count = 0

    async def tell(self) -> None:
        """Print the count as it rises, for ever: also while the client is stuck, and few lines."""
        told = 0
        while True:
            if self.count > told:
                told = self.count
                print(told, flush=True)
            await asyncio.sleep(TELL_EVERY_S)


async def begin() -> None:
    """Wait until the measure says so."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def freezing(address: str, tally: Tally) -> None:
    """Behave well, until somebody stops the process."""
    async with connect(address) as channel:
        call = open_call(channel)
        await call.initial_metadata()
        await begin()
        for frame_id in itertools.count(1):
            await call.write(DetectRequest(frame_id=frame_id, image_data=PAYLOAD))
            await call.read()
            tally.count += 1
            await asyncio.sleep(1 / FPS)


async def deaf(address: str, tally: Tally) -> None:
    """Send as fast as the server takes it, and never read an answer."""
    async with connect(address) as channel:
        call = open_call(channel)
        await call.initial_metadata()
        await begin()
        for frame_id in itertools.count(1):
            await call.write(DetectRequest(frame_id=frame_id, image_data=PAYLOAD))
            tally.count += 1


async def leaving(address: str, tally: Tally) -> None:
    """Connect, send some frames, and go without waiting for the answers, again and again."""
    await begin()
    while True:
        async with connect(address) as channel:
            call = open_call(channel)
            for frame_id in range(FRAMES_LEFT):
                await call.write(DetectRequest(frame_id=frame_id, image_data=PAYLOAD))
        tally.count += 1
        await asyncio.sleep(PAUSE_S)


KINDS = {"freezing": freezing, "deaf": deaf, "leaving": leaving}


async def main(kind: str, address: str) -> None:
    """Misbehave until killed."""
    tally = Tally()
    telling = asyncio.create_task(tally.tell())
    try:
        await KINDS[kind](address, tally)
    finally:
        telling.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
