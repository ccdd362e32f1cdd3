"""Images that are none, or too much: answered, or refused without harm to anybody else."""

import random

import grpc
import pytest

from tests.memory import Memory
from tests.pictures import encode, jpeg, scene
from tests.wire.contract.conftest import Server
from tests.wire.contract.published import Client, in_words

MEGABYTE = 1 << 20
BAD_IMAGES = {
    "empty": b"",
    "one byte": b"\xff",
    "random bytes": random.Random(7).randbytes(5000),
    "cut jpeg": jpeg()[: len(jpeg()) // 2],
    "jpeg without its last byte": jpeg()[:-1],
    "one pixel": jpeg(1, 1),
    "gif": encode(scene(), "GIF"),
    "text": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD_IMAGES)
async def test_a_bad_frame_does_not_end_the_call(
    server: Server, client: Client, street: bytes, name: str
) -> None:
    """It is answered without objects by whoever looks at it, and the next frame is as welcome as any."""
    call = client.call()

    bad = in_words((await call.ask(1, BAD_IMAGES[name])).objects)
    good = in_words((await call.ask(2, street)).objects)

    assert bad == ([] if server.looks_at_pixels else [("person", 0.9, 100, 100, 50, 200)])
    assert len(good) == (9 if server.looks_at_pixels else 1)


async def test_an_image_above_the_announced_limit_is_answered(
    server: Server, client: Client, street: bytes
) -> None:
    """Without objects; the call goes on. One of exactly the limit is looked at."""
    padded = street + bytes(server.max_image_bytes - len(street))
    call = client.call()

    too_large = await call.ask(1, padded + b"\0")
    of_the_limit = await call.ask(2, padded)

    assert in_words(too_large.objects) == []
    assert len(of_the_limit.objects) == (9 if server.looks_at_pixels else 1)


async def test_a_message_above_the_transports_cap_ends_only_its_call(server: Server, client: Client) -> None:
    """More than twice the limit ends the call with RESOURCE_EXHAUSTED; others on the channel go on."""
    other, call = client.call(), client.call()
    await other.ask(1, jpeg())
    await call.ask(1, jpeg())
    await call.send(2, bytes(2 * server.max_image_bytes + 1000))

    assert await call.rest() == []
    assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await other.ask(2, jpeg())


async def test_what_is_no_request_ends_only_its_call(client: Client) -> None:
    """Bytes that are no message of the contract are refused with a status; others go on."""
    other, call = client.call(), client.raw_call()
    await other.ask(1, jpeg())
    await call.send_bytes(b"\x0a\xff\xff\xff\xff")

    assert await call.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL)
    await other.ask(2, jpeg())


async def test_a_compressed_message_is_refused_without_the_memory(server: Server, client: Client) -> None:
    """A hundred megabytes of zeros in 0.1 MB of gzip: the call ends, the server does not grow."""
    other = client.call()
    await other.ask(1, jpeg())
    memory = Memory(server.pid)
    memory.reset_peak()
    before = memory.peak_bytes()

    call = client.raw_call(compression=grpc.Compression.Gzip)
    await call.send_bytes(bytes(100 * MEGABYTE))

    assert await call.code() is not grpc.StatusCode.OK
    assert memory.peak_bytes() - before < 30 * MEGABYTE
    await other.ask(2, jpeg())


async def test_a_call_that_announces_compression_is_refused(client: Client) -> None:
    """Before anything is sent, with a status that says so."""
    call = client.raw_call(compression=grpc.Compression.Gzip)

    assert await call.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_thousand_large_messages_leave_no_trace(server: Server, client: Client) -> None:
    """What was too large is forgotten once it is answered."""
    call = client.call()
    for frame_id in range(20):
        await call.ask(frame_id, bytes(server.max_image_bytes + 1))
    memory = Memory(server.pid)
    before = memory.resident_bytes()
    for frame_id in range(1000):
        await call.ask(frame_id, bytes(server.max_image_bytes + 1))

    assert memory.resident_bytes() - before < 16 * MEGABYTE
