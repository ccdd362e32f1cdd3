"""What a gateway makes itself arrives at the server: cameras' states, over cuts, deaths and a late server."""

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.conftest import script
from tests.link import Link
from tests.records import listed
from tests.system.conftest import Gateway


def records_of(data: Path, camera: str) -> list[dict[str, Any]]:
    """Give a camera's records as `central-server records list` tells them."""
    return listed(data, "--camera", camera)


def states_of(data: Path, camera: str) -> list[str]:
    return [record["state"] for record in records_of(data, camera)]


def status_of(gateway: Gateway) -> dict[str, Any]:
    """Give what `edge-agent status` tells; its exit code says that not all is well, which is meant here."""
    command = [script("edge-agent"), "--config", str(gateway.config), "status", "--json"]
    status: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    return status


def test_camera_states_arrive_once_each_in_order(gst_camera, start_server, gateway, tmp_path: Path) -> None:
    """The server comes late, the link is cut, the agent is killed: the story of the camera is whole."""
    data = tmp_path / "data"
    camera = gst_camera(pattern=True, size="320x240", fps=10, gop=10)
    options = ("--detector", "simulated:1", "--data", str(data))
    server = start_server(*options)
    with Link(server.address) as link:
        gateway.command("set-server", link.address)
        gateway.command("add-camera", "door", camera.url, "--read-timeout-s", "1")
        link.cut()
        agent = gateway.start()
        gateway.wait_for(lambda: [line for line in agent.errors if "door: streaming" in line], "it streams")
        link.mend()
        gateway.wait_for(lambda: "streaming" in states_of(data, "door"), "its state has arrived")

        link.cut()
        camera.kill()
        gateway.wait_for(
            lambda: [line for line in agent.errors if "door: offline" in line or "door: stalled" in line],
            "the camera's death is noticed",
        )
        gateway.wait_for(
            lambda: not status_of(gateway)["spool"]["in_memory"],
            "the record of it is on the disk",
        )
        gateway.kill()
        camera.restart()
        link.mend()
        gateway.start()
        gateway.wait_for(lambda: states_of(data, "door").count("streaming") == 2, "it streams again")
        gateway.wait_for_more(3, "door")
        assert gateway.stop() == 0

    records = records_of(data, "door")
    states = [record["state"] for record in records]
    died = next(at for at, state in enumerate(states) if state in ("offline", "stalled"))
    assert states.index("streaming") < died < len(states) - 1 - states[::-1].index("streaming")
    identities = [(record["spool_id"], record["sequence"]) for record in records]
    assert len(set(identities)) == len(identities)
    assert len({spool_id for spool_id, _ in identities}) == 2
    for spool_id in {spool_id for spool_id, _ in identities}:
        sequences = [sequence for of, sequence in identities if of == spool_id]
        assert sequences == sorted(sequences)
    assert {record["clock"] for record in records} == {"good"}
    # Each state follows on the one that it says it left, but for the first of a start.
    for before, after in itertools.pairwise(records):
        if before["spool_id"] == after["spool_id"]:
            assert after["previous_state"] == before["state"]
