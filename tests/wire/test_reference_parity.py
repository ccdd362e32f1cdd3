"""The central server and the reference give the same answers: each checks the other."""

import asyncio
import random
import struct
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from camera_ai import detection_pb2_grpc
from camera_ai.detection_pb2 import (
    IMAGE_FORMAT_BGR24,
    IMAGE_FORMAT_GRAY8,
    IMAGE_FORMAT_JPEG,
    IMAGE_FORMAT_PNG,
    IMAGE_FORMAT_RGB24,
    OUTCOME_BAD_IMAGE,
    OUTCOME_DETECTED,
    OUTCOME_TOO_LARGE,
    DetectRequest,
    DetectResponse,
    Outcome,
)

from tests import footage, pictures
from tests.conftest import ServerProgram
from tests.pictures import (
    claim_size,
    encode,
    find_start_of_frame,
    interlaced_rows,
    jpeg,
    png,
    png_chunk,
    png_header,
    scene,
)
from tests.wire.objects import told, without_partner
from tests.wire.oracle import Candidate, Oracle, nms_margin
from tests.wire.reference import ReferenceProgram

FRAMES = 400
LEAST_SCORE = 0.5
EDGE_PX, SCORE = 1.0, 0.02
# A decision by less than this may go the other way in the other server.
MARGIN = 0.02
LEAST_SHARE = 0.995
MAX_IMAGE_BYTES = 300_000


def agree(one: Candidate, other: Candidate) -> bool:
    """Compare label, score and every edge."""
    return (
        one.label == other.label
        and abs(one.score - other.score) <= SCORE
        and all(abs(a - b) <= EDGE_PX for a, b in zip(one.edges, other.edges, strict=True))
    )


@dataclass(frozen=True, slots=True)
class Exceptional:
    """An object that only one server has, and by how little: the least margin of what was decided on it."""

    frame: int
    side: str
    object: Candidate
    margin: float


def explained(frame: int, side: str, alone: Candidate, jpeg: bytes, oracle: Oracle) -> Exceptional:
    """Find what decided on an object: its score and the threshold, or its overlap with its rivals."""
    candidates = oracle.candidates(jpeg, LEAST_SCORE - SCORE)
    by_threshold = abs(alone.score - LEAST_SCORE)
    # The oracle has the box with its fractions of pixels.
    twin = next((candidate for candidate in candidates if agree(candidate, alone)), alone)
    return Exceptional(frame, side, alone, min(by_threshold, nms_margin(twin, candidates)))


@pytest.fixture(scope="module")
def addresses() -> Iterator[tuple[str, str]]:
    """Run the central server and the reference, both with the model."""
    limits = f"--max-image-bytes={MAX_IMAGE_BYTES}"
    central, reference = ServerProgram(limits), ReferenceProgram(limits)
    yield central.address, reference.address
    reference.kill()
    central.kill()


class Pair:
    """A call to each of the servers, one frame in flight."""

    def __init__(self, channels: list[grpc.aio.Channel]) -> None:
        stubs: list[Any] = [detection_pb2_grpc.ObjectDetectionStub(channel) for channel in channels]  # type: ignore[no-untyped-call]
        self._calls = [stub.DetectStream() for stub in stubs]

    async def ask(self, frame_id: int, image_data: bytes, **fields: Any) -> list[DetectResponse]:
        """Send both the same frame; gives the central server's answer and the reference's."""
        request = DetectRequest(frame_id=frame_id, image_data=image_data, max_age_ms=60_000, **fields)

        async def ask_one(call: Any) -> DetectResponse:
            await call.write(request)
            answer: DetectResponse = await call.read()
            assert answer.frame_id == frame_id
            return answer

        return list(await asyncio.gather(*(ask_one(call) for call in self._calls)))


@pytest.fixture
async def pair(addresses: tuple[str, str]) -> AsyncIterator[Pair]:
    """Connect to both."""
    channels = [grpc.aio.insecure_channel(address) for address in addresses]
    yield Pair(channels)
    for channel in channels:
        await channel.close()


@pytest.mark.timeout(300)
async def test_both_see_the_same_objects(pair: Pair, walkers: Path) -> None:
    """In all frames: count, labels, every edge within a pixel, but for decisions on a knife's edge."""
    oracle = Oracle()
    exceptional: list[Exceptional] = []
    frames = objects = 0
    for pixels in footage.frames(walkers):
        data = pictures.encode(pixels, quality=90)
        answers = await pair.ask(frames, data)
        assert [answer.outcome for answer in answers] == [OUTCOME_DETECTED] * 2
        central, reference = (told(answer) for answer in answers)
        for side, ones, others in (("central", central, reference), ("reference", reference, central)):
            objects += len(ones)
            exceptional += [
                explained(frames, side, alone, data, oracle) for alone in without_partner(ones, others, agree)
            ]
        frames += 1

    print(f"{objects} objects of both servers in {frames} frames; only in one: {exceptional}")
    assert frames == FRAMES
    assert objects > 4 * FRAMES
    assert len(exceptional) <= (1 - LEAST_SHARE) * objects
    for one in exceptional:
        assert one.margin < MARGIN, one


BOX = Candidate("person", 0.8, (100, 100, 200, 300))


@pytest.mark.parametrize(
    ("other", "agrees"),
    [
        (BOX, True),
        (Candidate("person", 0.785, (101, 99, 200, 301)), True),
        (Candidate("car", 0.8, (100, 100, 200, 300)), False),
        (Candidate("person", 0.77, (100, 100, 200, 300)), False),
        (Candidate("person", 0.8, (102, 100, 200, 300)), False),
        (Candidate("person", 0.8, (100, 100, 200, 298)), False),
    ],
)
def test_the_comparison_tells_what_differs(other: Candidate, agrees: bool) -> None:
    """A label, a score, or an edge."""
    assert agree(BOX, other) == agrees
    assert (without_partner([BOX, BOX], [other], agree) == [BOX]) == agrees


def changed(data: bytes, at: int, *values: int) -> bytes:
    """Write other bytes into a file."""
    return data[:at] + bytes(values) + data[at + len(values) :]


def without_middle(data: bytes) -> bytes:
    """Take the second third of a JPEG's last scan out."""
    scan = data.rindex(b"\xff\xda")
    third = (len(data) - scan) // 3
    return data[: scan + third] + data[scan + 2 * third :]


def sampled(data: bytes, sampling: int) -> bytes:
    """Write another sampling of the first channel into a JPEG."""
    return changed(data, find_start_of_frame(data) + 11, sampling)


def interlaced(side: int) -> bytes:
    """Write an interlaced PNG of one colour."""
    rows = interlaced_rows(side, b"\x20\x40\x60")
    fields = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 1)
    head = png_header(side, side)[:8] + png_chunk(b"IHDR", fields)
    return head + png_chunk(b"IDAT", zlib.compress(rows)) + END


JPEG = jpeg()
PNG = encode(scene(), "PNG")
ROWS = bytes(8 * 25)
END = png_chunk(b"IEND", b"")
FRAME = find_start_of_frame(JPEG)
RGBA = b"".join(b"\0" + row.tobytes() for row in np.dstack([scene(), scene()[..., :1]]))
NOISE = random.Random(3).randbytes(400_000)
DETECTED, BAD, LARGE = OUTCOME_DETECTED, OUTCOME_BAD_IMAGE, OUTCOME_TOO_LARGE

# What is sent, its format where it is not told by its bytes, and what becomes of it.
PICTURES: dict[str, tuple[bytes, int, Outcome]] = {
    "4:4:1": (sampled(jpeg(subsampling=0), 0x14), 0, BAD),
    "baseline": (JPEG, 0, DETECTED),
    "4:4:4": (jpeg(subsampling=0), 0, DETECTED),
    "4:2:2": (jpeg(subsampling=1), 0, DETECTED),
    "4:4:0": (sampled(encode(np.full((96, 128, 3), 128, np.uint8), subsampling=1), 0x12), 0, DETECTED),
    "4:1:0": (sampled(jpeg(subsampling=0), 0x42), 0, BAD),
    "3:1:1": (sampled(jpeg(subsampling=0), 0x31), 0, BAD),
    "progressive": (jpeg(progressive=True), 0, DETECTED),
    "restart markers": (jpeg(restart_marker_blocks=3), 0, DETECTED),
    "grayscale": (encode(scene(), mode="L"), 0, DETECTED),
    "cmyk": (encode(scene(), mode="CMYK"), 0, DETECTED),
    "progressive cmyk": (encode(scene(), mode="CMYK", progressive=True), 0, DETECTED),
    "bytes behind the end": (JPEG + b"more", 0, DETECTED),
    "called jpeg": (JPEG, IMAGE_FORMAT_JPEG, DETECTED),
    "eight by eight": (jpeg(8, 8), 0, DETECTED),
    "seven by eight": (jpeg(7, 8), 0, BAD),
    "eight by seven": (jpeg(8, 7), 0, BAD),
    "one pixel": (jpeg(1, 1), 0, BAD),
    "no height": (changed(JPEG, FRAME + 5, 0, 0), 0, BAD),
    "nothing": (b"", 0, BAD),
    "a start": (b"\xff\xd8\xff", 0, BAD),
    "zeros": (bytes(100), 0, BAD),
    "cut in its header": (JPEG[:300], 0, BAD),
    "cut in its picture": (JPEG[: len(JPEG) // 2], 0, BAD),
    "without its last byte": (JPEG[:-1], 0, BAD),
    "without its end": (JPEG[:-2], 0, BAD),
    "without its middle": (without_middle(JPEG), 0, BAD),
    "progressive, cut": (jpeg(progressive=True)[:-400], 0, BAD),
    "cmyk, cut": (encode(scene(), mode="CMYK")[:-100], 0, BAD),
    "12 bits": (changed(JPEG, FRAME + 4, 12), 0, BAD),
    "lossless": (changed(JPEG, FRAME + 1, 0xC3), 0, BAD),
    "arithmetic": (changed(JPEG, FRAME + 1, 0xC9), 0, BAD),
    "arithmetic, progressive": (changed(JPEG, FRAME + 1, 0xCA), 0, BAD),
    "two frames": (JPEG[:FRAME] + JPEG[FRAME : FRAME + 19] + JPEG[FRAME:], 0, BAD),
    "no marker": (changed(JPEG, FRAME, 0), 0, BAD),
    "a marker that does not belong": (JPEG[:FRAME] + b"\xff\xdc\0\4\0\1" + JPEG[FRAME:], 0, BAD),
    "filled markers": (JPEG[:FRAME] + b"\xff" * 9 + JPEG[FRAME:], 0, DETECTED),
    "a hundred scans": (JPEG + b"\xff\xda" * 99, 0, DETECTED),
    "more than a hundred scans": (JPEG + b"\xff\xda" * 100, 0, BAD),
    "forged size": (claim_size(JPEG, 30_000, 30_000), 0, LARGE),
    "forged size, progressive": (claim_size(jpeg(progressive=True), 5000, 5000), 0, LARGE),
    "forged size, smaller": (claim_size(JPEG, 64, 48), 0, BAD),
    "forged size of 12 bits": (changed(claim_size(JPEG, 9000, 9000), FRAME + 4, 12), 0, LARGE),
    "png": (PNG, 0, DETECTED),
    "grayscale png": (encode(scene(), "PNG", "L"), 0, DETECTED),
    "bilevel png": (encode(scene(), "PNG", "1"), 0, DETECTED),
    "palette png": (encode(scene(), "PNG", "P"), 0, DETECTED),
    "png of 16 bits": (png(16, 16, 16, 2, bytes(16 * 97)), 0, DETECTED),
    "png with alpha": (png(128, 96, 8, 6, RGBA), 0, DETECTED),
    "grayscale png with alpha": (png(16, 16, 8, 4, bytes(16 * 33)), 0, DETECTED),
    "interlaced png": (interlaced(33), 0, DETECTED),
    "png, cut": (PNG[:-20], 0, BAD),
    "png without its end": (PNG[:-12], 0, BAD),
    "png with a wrong checksum": (changed(PNG, 45, PNG[45] ^ 1), 0, BAD),
    "png with a row too few": (png(8, 8, 8, 2, ROWS[:-25]), 0, BAD),
    "png with a byte too many": (png(8, 8, 8, 2, ROWS + b"\0"), 0, BAD),
    "png with an unknown filter": (png(8, 8, 8, 2, b"\5" + ROWS[1:]), 0, BAD),
    "png with a critical chunk": (png(8, 8, 8, 2, ROWS, png_chunk(b"ABCD", b"")), 0, BAD),
    "png with a damaged profile": (png(8, 8, 8, 2, ROWS, png_chunk(b"iCCP", b"k\0\0garbage")), 0, DETECTED),
    "png without a palette": (png(8, 8, 8, 3, bytes(72)), 0, BAD),
    "png of 99 bits": (png(8, 8, 99, 2, ROWS), 0, BAD),
    "forged png": (png(30_000, 30_000, 8, 2, bytes(100)), 0, LARGE),
    "png of two million columns": (png(2_000_000, 8, 8, 2, bytes(100)), 0, LARGE),
    "png of one pixel": (png(1, 1, 8, 2, bytes(4)), 0, BAD),
    "png called jpeg": (PNG, IMAGE_FORMAT_JPEG, BAD),
    "jpeg called png": (JPEG, IMAGE_FORMAT_PNG, BAD),
    "unknown format": (JPEG, 77, BAD),
    "gif": (encode(scene(), "GIF"), 0, BAD),
    "webp": (encode(scene(), "WEBP"), 0, BAD),
    "bmp": (encode(scene(), "BMP"), 0, BAD),
    "tiff": (encode(scene(), "TIFF"), 0, BAD),
    "as many bytes as may be": (JPEG + bytes(MAX_IMAGE_BYTES - len(JPEG)), 0, DETECTED),
    "a byte too many": (JPEG + bytes(MAX_IMAGE_BYTES + 1 - len(JPEG)), 0, LARGE),
    "noise": (NOISE[:5000], 0, BAD),
    "too much noise": (NOISE, 0, LARGE),
}


@pytest.mark.parametrize("name", PICTURES)
async def test_both_make_the_same_of_a_picture(pair: Pair, name: str) -> None:
    """Whatever it is; the calls go on."""
    data, image_format, outcome = PICTURES[name]
    central, reference = await pair.ask(1, data, format=image_format)

    assert Outcome.Name(central.outcome) == Outcome.Name(reference.outcome) == Outcome.Name(outcome)
    assert told(central) == told(reference)
    assert bool(central.detail) == bool(reference.detail) == (outcome != DETECTED)
    assert [answer.outcome for answer in await pair.ask(2, JPEG)] == [DETECTED, DETECTED]


RAW = scene()
RAW_FRAMES: dict[str, tuple[int, int, int, Outcome]] = {
    "rgb": (IMAGE_FORMAT_RGB24, 128, 96, DETECTED),
    "bgr": (IMAGE_FORMAT_BGR24, 128, 96, DETECTED),
    "luminance": (IMAGE_FORMAT_GRAY8, 128, 288, DETECTED),
    "a row short": (IMAGE_FORMAT_RGB24, 128, 97, BAD),
    "a column too many": (IMAGE_FORMAT_BGR24, 127, 96, BAD),
    "rgb as luminance": (IMAGE_FORMAT_GRAY8, 128, 96, BAD),
    "no size": (IMAGE_FORMAT_RGB24, 0, 0, BAD),
    "seven wide": (IMAGE_FORMAT_RGB24, 7, 96, BAD),
    "more than there can be": (IMAGE_FORMAT_RGB24, 2**32 - 1, 2**32 - 1, LARGE),
}


@pytest.mark.parametrize("name", RAW_FRAMES)
async def test_both_make_the_same_of_raw_pixels(pair: Pair, name: str) -> None:
    """Of any size that they claim."""
    image_format, width, height, outcome = RAW_FRAMES[name]
    answers = await pair.ask(1, RAW.tobytes(), format=image_format, width=width, height=height)

    assert [Outcome.Name(answer.outcome) for answer in answers] == [Outcome.Name(outcome)] * 2


@pytest.mark.parametrize("kind", ["cmyk", "grayscale", "png", "bgr", "1080p"])
async def test_both_see_the_same_in_other_pictures(pair: Pair, walkers: Path, kind: str) -> None:
    """The street in other files, and larger."""
    street = footage.frame(walkers, 300)
    fields: dict[str, int] = {}
    if kind == "cmyk":
        data = encode(street, mode="CMYK", quality=80)
    elif kind == "grayscale":
        data = encode(street, mode="L", quality=80)
    elif kind == "png":
        data = encode(street[:288, :384], "PNG")
    elif kind == "bgr":
        data = street[:288, 100:400, ::-1].tobytes()
        fields = {"format": IMAGE_FORMAT_BGR24, "width": 300, "height": 288}
    else:
        data = encode(street.repeat(3, axis=0)[:1080].repeat(3, axis=1)[:, :1920], quality=60)
    central, reference = await pair.ask(1, data, **fields)

    assert central.outcome == reference.outcome == DETECTED
    assert len(central.objects) > 0
    assert without_partner(told(central), told(reference), agree) == []
    assert without_partner(told(reference), told(central), agree) == []
