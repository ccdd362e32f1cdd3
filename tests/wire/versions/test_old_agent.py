"""An agent of a released version, made of its descriptors, speaks with the present server over TCP."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.conftest import StartServer, script
from tests.pictures import jpeg
from tests.wire.versions.contract import Contract

TIMEOUT_S = 60.0


class OldAgent:
    """The two calls of an agent, in its version's words."""

    def __init__(self, contract: Contract, channel: grpc.aio.Channel) -> None:
        self.contract = contract
        detect = channel.stream_stream(
            "/camera_ai.ObjectDetection/DetectStream",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=contract.message("DetectResponse").FromString,
        )
        watch = channel.unary_stream(
            "/camera_ai.Control/Watch",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=contract.message("Wish").FromString,
        )
        self.stream: Any = detect(timeout=TIMEOUT_S)
        self.wishes: Any = watch(
            contract.fill("WatchRequest", agent_version="0.1.0", camera_ids=["door"]), timeout=TIMEOUT_S
        )

    async def ask(self, frame_id: int, image_data: bytes, **fields: Any) -> Any:
        """Send a frame with all that the version can say of it; gives the answer."""
        request = self.contract.fill(
            "DetectRequest",
            frame_id=frame_id,
            image_data=image_data,
            camera_id="door",
            capture_time_ns=time.time_ns(),
            **{"age_ms": 3, "max_age_ms": 60_000, **fields},
        )
        await self.stream.write(request)
        answer = await self.stream.read()
        assert answer.frame_id == frame_id
        return answer


@pytest.fixture
async def channel() -> AsyncIterator[list[grpc.aio.Channel]]:
    """Close the channels that a test opened."""
    opened: list[grpc.aio.Channel] = []
    yield opened
    for one in opened:
        await one.close()


async def test_an_old_agent_and_the_present_server(
    contract: Contract, start_server: StartServer, channel: list[grpc.aio.Channel], tmp_path: Path
) -> None:
    """Facts, objects, every kind of outcome, a wish for its camera, and at last the drain."""
    path = tmp_path / "control.sock"
    server = start_server("--detector=simulated:2", f"--control={path}", "--max-image-bytes=100000")
    channel.append(grpc.aio.insecure_channel(server.address))
    agent = OldAgent(contract, channel[0])

    detected = await agent.ask(7, jpeg())
    facts = dict(await agent.stream.initial_metadata())
    stale = await agent.ask(8, jpeg(), age_ms=5000, max_age_ms=100)
    large = await agent.ask(9, bytes(100_001))

    assert {"camera-ai-version", "camera-ai-window", "camera-ai-max-image-bytes"} <= facts.keys()
    assert detected.outcome == contract.number("Outcome", "OUTCOME_DETECTED")
    assert [(found.label, found.bbox.x, found.bbox.height) for found in detected.objects] == [
        ("person", 100, 200)
    ]
    assert detected.objects[0].confidence == pytest.approx(0.9)
    assert detected.work_ms >= 2
    assert stale.outcome == contract.number("Outcome", "OUTCOME_STALE")
    assert large.outcome == contract.number("Outcome", "OUTCOME_TOO_LARGE")
    assert "100001 bytes" in large.detail

    wish = await asyncio.create_subprocess_exec(
        script("central-server"), "wish", "--socket", str(path), "door", "--fps=2"
    )
    assert await wish.wait() == 0
    rate = await agent.wishes.read()
    assert (rate.frame_rate.camera_id, rate.frame_rate.frames_per_second) == ("door", 2)

    server.signal(signal.SIGTERM)
    drain = await agent.wishes.read()
    assert drain.WhichOneof("wish") == "drain"
    assert (drain.drain.reason, drain.drain.grace_ms) == ("the server is shutting down", 10_000)
    assert await agent.stream.code() is grpc.StatusCode.UNAVAILABLE
    assert await asyncio.to_thread(server.wait) == 0
