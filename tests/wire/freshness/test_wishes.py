"""What a client may ask for, and what becomes of pictures that are not what they claim to be."""

from collections import Counter
from pathlib import Path

import grpc
import pytest
from camera_ai.detection_pb2 import (
    IMAGE_FORMAT_BGR24,
    IMAGE_FORMAT_GRAY8,
    IMAGE_FORMAT_JPEG,
    IMAGE_FORMAT_PNG,
    IMAGE_FORMAT_RGB24,
    OUTCOME_BAD_IMAGE,
    OUTCOME_DETECTED,
    OUTCOME_TOO_LARGE,
    DetectResponse,
)

from tests import footage
from tests.conftest import ServerProgram
from tests.pictures import claim_size, encode, jpeg, scene
from tests.wire.freshness.conftest import Connect


@pytest.fixture(scope="session")
def street(walkers: Path) -> bytes:
    """Give the picture of seven people and two parked cars, losslessly."""
    return encode(footage.frame(walkers, 300), "PNG")


def labels_of(answer: DetectResponse) -> Counter[str]:
    return Counter(found.label for found in answer.objects)


async def test_without_wishes_everything_is_told(
    seeing_server: ServerProgram, connect: Connect, street: bytes
) -> None:
    """All labels, from the server's least score on."""
    answer = await connect(seeing_server).call().ask(street)

    assert labels_of(answer) == {"person": 7, "car": 2}
    assert answer.outcome == OUTCOME_DETECTED


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ("person", {"person": 7}),
        ("car", {"car": 2}),
        ("car,person", {"person": 7, "car": 2}),
        ("traffic%20light,car", {"car": 2}),
        ("bird", {}),
    ],
)
async def test_only_the_labels_asked_for(
    seeing_server: ServerProgram, connect: Connect, street: bytes, labels: str, found: dict[str, int]
) -> None:
    """Labels are percent-encoded and separated by commas."""
    call = connect(seeing_server).call(camera_ai_labels=labels)

    assert labels_of(await call.ask(street)) == found


async def test_only_the_scores_asked_for(
    seeing_server: ServerProgram, connect: Connect, street: bytes
) -> None:
    """A call's own least score holds for all of its frames, lower than the server's or higher."""
    client = connect(seeing_server)
    usual = await client.call().ask(street)
    high = await client.call(camera_ai_min_score="0.8").ask(street)
    low = await client.call(camera_ai_min_score="0.2").ask(street)

    scores = [found.confidence for found in usual.objects]
    assert [found.confidence for found in high.objects] == [score for score in scores if score >= 0.8]
    assert len(low.objects) > len(scores)
    assert min(found.confidence for found in low.objects) >= 0.2


async def test_an_unknown_label_is_refused_with_the_known_ones(
    seeing_server: ServerProgram, connect: Connect
) -> None:
    """Better than never finding what was misspelt."""
    call = connect(seeing_server).call(camera_ai_labels="person,perosn")
    code, text = await call.refusal()

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith("camera-ai-labels: found perosn, expected some of: person, bicycle, car")
    assert text.endswith("toothbrush")


async def test_a_refusal_fits_into_a_status(seeing_server: ServerProgram, connect: Connect) -> None:
    """Whoever asks for a thousand unknown labels is told of some of them."""
    call = connect(seeing_server).call(camera_ai_labels=",".join(f"no{number}" for number in range(1000)))
    code, text = await call.refusal()

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith("camera-ai-labels: found no0, no1, no10, ")
    assert "…, expected some of: person, bicycle" in text


@pytest.mark.parametrize("score", ["", "much", "-0.1", "1.1", "nan", "50%"])
async def test_a_score_that_is_none_is_refused(
    quick_server: ServerProgram, connect: Connect, score: str
) -> None:
    """With what was found and what was expected."""
    code, text = await connect(quick_server).call(camera_ai_min_score=score).refusal()

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text == f"camera-ai-min-score: found {score!r}, expected a number from 0 to 1"


RGB = scene(96, 128)
PNG = encode(RGB, "PNG")


def raw(image_format: int, width: int, height: int) -> dict[str, int]:
    return {"format": image_format, "width": width, "height": height}


GOOD_PICTURES: dict[str, tuple[bytes, dict[str, int]]] = {
    "png": (PNG, {}),
    "png called png": (PNG, {"format": IMAGE_FORMAT_PNG}),
    "jpeg called jpeg": (jpeg(), {"format": IMAGE_FORMAT_JPEG}),
    "jpeg with a size that does not count": (jpeg(), {"width": 1, "height": 1}),
    "rgb": (RGB.tobytes(), raw(IMAGE_FORMAT_RGB24, 128, 96)),
    "bgr": (RGB.tobytes(), raw(IMAGE_FORMAT_BGR24, 128, 96)),
    "luminance": (RGB.tobytes(), raw(IMAGE_FORMAT_GRAY8, 128, 288)),
}
REFUSED_PICTURES: dict[str, tuple[bytes, dict[str, int], int, str]] = {
    "nothing": (b"", {}, OUTCOME_BAD_IMAGE, "found no bytes, expected JPEG or PNG"),
    "zeros": (b"\0" * 100, {}, OUTCOME_BAD_IMAGE, "bytes that begin 00 00"),
    "cut jpeg": (jpeg()[:-200], {}, OUTCOME_BAD_IMAGE, "damaged JPEG of 128 x 96"),
    "one pixel": (jpeg(1, 1), {}, OUTCOME_BAD_IMAGE, "found 1 x 1 pixels"),
    "png called jpeg": (
        encode(RGB, "PNG"),
        {"format": IMAGE_FORMAT_JPEG},
        OUTCOME_BAD_IMAGE,
        "expected JPEG",
    ),
    "jpeg called png": (jpeg(), {"format": IMAGE_FORMAT_PNG}, OUTCOME_BAD_IMAGE, "expected PNG"),
    "unknown format": (jpeg(), {"format": 77}, OUTCOME_BAD_IMAGE, "does not know"),
    "webp": (encode(RGB, "WEBP"), {}, OUTCOME_BAD_IMAGE, "expected JPEG or PNG"),
    "rgb, a row short": (RGB.tobytes(), raw(IMAGE_FORMAT_RGB24, 128, 97), OUTCOME_BAD_IMAGE, "= 37248"),
    "rgb as luminance": (RGB.tobytes(), raw(IMAGE_FORMAT_GRAY8, 128, 96), OUTCOME_BAD_IMAGE, "= 12288"),
    "rgb without a size": (RGB.tobytes(), {"format": IMAGE_FORMAT_RGB24}, OUTCOME_BAD_IMAGE, "0 x 0"),
    "forged size": (claim_size(jpeg(), 30_000, 30_000), {}, OUTCOME_TOO_LARGE, "= 900000000 pixels"),
    "too many bytes": (bytes((4 << 20) + 1), {}, OUTCOME_TOO_LARGE, "4194305 bytes"),
}


@pytest.mark.parametrize("name", GOOD_PICTURES)
async def test_a_picture_that_is_what_it_claims_is_looked_at(
    seeing_server: ServerProgram, connect: Connect, name: str
) -> None:
    """JPEG, PNG and raw pixels."""
    data, fields = GOOD_PICTURES[name]
    answer = await connect(seeing_server).call().ask(data, **fields)

    assert (answer.outcome, answer.detail) == (OUTCOME_DETECTED, "")


@pytest.mark.parametrize("name", REFUSED_PICTURES)
async def test_a_picture_that_is_not_what_it_claims_is_refused(
    seeing_server: ServerProgram, connect: Connect, name: str
) -> None:
    """With what was found and expected; the call goes on."""
    data, fields, outcome, detail = REFUSED_PICTURES[name]
    call = connect(seeing_server).call()
    answer = await call.ask(data, **fields)

    assert answer.outcome == outcome
    assert detail in answer.detail
    assert not answer.objects
    assert (await call.ask(jpeg())).outcome == OUTCOME_DETECTED
    await call.end()


async def test_raw_pixels_are_seen_as_they_are(
    seeing_server: ServerProgram, connect: Connect, walkers: Path
) -> None:
    """The same frame as PNG, as R G B and as B G R gives the same objects."""
    pixels = footage.frame(walkers, 300)
    call = connect(seeing_server).call()
    as_png = await call.ask(encode(pixels, "PNG"))
    size = {"width": 768, "height": 576}
    as_rgb = await call.ask(pixels.tobytes(), format=IMAGE_FORMAT_RGB24, **size)
    as_bgr = await call.ask(pixels[..., ::-1].tobytes(), format=IMAGE_FORMAT_BGR24, **size)

    assert len(as_png.objects) == 9
    assert list(as_rgb.objects) == list(as_png.objects) == list(as_bgr.objects)
