"""The cameras' network goes and comes back: all of them return soon, and not all at once."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from edge_agent.capture.attempts import AT_ONCE, PER_SECOND
from tests.conftest import Program, StartServer, script
from tests.edge_agent.rtsp.clips import make_clip
from tests.system.conftest import Gateway

CAMERAS = 16
RETURN_S = 8.0
"""After the link is back: SYNs that are sent again, at most two seconds apart, and 16 turns."""


class CameraNetwork:
    """A network of cameras behind one link, as a network namespace of its own."""

    def __init__(self) -> None:
        self.name = f"cameras{os.getpid()}"
        self.link = f"cam{os.getpid() % 100000}"
        subnet = f"10.213.{os.getpid() % 250}"  # tests may run beside each other
        self.gateway_host, self.camera_host = f"{subnet}.1", f"{subnet}.2"

    def set_up(self) -> None:
        """Make it; raises CalledProcessError where that is not allowed."""
        self._ip("netns", "add", self.name)
        self._ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        self._ip("address", "add", f"{self.gateway_host}/30", "dev", self.link)
        self._ip("-n", self.name, "address", "add", f"{self.camera_host}/30", "dev", "eth0")
        self._ip("-n", self.name, "link", "set", "eth0", "up")
        self.up()

    def up(self) -> None:
        self._ip("link", "set", self.link, "up")

    def down(self) -> None:
        self._ip("link", "set", self.link, "down")

    def tear_down(self) -> None:
        for arguments in (("link", "delete", self.link), ("netns", "delete", self.name)):
            subprocess.run(["ip", *arguments], capture_output=True, check=False)

    def _ip(self, *arguments: str) -> None:
        subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True)


@pytest.fixture
def network() -> Iterator[CameraNetwork]:
    """Give a network that can be taken away; skip where none can be made."""
    network = CameraNetwork()
    with contextlib.ExitStack() as ending:
        ending.callback(network.tear_down)
        try:
            network.set_up()
        except (OSError, subprocess.CalledProcessError) as error:
            if os.environ.get("CI"):
                pytest.fail(f"no network namespace: {error}")
            pytest.skip("a network of its own takes root and iproute2")
        yield network


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
def test_the_network_goes_and_comes_back(
    network: CameraNetwork, start_server: StartServer, gateway: Gateway, tmp_path: Path, away_s: float
) -> None:
    """Sixteen cameras behind a link that is cut: told as lost, back within seconds, in turn."""
    clip = make_clip(tmp_path / "clip.mp4", fps=10, size=(160, 120))
    demo = (
        script("edge-agent"),
        "demo-camera",
        str(clip),
        "--listen",
        f"{network.camera_host}:0",
        "--insecure",
    )
    camera = Program("ip", "netns", "exec", network.name, *demo)
    with contextlib.ExitStack() as ending:
        ending.callback(camera.kill)
        url = camera.wait_for_line(r"(rtsp://\S+)")[1]
        server = start_server("--detector", "simulated:0", "--workers", "1")
        gateway.command("set-server", server.address)
        names = [f"cam{number}" for number in range(CAMERAS)]
        settings = f'url = "{url}"\nconnect_timeout_s = 2\nread_timeout_s = 1\n'
        tables = "".join(f"[cameras.{name}]\n{settings}" for name in names)
        gateway.config.write_text(gateway.config.read_text() + tables)
        agent = gateway.start()
        for name in names:
            gateway.wait_for_more(1, name)

        told = len(agent.errors)
        network.down()
        gateway.wait_for(
            lambda: {name for _, name in said_at_s(agent, "stalled: no packet", told)} == set(names),
            "all are lost",
        )
        time.sleep(away_s)  # the outage itself
        back = len(agent.errors)
        network.up()
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
