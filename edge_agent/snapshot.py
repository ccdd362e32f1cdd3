"""The agent's status as plain values: what `edge-agent status` shows, and its JSON. No password is in it."""

import os
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from edge_agent.agent import Agent
from edge_agent.camera_runner import CameraRunner
from edge_agent.errors import one_line
from edge_agent.live import LiveConfiguration
from edge_agent.spool.spool import Spool
from edge_agent.state import CameraState

# The states of a camera about which nothing needs to be done.
WELL = frozenset({CameraState.STREAMING, CameraState.DISABLED, CameraState.ENDED})


# Less is the clock being kept, and no reason to tell another second each time.
CLOCK_STEP_S = 2.0


@dataclass(slots=True)
class ServerStatus:
    """What the connection last told, and since when it has been so."""

    text: str = "not connected yet"
    since_unix_s: float = 0.0
    since_s: float = 0.0

    def tell(self, text: str) -> None:
        """Note what the connection tells."""
        if not self.since_s or self.connected != (text == "connected"):
            self.since_unix_s, self.since_s = time.time(), time.monotonic()
        self.text = text

    @property
    def connected(self) -> bool:
        """Whether the server is there."""
        return self.text == "connected"


class Snapshots:
    """Takes the agent's status, at any moment."""

    def __init__(
        self, agent: Agent, live: LiveConfiguration, server: ServerStatus, spool: Spool, gateway: str
    ) -> None:
        self.gateway = gateway
        self._spool = spool
        self._agent = agent
        self._live = live
        self._server = server
        self._begun_s = time.monotonic()
        self._begun_unix_s = time.time()

    def take(self) -> dict[str, Any]:
        """Give the status as plain values for JSON."""
        server, config = self._server, self._live.current.config
        assert config.server is not None  # noqa: S101
        facts = self._agent.facts
        cameras = [
            _camera(name, runner) | {"wishes": self._agent.wishes(name)}
            for name, runner in self._agent.cameras.items()
        ]
        status: dict[str, Any] = {
            "agent": {
                "version": version("camera-ai"),
                "pid": os.getpid(),
                "gateway": self.gateway,
                "since": since(self._begun_s, self._begun_unix_s),
                "for_s": _ago(self._begun_s),
            },
            "configuration": {
                "path": str(Path(self._live.path).absolute()),
                "read": since(self._live.read_s, self._live.read_unix_s),
                "error": self._live.error or None,
            },
            "server": {
                "address": config.server.address,
                "connected": server.connected,
                "reason": "" if server.connected else server.text.removeprefix("not connected: "),
                "since": since(server.since_s or self._begun_s, server.since_unix_s or self._begun_unix_s),
                "for_s": _ago(server.since_s or self._begun_s),
                "version": one_line(facts.version) if facts else "",
                "detector": one_line(unquote(facts.detector)) if facts else "",
                "input_wh": facts.input_wh if facts else None,
            },
            "uplink": {
                "kbit_s": round(sum(camera["kbit_s"] for camera in cameras), 1),
                "mb_day": round(sum(camera["mb_day"] for camera in cameras), 1),
                "max_kbit": config.gateway.max_kbit,
            },
            "spool": self._records(),
            "cameras": cameras,
        }
        status["problems"] = _problems(status)
        return status

    def _records(self) -> dict[str, Any]:
        told = asdict(self._spool.status())
        last_s, uploader = told.pop("last_uploaded_s"), self._agent.uploader
        return told | {
            "last_uploaded_ago_s": None if last_s is None else _ago(last_s),
            "upload_trouble": uploader.trouble if uploader is not None else "",
            "unwanted": uploader.unwanted if uploader is not None else False,
        }


def _camera(name: str, runner: CameraRunner) -> dict[str, Any]:
    now, figures, camera = runner.status, runner.figures.now(), runner.camera
    return {
        "name": name,
        "state": now.state.value,
        "reason": now.reason,
        "since": since(now.since_s, now.since_unix_s),
        "for_s": _ago(now.since_s),
        "fps": round(figures.fps, 1),
        "wanted_fps": camera.fps,
        "latency_ms": {"p50": _rounded(figures.latency_p50_ms), "p99": _rounded(figures.latency_p99_ms)},
        # A label is what a server has sent, and goes to a terminal.
        "sees": {one_line(label): count for label, count in figures.sees.items()},
        "dropped": {reason: count for reason, count in sorted(runner.dropped.items()) if count},
        **runner.data_use(),
        "capture": runner.counters,
        "decode": camera.decode,
        "motion": _motion(runner),
    }


def _motion(runner: CameraRunner) -> dict[str, Any]:
    """Tell whether the motion gate is on, and which share of the frames it has held back."""
    counters = runner.counters
    still, sent = counters.get("frames_still", 0), counters.get("frames_delivered", 0)
    share = round(still / (still + sent), 3) if still + sent else None
    return {"gate": runner.camera.motion, "still_share": share if runner.camera.motion == "on" else None}


def _problems(status: dict[str, Any]) -> list[str]:
    """Say what is not well, a line each; empty while all is."""
    found = []
    if status["configuration"]["error"]:
        found.append(f"configuration: {status['configuration']['error']}")
    if not status["server"]["connected"]:
        found.append(f"server {status['server']['address']}: not connected: {status['server']['reason']}")
    if status["spool"]["trouble"]:
        found.append(f"records on this gateway: {status['spool']['trouble']}")
    spool = status["spool"]
    # Without a connection that is the reason; and to keep no records is the server's choice.
    if (
        spool["upload_trouble"]
        and spool["waiting"]
        and status["server"]["connected"]
        and not spool["unwanted"]
    ):
        found.append(f"records are not uploaded: {spool['upload_trouble']}")
    for camera in status["cameras"]:
        if camera["state"] not in WELL:
            reason = f": {camera['reason']}" if camera["reason"] else ""
            found.append(f"camera {camera['name']}: {camera['state']}{reason}")
    return found


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def since(then_s: float, then_unix_s: float) -> str:
    """Tell an instant as the clock has it now, which may have been set since: from 1970, after a power cut.

    Args:
        then_s: the instant by time.monotonic().
        then_unix_s: the same in seconds since the Unix epoch, as the clock was then.

    """
    unix_s = time.time() - (time.monotonic() - then_s)
    if abs(unix_s - then_unix_s) < CLOCK_STEP_S:
        unix_s = then_unix_s
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _ago(then_s: float) -> float:
    return round(time.monotonic() - then_s, 1)
