"""The status as people see it."""

from typing import Any

import pytest
from rich.console import Console

from edge_agent.table import COLUMNS, cells, drawn, duration


def camera(**others: Any) -> dict[str, Any]:
    return {
        "name": "door",
        "state": "streaming",
        "reason": "",
        "for_s": 75.0,
        "fps": 9.96,
        "latency_ms": {"p50": 31.2, "p99": 60.0},
        "sees": {"person": 2, "car": 1},
        "dropped": {"stale": 2, "superseded": 3},
        "kbit_s": 812.4,
        "mb_day": 8770.0,
        "capture": {"packets": 100, "frames_skipped": 50},
        "decode": "auto",
        "motion": {"gate": "on", "still_share": 0.25},
    } | others


def status(*cameras: dict[str, Any]) -> dict[str, Any]:
    return {
        "agent": {"gateway": "shop-7", "version": "0.1.0", "for_s": 90_061.0},
        "server": {
            "address": "central:1",
            "connected": False,
            "reason": "[down] for now",
            "for_s": 5.0,
            "version": "",
            "detector": "",
        },
        "uplink": {"kbit_s": 1624.8, "mb_day": 17540.0, "max_kbit": 2000.0},
        "spool": {"waiting": 3, "uploaded": 5, "dropped": 0, "refused": 0},
        "configuration": {"path": "/etc/camera-ai/agent.toml", "error": None},
        "cameras": list(cameras),
        "problems": ["camera yard: offline: [nothing] there"],
    }


def test_a_cameras_row() -> None:
    """Figures with their units, what was left out, what is seen."""
    row = dict(zip(COLUMNS, cells(camera()), strict=True))

    wished = dict(zip(COLUMNS, cells(camera(wishes=["2 frames a second"])), strict=True))
    assert wished["sends"] == f"{row['sends']}, server wishes 2 frames a second"
    assert row == {
        "camera": "door",
        "state": "streaming",
        "for": "1 min 15 s",
        "fps": "10.0",
        "p50": "31 ms",
        "p99": "60 ms",
        "dropped": "5",
        "kbit/s": "812",
        "MB/day": "8770",
        "sends": "auto (50% not decoded), 25% still",
        "sees": "2 person, 1 car",
    }


def test_one_that_is_disabled_has_no_figures() -> None:
    """Nor does one that has just begun."""
    nothing = {"p50": None, "p99": None}
    row = cells(camera(state="disabled", latency_ms=nothing, sees={}, capture={}, motion={"gate": "off"}))

    assert row[3:6] == ["-", "-", "-"]
    assert row[-2:] == ["auto", "-"]


def test_the_whole_status_names_what_is_not_well() -> None:
    """What stands in square brackets is text, and no style."""
    text = printed(200, camera(name="[bold]door"))

    assert "gateway shop-7: edge-agent 0.1.0, up 1 d 1 h" in text
    assert "server central:1: not connected: [down] for now, for 5 s" in text
    assert "frames: 1625 of at most 2000 kbit/s, 17540 MB a day" in text
    assert "records: 3 waiting, 5 uploaded, 0 dropped, 0 refused" in text
    assert "2 stale, 3 superseded" in text
    assert "! camera yard: offline: [nothing] there" in text
    assert "[bold]door" in text


def test_a_narrow_terminal_goes_without_what_it_can_spare() -> None:
    """No line is broken or cut, of cameras with the longest state."""
    lines = printed(80, camera(state="authentication failed", name="backyard-2")).splitlines()
    row = next(line for line in lines if "backyard-2" in line)

    assert "authentication failed" in row
    assert "31 ms" in row
    assert "person" not in row
    assert "17540 MB a day" in "\n".join(lines)
    assert "…" not in row


def printed(width: int, *cameras: dict[str, Any]) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(drawn(status(*cameras), width))
    return captured.get()


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.4, "0 s"), (59.9, "59 s"), (3599, "59 min 59 s"), (7260, "2 h 1 min"), (90_000, "1 d 1 h")],
)
def test_durations(seconds: float, expected: str) -> None:
    """In their two largest units."""
    assert duration(seconds) == expected
