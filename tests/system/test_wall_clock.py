"""The gateway's clock is set, by an hour, by a year, to 1970: only the times that people read change."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.conftest import StartServer
from tests.demo_cameras import DemoCameras
from tests.records import listed
from tests.system.conftest import Gateway, Record

HOUR, YEAR = timedelta(hours=1), timedelta(days=365)
LIBRARY = "faketime/libfaketimeMT.so.1"


def fake_clock(folder: Path) -> tuple[Path, dict[str, str]]:
    """Give a file whose text moves the clock of a program that runs with this environment."""
    found = list(Path("/usr/lib").glob(f"*/{LIBRARY}"))
    if not found:
        if os.environ.get("CI"):
            pytest.fail("libfaketime is not installed")
        pytest.skip("libfaketime is not installed")
    offset = folder / "offset"
    offset.write_text("+0")
    return offset, {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def set_clock(offset: Path, by: timedelta) -> None:
    """Step the clock of the program to this far from the machine's."""
    fresh = offset.with_suffix(".new")
    fresh.write_text(f"{by.total_seconds():+.0f}")
    fresh.rename(offset)


def captured(record: Record) -> datetime:
    return datetime.fromisoformat(record["capture_time"])


def offline_records(data: Path) -> list[Record]:
    """Give the server's records of the camera that goes."""
    return [record for record in listed(data, "--camera", "going") if record["state"] == "offline"]


def test_the_clock_is_set_while_the_agent_runs(
    walkers: Path, start_server: StartServer, gateway: Gateway, tmp_path: Path
) -> None:
    """No reconnect, no stall, no age that jumps; capture times follow, and records say how the clock is."""
    offset, env = fake_clock(tmp_path)
    data = tmp_path / "data"
    with DemoCameras() as cameras:
        server = start_server("--detector", "simulated:1", "--workers", "1", "--data", str(data))
        gateway.command("set-server", server.address)
        for transport in ("tcp", "udp"):
            gateway.command("add-camera", transport, cameras.serve(walkers).url, "--transport", transport)
        going = cameras.serve(walkers)
        gateway.command("add-camera", "going", going.url)
        agent = gateway.start(env)
        for name in ("tcp", "udp", "going"):
            gateway.wait_for_more(5, name)
        told, begun_s = len(agent.errors), time.monotonic()
        steps = [HOUR, YEAR, datetime(1970, 1, 2, tzinfo=UTC) - datetime.now(UTC), timedelta(0)]
        for by in steps:
            set_clock(offset, by)
            for name in ("tcp", "udp"):
                gateway.wait_for_more(5, name)
            if by == steps[2]:
                cameras.close(going)
                gateway.wait_for(
                    lambda: any("camera going: offline" in line for line in agent.errors),
                    "the camera is gone",
                )
        took_s = time.monotonic() - begun_s
        said = [line for line in agent.errors[told:] if "camera tcp" in line or "camera udp" in line]
        assert gateway.stop() == 0

    assert said == [line for line in said if "stopped" in line]
    assert offline_records(data)[0]["clock"] == "unset"
    for name in ("tcp", "udp"):
        results = gateway.results(name)
        assert max(record["latency_ms"] for record in results) < 5_000
        assert min(record["latency_ms"] for record in results) >= 0
        assert {record["outcome"] for record in results} <= {"detected", "superseded"}
        years = [captured(record).year for record in results]
        now = datetime.now(UTC)
        assert {1970, now.year, (now + YEAR).year} <= set(years)
        hours = [(captured(record) - now) / HOUR for record in results]
        assert any(0.9 < apart < 1.1 for apart in hours)
        assert len(results) <= 10 * took_s + 30
