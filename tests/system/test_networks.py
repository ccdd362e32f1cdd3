"""The cameras' network goes and comes back: all of them return soon, and not all at once."""

import re
import time
from datetime import datetime
from pathlib import Path

import pytest

from edge_agent.capture.attempts import AT_ONCE, PER_SECOND
from tests.conftest import Program, script
from tests.edge_agent.rtsp.clips import make_clip
from tests.networks import SERVER_ADDRESS, UPLINK, joined_networks
from tests.system.conftest import Gateway

CAMERAS = 16
DETECTOR = ("--detector", "simulated:0", "--workers", "1")
RETURN_S = 8.0
"""After the link is back: SYNs that are sent again, at most two seconds apart, and 16 turns."""


def said_at_s(agent: Program, words: str, after: int) -> list[tuple[float, str]]:
    """Give when, in Unix time, and of which camera the agent has said something since line `after`."""
    found = []
    for line in agent.errors[after:]:
        match = re.match(r"(\S+ \S+) \w+ camera (\S+): (.*)", line)
        if match and words in match[3]:
            found.append((datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").timestamp(), match[2]))  # noqa: DTZ007
    return found


@pytest.mark.parametrize(
    "away_s", [3.0, pytest.param(600.0, marks=pytest.mark.soak)], ids=["short", "ten minutes"]
)
def test_the_network_goes_and_comes_back(gateway: Gateway, tmp_path: Path, away_s: float) -> None:
    """Sixteen cameras behind a link that is cut: told as lost, back within seconds, in turn."""
    clip = make_clip(tmp_path / "clip.mp4", fps=10, size=(160, 120))
    with joined_networks() as networks:
        here, there = networks.gateway, networks.server
        demo = (
            script("edge-agent"),
            "demo-camera",
            str(clip),
            "--listen",
            f"{SERVER_ADDRESS}:0",
            "--insecure",
        )
        camera = networks.start(there, *demo)
        url = camera.wait_for_line(r"(rtsp://\S+)")[1]
        server = networks.start(here, script("central-server"), "serve", "--listen", "127.0.0.1:0", *DETECTOR)
        gateway.command("set-server", server.wait_for_line(r"^listening (\S+:\d+)$")[1])
        names = [f"cam{number}" for number in range(CAMERAS)]
        settings = f'url = "{url}"\nconnect_timeout_s = 2\nread_timeout_s = 1\n'
        tables = "".join(f"[cameras.{name}]\n{settings}" for name in names)
        gateway.config.write_text(gateway.config.read_text() + tables)
        agent = gateway.start(inside=here.command())
        for name in names:
            gateway.wait_for_more(1, name)

        told = len(agent.errors)
        here.run("ip", "link", "set", UPLINK, "down")
        gateway.wait_for(
            lambda: {name for _, name in said_at_s(agent, "stalled: no packet", told)} == set(names),
            "all are lost",
        )
        time.sleep(away_s)  # the outage itself
        back = len(agent.errors)
        here.run("ip", "link", "set", UPLINK, "up")
        back_s = time.time()
        gateway.wait_for(
            lambda: {name for _, name in said_at_s(agent, "streaming", back)} == set(names), "all are back"
        )
        streaming_s = sorted(at_s - back_s for at_s, _ in said_at_s(agent, "streaming", back))
        print(f"back after {streaming_s[0]:.1f} to {streaming_s[-1]:.1f} s")
        assert gateway.stop() == 0

    assert streaming_s[-1] < RETURN_S
    # All at once they would take no time; in turn they take at least half of what all turns take.
    assert streaming_s[-1] - streaming_s[0] > (CAMERAS - AT_ONCE) / PER_SECOND / 2
