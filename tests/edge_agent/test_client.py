"""A camera's stream to the central server: real servers over TCP, and one that misbehaves on purpose."""

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from camera_ai.control_pb2 import Drain, Wish
from camera_ai.detection_pb2 import DetectRequest, DetectResponse

from edge_agent import client, connection
from edge_agent.config import CameraConfig, ServerConfig
from edge_agent.uplink import lateness
from tests.edge_agent.streams import Context, Rig, rig, scripted_server
from tests.polling import until


async def test_frames_are_answered_with_what_was_found_and_how_long_it_took(start_server) -> None:
    """A result names the camera, the frame and its objects; its latency holds queue and work."""
    server = start_server("--detector", "simulated:2")
    async with rig(server.address).running() as door:
        result = await door.answer()

    assert (result.camera, result.answer.outcome, result.width, result.height) == ("door", "detected", 64, 48)
    assert [item.label for item in result.answer.objects] == ["person"]
    assert result.latency_ms >= result.answer.work_ms >= 2.0


async def test_a_stream_survives_its_server_being_killed_and_started_again(start_server) -> None:
    """After kill -9 and a new start on the same port the stream goes on by itself."""
    server = start_server("--detector", "simulated:1")
    async with rig(server.address).running() as door:
        await door.answer()
        server.kill()
        await until(lambda: door.statuses[-1].startswith("not connected"), "the loss is noticed")
        start_server("--detector", "simulated:1", listen=server.address)
        await door.answer()

    assert door.statuses[0] == door.statuses[-1] == "connected"


async def test_a_server_that_drains_answers_what_it_took_and_the_stream_goes_to_the_next(
    start_server,
) -> None:
    """SIGTERM loses no accepted frame; the agent is told of the drain and goes on with the next server."""
    server = start_server("--detector", "simulated:1")
    async with rig(server.address).running() as door:
        await door.answer()
        assert await asyncio.to_thread(server.stop) == 0
        unanswered = door.stream.drops["unanswered"]
        start_server("--detector", "simulated:1", listen=server.address)
        await door.answer()

    assert unanswered == 0
    # By the wish, or by the end of the stream, whichever comes first.
    assert any("drain" in status for status in door.statuses)


async def test_a_refusal_is_told_with_its_reason_and_ends_when_there_is_room(start_server) -> None:
    """Beyond its number of streams the server refuses; the camera gets in when another leaves."""
    server = start_server("--detector", "simulated:1", "--max-streams", "1")
    async with contextlib.AsyncExitStack() as last:
        async with rig(server.address, "door").running() as door:
            await door.answer()
            yard = await last.enter_async_context(rig(server.address, "yard").running())
            await until(lambda: yard.refusals, "the refusal")
            assert yard.refusals == ["over capacity: 1 of 1 streams"]
        await yard.answer()

    assert yard.refusals == ["over capacity: 1 of 1 streams", ""]


async def test_a_server_that_is_gone_refuses_nobody(start_server) -> None:
    """Then it is not connected; what it said before no longer holds."""
    server = start_server("--detector", "simulated:1")
    async with rig(server.address, labels=("gryphon",)).running() as door:
        await until(lambda: door.refusals, "the refusal")
        server.kill()
        await until(lambda: door.refusals[-1] == "", "the end of the refusal")

    assert door.statuses[-1].startswith("not connected")


async def test_labels_and_score_wanted_reach_the_server(start_server) -> None:
    """Objects that were not wanted do not come back; a label that the model does not know is a refusal."""
    server = start_server("--detector", "simulated:1")
    async with rig(server.address, labels=("person",), min_score=0.95).running() as door:
        assert (await door.answer()).answer.objects == ()
    async with rig(server.address, labels=("gryphon, über",)).running() as door:
        await until(lambda: door.refusals, "the refusal")

    assert "found gryphon, über, expected some of: person" in door.refusals[0]


async def test_the_servers_image_limit_is_passed_on_and_kept(start_server) -> None:
    """An image above the announced limit is not sent: it is counted, and the stream goes on."""
    server = start_server("--detector", "simulated:1", "--max-image-bytes", "2048")
    async with rig(server.address).running() as door:
        await door.answer()
        door.offer(b"x" * 2049)
        assert (await door.answer()).answer.outcome == "detected"

    assert [facts.max_image_bytes for facts in door.facts] == [2048]
    assert door.stream.drops["too large"] == 1


async def test_a_frame_that_waited_for_the_limit_is_held_to_it(start_server) -> None:
    """It was made before the server had told what it takes."""
    server = start_server("--detector", "simulated:1", "--max-image-bytes", "5000")
    door = rig(server.address)
    door.offer(b"x" * 5001)
    async with door.running():
        await until(lambda: door.stream.drops["too large"] == 1, "the drop")
        result = await door.answer()

    assert (result.answer.outcome, result.answer.frame_id) == ("detected", 2)


async def test_a_frame_that_is_already_too_old_is_not_sent(start_server) -> None:
    """Age is counted from capture: a frame at its maximum age stays here, and is counted."""
    server = start_server("--detector", "simulated:1")
    async with rig(server.address, max_age_ms=500).running() as door:
        await door.answer()
        door.offer(age_s=0.6)
        await until(lambda: door.stream.drops["stale"] == 1, "the drop is counted")
        assert (await door.answer()).answer.outcome == "detected"


async def test_frames_made_before_privacy_masks_were_set_are_not_sent() -> None:
    """Neither what waits, nor what gRPC holds for a server that reads late, nor what was still being made."""
    arrived: list[bytes] = []
    reads, masks = asyncio.Event(), (((0.0, 0.0), (1.0, 0.0), (1.0, 1.0)),)

    async def reads_late(_: AsyncIterator[bytes], context: Context) -> None:
        await context.send_initial_metadata([("camera-ai-window", "1")])
        await reads.wait()
        while isinstance(request := await context.read(), bytes):
            message = DetectRequest.FromString(request)
            arrived.append(message.image_data[:1])
            await context.write(DetectResponse(frame_id=message.frame_id).SerializeToString())

    # More than sockets and HTTP/2 take at once.
    uncovered, covered = b"u" * 30_000_000, b"c"
    unlimited = [("grpc.max_receive_message_length", -1)]
    async with scripted_server(reads_late, options=unlimited) as address, rig(address).running() as door:
        await until(lambda: door.facts, "the call")
        door.offer(uncovered)
        await until(lambda: door.stream.sent_bytes, "a frame on its way")
        door.offer(uncovered)
        masked = replace(door.camera, privacy_masks=masks)
        door.stream.configure(masked)
        door.offer(uncovered)
        reads.set()
        door.camera = masked
        offering = asyncio.create_task(door.offering(image=covered))
        await until(lambda: door.results, "an answer")
        offering.cancel()

    assert set(arrived) == {b"c"}
    assert door.stream.drops["other privacy masks"] == 2
    assert door.stream.drops["unanswered"] == 1


async def test_a_budget_is_kept_and_what_is_sent_is_counted(start_server) -> None:
    """Ten frames a second of 20 kB, and 160 kbit/s for them: one a second, the others are over budget."""
    server = start_server("--detector", "simulated:1")
    async with rig(server.address, max_kbit=160.0).running() as door:
        offering = asyncio.create_task(door.offering(image=bytes(20_000)))
        await until(lambda: len(door.results) >= 3, "answers")
        offering.cancel()
        stream = door.stream
        assert stream.drops["over budget"] >= 10
        assert stream.drops["superseded"] == 0
        assert 3 * 21_000 <= stream.sent_bytes <= 4 * 21_500
        assert 0 < stream.kbit_per_s() < 400
        assert stream.mb_per_day() > 0
        # With another budget the next one need not wait.
        stream.configure(replace(door.camera, max_kbit=None))
        door.offer()
        await until(lambda: len(door.results) >= 4, "an answer", 0.8)


async def test_a_small_budget_is_no_silence_of_the_server(start_server, monkeypatch) -> None:
    """A frame in minutes is what was asked for: nothing is slow, and the state does not flutter."""
    monkeypatch.setattr(lateness, "NO_ANSWER_S", 0.5)
    server = start_server("--detector", "simulated:1")
    async with rig(server.address, max_kbit=1.0, max_age_ms=500).running() as door:
        offering = asyncio.create_task(door.offering(image=bytes(10_000)))
        await until(lambda: door.stream.drops["over budget"] >= 30, "frames that the budget holds back")
        offering.cancel()

    assert len(door.results) == 1
    assert door.slow == []


async def test_a_server_that_is_not_there_is_told_in_plain_words() -> None:
    """The status says why there is no connection."""
    async with rig("127.0.0.1:1").running() as door:
        await until(lambda: len(door.statuses) >= 3, "several attempts")

    assert all(status.startswith("not connected: ") and "refused" in status for status in door.statuses)


async def test_a_server_that_takes_frames_and_answers_none_is_left(monkeypatch, caplog) -> None:
    """A silent server counts as dead after the patience; the frames in its hands are counted."""
    monkeypatch.setattr(client, "ANSWER_PATIENCE_S", 0.2)
    calls = []

    async def silent(requests: AsyncIterator[bytes], context: Context) -> None:
        calls.append(context)
        await context.send_initial_metadata((("camera-ai-window", "3"),))
        async for _ in requests:
            pass

    caplog.set_level("INFO")
    async with scripted_server(silent) as address, rig(address, max_age_ms=100).running() as door:
        for _ in range(5):
            door.offer()
            await asyncio.sleep(0.02)
        await until(lambda: len(calls) >= 2, "a second call")

    assert door.stream.drops["unanswered"] >= 1
    assert "camera door: stream ended: no answer within 0.3 s" in caplog.text


async def test_a_server_that_talks_nonsense_is_tried_again_with_patience() -> None:
    """Answers and facts that are none end the call, not the camera's stream; calls are paced."""
    calls = []

    async def nonsense(requests: AsyncIterator[bytes], context: Context) -> None:
        calls.append(time.monotonic())
        facts = (
            ("camera-ai-window", "0"),
            ("camera-ai-max-image-bytes", "-7"),
            ("camera-ai-version", "?" * 500),
        )
        await context.send_initial_metadata(facts)
        async for _ in requests:
            await context.write(b"\xff\xff\xff")

    async with scripted_server(nonsense) as address, rig(address).running() as door:
        while len(calls) < 4:
            door.offer()
            await asyncio.sleep(0.02)

    assert door.results == []
    assert door.stream.drops["unanswered"] >= 3
    assert min(later - earlier for earlier, later in itertools.pairwise(calls)) >= 0.1


async def test_an_unasked_answer_is_counted_and_harms_nothing() -> None:
    """An answer to a frame that was never sent, or a second one, is no result."""

    async def twice(requests: AsyncIterator[bytes], context: Context) -> None:
        await context.send_initial_metadata(())
        async for _ in requests:
            for frame_id in (1, 1, 10**15):
                await context.write(DetectResponse(frame_id=frame_id).SerializeToString())

    async with scripted_server(twice) as address, rig(address).running() as door:
        door.offer()
        await until(lambda: door.stream.drops["unasked answer"] == 2, "the unasked answers")

    assert [result.answer.frame_id for result in door.results] == [1]
    assert door.results[0].answer.outcome == "detected"


async def test_one_streams_trouble_is_not_the_others(monkeypatch) -> None:
    """A camera that the server does not answer tries again and again; the camera beside it never notices."""
    monkeypatch.setattr(client, "ANSWER_PATIENCE_S", 0.2)
    calls: Counter[str] = Counter()

    async def partial(requests: AsyncIterator[bytes], context: Context) -> None:
        await context.send_initial_metadata(())
        async for data in requests:
            request = DetectRequest.FromString(data)
            calls[request.camera_id] += 1
            if request.camera_id == "door":
                await context.write(DetectResponse(frame_id=request.frame_id).SerializeToString())

    async with scripted_server(partial) as address:
        door = rig(address, "door", max_age_ms=100)
        yard = Rig(door.server, CameraConfig(name="yard", url="rtsp://127.0.0.1/", max_age_ms=100), door)
        async with door.running(), yard.running():
            while calls["yard"] < 4:
                yard.offer()
                door.offer()
                await asyncio.sleep(0.05)

    assert len(door.results) >= 20
    assert door.stream.drops["unanswered"] == 0
    assert door.statuses == ["connected"]


async def test_a_channel_that_is_closed_under_a_stream_does_not_end_it(monkeypatch) -> None:
    """A drain that is announced and never carried out: the stream goes over to a new channel by itself."""
    monkeypatch.setattr(connection, "RETIRE_GRACE_S", 0.1)
    drains = []

    async def answering(requests: AsyncIterator[bytes], context: Context) -> None:
        await context.send_initial_metadata(())
        async for data in requests:
            request = DetectRequest.FromString(data)
            await context.write(DetectResponse(frame_id=request.frame_id).SerializeToString())

    async def draining(_request: bytes, context: Context) -> None:
        if len(drains) < 3:
            await asyncio.sleep(0.3)
            drains.append(context)
            await context.write(Wish(drain=Drain(reason="soon\n\x1b[31m")).SerializeToString())
        await asyncio.sleep(60)

    async with scripted_server(answering, draining) as address, rig(address).running() as door:
        await until(lambda: len(drains) == 3 and door.statuses[-1] == "connected", "three drains")
        await door.answer()

    assert "not connected: the server drains: soon [31m" in door.statuses


async def test_figures_that_are_no_numbers_are_no_answer() -> None:
    """NaN from a server ends the call; results hold numbers only."""

    async def broken(requests: AsyncIterator[bytes], context: Context) -> None:
        await context.send_initial_metadata(())
        async for data in requests:
            frame_id = DetectRequest.FromString(data).frame_id
            work_ms = float("nan") if frame_id == 1 else 1.0
            await context.write(DetectResponse(frame_id=frame_id, work_ms=work_ms).SerializeToString())

    async with scripted_server(broken) as address, rig(address).running() as door:
        result = await door.answer()

    assert result.answer.work_ms == 1.0
    assert door.stream.drops["unanswered"] == 1


@pytest.fixture
def tls_files(tmp_path: Path) -> tuple[trustme.CA, list[str]]:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    chain, key = tmp_path / "server.pem", tmp_path / "server.key"
    chain.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(str(key))
    return authority, ["--tls-certificate", str(chain), "--tls-key", str(key)]


async def test_tls_with_a_private_authority(start_server, tls_files, tmp_path: Path) -> None:
    """With the right authority frames go over TLS; with another one the connection is refused."""
    authority, options = tls_files
    server = start_server("--detector", "simulated:1", *options)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    camera = CameraConfig(name="door", url="rtsp://127.0.0.1/")

    async with Rig(
        ServerConfig(address=server.address, ca=str(tmp_path / "ca.pem")), camera
    ).running() as door:
        await door.answer()
    async with Rig(
        ServerConfig(address=server.address, ca=str(tmp_path / "other.pem")), camera
    ).running() as door:
        await until(lambda: door.statuses, "a status")

    assert door.results == []
    assert "CERTIFICATE_VERIFY_FAILED" in door.statuses[0] or "certificate" in door.statuses[0].lower()
