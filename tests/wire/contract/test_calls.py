"""Calls: frames up, answers down, and how a call ends."""

import asyncio
import contextlib
from typing import Any

import grpc
import pytest

from tests.pictures import jpeg
from tests.wire.contract.conftest import Server
from tests.wire.contract.published import CALL_TIMEOUT_S, Call, CallEndedError, Client, Messages, in_words

MAX_UINT64 = 2**64 - 1


async def test_one_frame_gets_one_answer(client: Client) -> None:
    """And nothing follows it."""
    call = client.call()

    await call.ask(7, jpeg())

    assert await call.rest() == []
    assert await call.code() is grpc.StatusCode.OK


@pytest.mark.parametrize("frame_id", [0, 1, 2**32, 2**63, MAX_UINT64])
async def test_a_frame_id_comes_back(client: Client, frame_id: int) -> None:
    """Whatever number the client chose."""
    await client.call().ask(frame_id, jpeg())


async def test_many_frames_one_in_flight(client: Client) -> None:
    """Each answer belongs to the frame just sent, for as long as the call goes on."""
    call = client.call()
    for frame_id in range(60):
        await call.ask(frame_id, jpeg())

    assert await call.rest() == []


async def test_half_closing_drains(client: Client) -> None:
    """Frames sent before the client half-closed are answered, each once, and the call ends well."""
    call = client.call()
    for frame_id in range(5):
        await call.send(frame_id, jpeg())

    answers = await call.rest()

    assert sorted(answer.frame_id for answer in answers) == list(range(5))
    assert await call.code() is grpc.StatusCode.OK


async def test_an_empty_call_ends_well(client: Client) -> None:
    """No frame, no answer, no error."""
    call = client.call()

    assert await call.rest() == []
    assert await call.code() is grpc.StatusCode.OK


async def test_calls_on_one_channel_are_apart(client: Client) -> None:
    """Several cameras share a connection; each gets the answers to its own frames."""

    async def camera(number: int) -> None:
        call = client.call()
        for step in range(12):
            await call.ask(number * 1000 + step, jpeg())
        assert await call.rest() == []

    await asyncio.gather(*(camera(number) for number in range(6)))


async def test_a_client_that_leaves_harms_no_other(client: Client) -> None:
    """One cancels after its first answer, with frames on the way; others go on, and new ones come."""
    staying, leaving = client.call(), client.call()
    await staying.ask(1, jpeg())
    await leaving.ask(1, jpeg())
    await leaving.send(2, jpeg())
    await leaving.send(3, jpeg())
    leaving.cancel()

    assert await leaving.code() is grpc.StatusCode.CANCELLED
    await staying.ask(2, jpeg())
    await client.call().ask(1, jpeg())


async def test_fields_of_later_versions_are_ignored(client: Client, messages: Messages) -> None:
    """A request may carry fields that the server has never heard of."""
    plain = messages.request(frame_id=9, image_data=jpeg()).SerializeToString()
    # Field 1000 as a number, 1001 as bytes, 1002 as a double.
    unknown = b"\xc0\x3e\x2a" + b"\xca\x3e\x03new" + b"\xd1\x3e" + bytes(8)
    call = client.raw_call()
    await call.send_bytes(unknown + plain + unknown)

    assert (await call.receive()).frame_id == 9


@pytest.mark.parametrize(
    "method", ["/camera_ai.ObjectDetection/DetectAll", "/camera_ai.NoSuchService/DetectStream", "/nothing"]
)
async def test_an_unknown_method_is_unimplemented(client: Client, method: str) -> None:
    """And says so by its status."""
    call: Any = client.channel.unary_unary(method)
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await call(b"", timeout=CALL_TIMEOUT_S)

    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_stream_beyond_the_capacity_is_refused(server: Server, client: Client) -> None:
    """With RESOURCE_EXHAUSTED; those that are served go on, and one that ends makes room."""

    async def take_a_place() -> Call:
        # A call of an earlier test may take a moment to be noticed as gone.
        async with asyncio.timeout(CALL_TIMEOUT_S):
            while True:
                call = client.call()
                with contextlib.suppress(CallEndedError):
                    await call.ask(1, jpeg())
                    return call

    served = [await take_a_place() for _ in range(server.max_streams)]

    assert await client.call().code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    for call in served:
        await call.ask(2, jpeg())
    assert await served[0].rest() == []
    await take_a_place()


async def test_the_published_answer(server: Server, client: Client, street: bytes) -> None:
    """Objects have a label, a confidence, and whole pixels of the image that was sent."""
    objects = in_words((await client.call().ask(1, street)).objects)

    if server.looks_at_pixels:
        labels = [label for label, *_ in objects]
        assert sorted(labels) == ["car"] * 2 + ["person"] * 7
        for _, confidence, x, y, width, height in objects:
            assert 0.5 <= confidence <= 1
            assert 0 <= x < x + width <= 768
            assert 0 <= y < y + height <= 576
    else:
        assert objects == [("person", 0.9, 100, 100, 50, 200)]
