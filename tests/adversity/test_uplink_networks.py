"""The whole agent, the whole server, and a network that is cut, thin, or paid by the megabyte."""

import json
import time
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Program
from tests.networks import PORT, SERVER_ADDRESS, Networks
from tests.polling import wait_until
from tests.records import listed

Line = dict[str, Any]

FULL_WIDTH = 768


class Gateway:
    """An agent in the gateway's network, with cameras that play the footage."""

    def __init__(
        self, networks: Networks, folder: Path, walkers: Path, cameras: int, gateway: str = ""
    ) -> None:
        self.cameras = [f"camera{number}" for number in range(cameras)]
        config = folder / "agent.toml"
        tables = [f'[cameras.{name}]\nurl = "{walkers}"\nloop = true\n' for name in self.cameras]
        server = f'[server]\naddress = "{SERVER_ADDRESS}:{PORT}"\ninsecure = true\n'
        config.write_text("\n".join([server, f"[gateway]\n{gateway}\n", *tables]))
        self._results = folder / "results.jsonl"
        self.agent: Program = networks.agent("--config", str(config), "run", "--results", str(self._results))

    def answers(self, after_unix_s: float = 0.0) -> list[Line]:
        """Give the answers that came to frames captured after an instant, or to all."""
        text = self._results.read_text() if self._results.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if captured_unix_s(line) >= after_unix_s]

    def detected(self, after_unix_s: float = 0.0) -> list[Line]:
        """Give those that were worked on."""
        return [line for line in self.answers(after_unix_s) if line["outcome"] == "detected"]

    def all_detected(self, after_unix_s: float, width: int = 0) -> bool:
        """Tell whether each camera has a frame captured after an instant that was worked on."""
        seen = {line["camera"] for line in self.detected(after_unix_s) if line["width"] >= width}
        return seen == set(self.cameras)

    def has_logged(self, text: str) -> bool:
        """Tell whether the agent's log holds a text."""
        return any(text in line for line in self.agent.errors)


def captured_unix_s(line: Line) -> float:
    return datetime.fromisoformat(line["capture_time"]).timestamp()


def records_of(data: Path) -> dict[str, list[Line]]:
    """Give the camera states that the server keeps, by camera, in the order in which they were put."""
    states: dict[str, list[Line]] = defaultdict(list)
    for line in listed(data):
        if "state" in line:
            states[line["camera"]].append(line)
    return states


@pytest.mark.parametrize(
    "least_cut_s", [0.0, pytest.param(600.0, marks=[pytest.mark.soak, pytest.mark.timeout(900)])]
)
def test_a_cut_is_noticed_by_both_and_leaves_nothing_old_behind(
    networks: Networks, tmp_path: Path, walkers: Path, least_cut_s: float
) -> None:
    """No word of it reaches either side. Then frames are fresh at once, and each record is there once."""
    data = tmp_path / "data"
    # No place is left for the new streams but the old ones'.
    server = networks.serve("--detector", "simulated:5", "--max-streams", "2", "--data", str(data))
    gateway = Gateway(networks, tmp_path, walkers, cameras=2)
    wait_until(lambda: gateway.all_detected(0), "frames are answered", 30.0)

    networks.cut()
    cut_s = time.monotonic()
    wait_until(lambda: gateway.has_logged("not connected"), "the agent notices", 40.0)
    wait_until(
        lambda: sum(" ended: " in line for line in server.errors) == 2, "the server frees the places", 40.0
    )
    time.sleep(max(0.0, least_cut_s - (time.monotonic() - cut_s)))
    mended_unix_s = time.time()
    networks.mend()
    wait_until(lambda: gateway.all_detected(mended_unix_s), "frames are answered again", 60.0)

    assert not [line for line in gateway.detected() if line["latency_ms"] > 2000]
    assert not gateway.has_logged("over capacity")
    # Being answered again is a change that is recorded, too.
    wait_until(
        lambda: all(
            records_of(data)[name][-1:] and records_of(data)[name][-1]["state"] == "streaming"
            for name in gateway.cameras
        ),
        "the records have come",
        60.0,
    )
    for states in records_of(data).values():
        assert "slow" in [record["state"] for record in states]
        # The cameras were well all the time.
        assert not {"offline", "stalled"} & {record["state"] for record in states}
        for before, after in pairwise(states):
            assert after["previous_state"] == before["state"], states


@pytest.mark.parametrize(
    "cameras", [4, pytest.param(1, marks=pytest.mark.soak), pytest.param(8, marks=pytest.mark.soak)]
)
def test_over_a_thin_uplink_frames_are_fresh_and_it_gets_better_when_it_gets_wider(
    networks: Networks, tmp_path: Path, walkers: Path, cameras: int
) -> None:
    """Cameras of 6 Mbit/s each, 500 kbit/s for them all: less of everything, and all of it in time."""
    networks.serve("--detector", "simulated:5")
    gateway = Gateway(networks, tmp_path, walkers, cameras=cameras)
    wait_until(lambda: gateway.all_detected(0, FULL_WIDTH), "frames are answered", 30.0)

    networks.limit_uplink(500)
    thin_unix_s = time.time()
    # First what was on its way has to get through.
    wait_until(lambda: gateway.all_detected(thin_unix_s + 2), "all are answered again", 40.0)
    settled_unix_s = time.time()
    time.sleep(6 + cameras / 2)
    until_unix_s = time.time() - 2
    settled = [line for line in gateway.answers(settled_unix_s) if captured_unix_s(line) < until_unix_s]
    networks.limit_uplink(None)
    wide_unix_s = time.time()
    wait_until(lambda: gateway.all_detected(wide_unix_s, FULL_WIDTH), "full size again", 30.0)

    assert {line["camera"] for line in settled} == set(gateway.cameras)
    assert [line["latency_ms"] for line in settled if line["latency_ms"] > 2000] == []
    in_time = [line for line in settled if line["outcome"] == "detected"]
    assert 2 * len(in_time) > len(settled)
    # What was on its way when the uplink got thin is late, by a frame or two of each camera, a second each.
    assert max(line["latency_ms"] for line in gateway.answers(thin_unix_s - 2)) < 4_000 + 2_000 * cameras
    assert any(line["width"] < FULL_WIDTH for line in settled)
    wait_until(lambda: gateway.has_logged("slow: the uplink carries"), "the state says why", 5.0)


def test_the_gateways_budget_is_kept_headers_and_all(
    networks: Networks, tmp_path: Path, walkers: Path
) -> None:
    """Counted where it is paid for, at the network's device; and all cameras have their part of it."""
    networks.serve("--detector", "simulated:5")
    gateway = Gateway(networks, tmp_path, walkers, cameras=3, gateway="max_kbit = 600")
    wait_until(lambda: gateway.all_detected(0), "frames are answered", 30.0)

    began_unix_s, began_s, began_bytes = time.time(), time.monotonic(), networks.uplink_bytes()
    time.sleep(10)
    sent_bytes = networks.uplink_bytes() - began_bytes
    budget_bytes = (time.monotonic() - began_s) * 600 * 125

    # A frame, and what wishes, acknowledgements and records need besides.
    assert sent_bytes <= budget_bytes + 70_000 + 20_000
    assert gateway.all_detected(began_unix_s + 5)
    assert not gateway.has_logged("slow:")
