"""What travels in a call's metadata: the server's facts, and the client's wishes."""

from collections import Counter

import grpc
import pytest

from tests.wire.contract.conftest import Server
from tests.wire.contract.published import Client


async def test_the_facts_come_before_the_first_request(server: Server, client: Client) -> None:
    """As soon as the call has begun; the model's input size where there is a model."""
    facts = dict(await client.call().grpc.initial_metadata())

    assert facts.pop("camera-ai-version")
    assert int(facts.pop("camera-ai-window")) >= 1
    assert int(facts.pop("camera-ai-max-image-pixels")) == 4096 * 4096
    expected = {
        "camera-ai-detector": server.detector,
        "camera-ai-max-image-bytes": str(server.max_image_bytes),
        "camera-ai-max-age-ms": "60000",
    }
    if server.looks_at_pixels:
        expected["camera-ai-input-wh"] = "300x300"
    assert {key: value for key, value in facts.items() if key.startswith("camera-ai-")} == expected


@pytest.mark.parametrize(
    ("wish", "seen", "published"),
    [
        ({"camera-ai-labels": "person"}, {"person": 7}, 1),
        ({"camera-ai-labels": "%70erson,"}, {"person": 7}, 1),
        ({"camera-ai-min-score": "0.9"}, {"person": 3}, 1),
        ({"camera-ai-min-score": "0.95"}, {}, 0),
    ],
)
async def test_only_what_was_asked_for(
    server: Server, client: Client, street: bytes, wish: dict[str, str], seen: dict[str, int], published: int
) -> None:
    """Labels, percent-encoded and separated by commas, and the least score, for all frames of the call."""
    call = client.call(metadata=tuple(wish.items()))

    for frame_id in range(2):
        answer = await call.ask(frame_id, street)
        labels = Counter(found.label for found in answer.objects)
        assert labels == (seen if server.looks_at_pixels else Counter(person=published))


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("camera-ai-labels", "person,perosn", "camera-ai-labels: found perosn, expected some of: person"),
        ("camera-ai-min-score", "much", "camera-ai-min-score: found 'much', expected a number from 0 to 1"),
        ("camera-ai-min-score", "nan", "camera-ai-min-score: found 'nan', expected a number from 0 to 1"),
        ("camera-ai-min-score", "1.01", "camera-ai-min-score: found '1.01', expected a number from 0 to 1"),
    ],
)
async def test_a_wish_that_cannot_be_granted_ends_the_call(
    client: Client, key: str, value: str, text: str
) -> None:
    """With what was found and what was expected."""
    call = client.call(metadata=((key, value),))

    assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (await call.grpc.details()).startswith(text)


async def test_a_refusal_fits_into_a_status(client: Client) -> None:
    """Whoever asks for a thousand unknown labels is told of some of them."""
    labels = ",".join(f"no{number}" for number in range(1000))
    call = client.call(metadata=(("camera-ai-labels", labels),))

    assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(await call.grpc.details()) < 4000
