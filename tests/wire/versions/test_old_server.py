"""The present agent, as a program, speaks with a server of a released version over TCP."""

import re
from pathlib import Path

from tests.polling import until
from tests.system.conftest import Gateway
from tests.wire.versions.contract import Contract
from tests.wire.versions.old_server import OldServer

KNOWN = {"/camera_ai.ObjectDetection/DetectStream", "/camera_ai.Control/Watch"}
TROUBLE = re.compile(r"Traceback|ERROR|never awaited|never retrieved|not connected")


async def test_the_present_agent_and_an_old_server(contract: Contract, tmp_path: Path, walkers: Path) -> None:
    """Frames are answered, the drain is heard, and with the next server it goes on."""
    gateway = Gateway(tmp_path)
    first, second = OldServer(contract), OldServer(contract)
    try:
        async with first.serving() as address:
            gateway.command("set-server", address)
            gateway.command("add-camera", "door", str(walkers), "--loop", "--fps=10")
            agent = gateway.start()
            await until(lambda: len(gateway.detected("door")) >= 5, f"answers; {agent.errors}", 30)
            assert not [line for line in agent.errors if TROUBLE.search(line)]
            first.drain()
            await until(lambda: any("the server drains" in line for line in agent.errors), "the drain")
        before = len(gateway.detected("door"))
        async with second.serving(address):
            await until(lambda: len(gateway.detected("door")) >= before + 5, f"more; {agent.errors}", 30)
            assert gateway.stop() == 0
    finally:
        gateway.kill()

    request = first.requests[0]
    assert (request.camera_id, request.width, request.height) == ("door", 768, 576)
    assert request.image_data[:2] == b"\xff\xd8"
    assert request.age_ms < 1000 == request.max_age_ms
    assert [watching.camera_ids for watching in first.watching] == [["door"]]
    assert [watching.camera_ids for watching in second.watching] == [["door"]]
    result = gateway.detected("door")[0]
    assert result["objects"] == [
        {"label": "person", "confidence": 0.75, "bbox": {"x": 1, "y": 2, "width": 3, "height": 4}}
    ]
    # What the old server does not know, the agent may ask for, not in a tight loop.
    assert sum(count for method, count in (first.asked + second.asked).items() if method not in KNOWN) <= 5
    assert "Traceback" not in "\n".join(agent.errors)
