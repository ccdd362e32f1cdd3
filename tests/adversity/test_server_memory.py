"""The memory of a server at work, and what hostile pictures do to it."""

import itertools
from pathlib import Path
from typing import Any

import grpc
import pytest
from camera_ai import detection_pb2_grpc
from camera_ai.detection_pb2 import (
    OUTCOME_BAD_IMAGE,
    OUTCOME_DETECTED,
    OUTCOME_TOO_LARGE,
    DetectRequest,
    DetectResponse,
)

from tests import footage, pictures
from tests.conftest import StartServer
from tests.memory import Memory
from tests.pictures import claim_size, encode, jpeg, png_chunk, png_header, scene

MEGABYTE = 1 << 20
# What a server with the default detector and two workers may have, ever.
MOST_BYTES = 350 * MEGABYTE


def detect_stream(channel: grpc.aio.Channel) -> Any:
    """Begin a DetectStream call."""
    stub: Any = detection_pb2_grpc.ObjectDetectionStub(channel)  # type: ignore[no-untyped-call]
    return stub.DetectStream()


async def ask(call: Any, image_data: bytes) -> DetectResponse:
    """Send a frame and wait for its answer."""
    await call.write(DetectRequest(frame_id=1, image_data=image_data, max_age_ms=60_000))
    answer: DetectResponse = await call.read()
    return answer


async def test_the_default_detector_with_two_workers_stays_small(
    start_server: StartServer, walkers: Path
) -> None:
    """Eight cameras of three sizes: at no time more than 350 MB."""
    server = start_server("--workers=2")
    memory = Memory(server.process.pid)
    small = [encode(pixels, quality=85) for pixels in itertools.islice(footage.frames(walkers), 0, 80, 10)]
    pictures_sent = [*small, pictures.jpeg(1080, 1920), pictures.jpeg(2160, 3840)]
    async with grpc.aio.insecure_channel(server.address) as channel:
        calls = [detect_stream(channel) for _ in range(8)]
        for _ in range(3):
            for image_data in pictures_sent:
                for call in calls:
                    await call.write(DetectRequest(frame_id=1, image_data=image_data, max_age_ms=60_000))
                for call in calls:
                    assert (await call.read()).outcome == OUTCOME_DETECTED

    print(f"at most {memory.peak_bytes() / MEGABYTE:.0f} MB, now {memory.resident_bytes() / MEGABYTE:.0f} MB")
    assert memory.peak_bytes() < MOST_BYTES


HOSTILE = {
    "forged jpeg": (claim_size(jpeg(), 30_000, 30_000), OUTCOME_TOO_LARGE),
    "forged png": (png_header(30_000, 30_000) + png_chunk(b"IEND", b""), OUTCOME_TOO_LARGE),
    "webp": (encode(scene(), "WEBP"), OUTCOME_BAD_IMAGE),
    "gif": (encode(scene(), "GIF"), OUTCOME_BAD_IMAGE),
    "bmp": (encode(scene(), "BMP"), OUTCOME_BAD_IMAGE),
    "tiff": (encode(scene(), "TIFF"), OUTCOME_BAD_IMAGE),
    "cut jpeg": (jpeg()[:-300], OUTCOME_BAD_IMAGE),
    "cut cmyk jpeg": (encode(scene(), "JPEG", "CMYK")[:-300], OUTCOME_BAD_IMAGE),
    "cut png": (encode(scene(), "PNG")[:-300], OUTCOME_BAD_IMAGE),
    "damaged png": (encode(scene(), "PNG").replace(b"IDAT", b"IDAX"), OUTCOME_BAD_IMAGE),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_pictures_cost_no_memory_and_fill_no_log(start_server: StartServer, name: str) -> None:
    """Two hundred of each: refused one by one, the server does not grow, and says nothing of each."""
    data, outcome = HOSTILE[name]
    server = start_server("--workers=1")
    memory = Memory(server.process.pid)
    async with grpc.aio.insecure_channel(server.address) as channel:
        call = detect_stream(channel)
        assert (await ask(call, jpeg(576, 768))).outcome == OUTCOME_DETECTED
        memory.reset_peak()
        before = memory.peak_bytes()
        for _ in range(200):
            assert (await ask(call, data)).outcome == outcome
        grown = memory.peak_bytes() - before

    assert grown < 16 * MEGABYTE
    assert len(server.errors) <= 2
