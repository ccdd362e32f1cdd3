"""What the programs hold of a machine's memory, with one camera at work."""

from pathlib import Path

import psutil

AGENT_LIMIT_BYTES = 150e6
SERVER_LIMIT_BYTES = 350e6


def test_agent_and_server_stay_small(gst_camera, start_server, gateway, walkers: Path) -> None:
    """One camera of 768 x 576 and the default detector with two workers, after a hundred frames."""
    camera = gst_camera(file=walkers, loop=True)
    server = start_server("--workers", "2")
    gateway.command("set-server", server.address)
    gateway.command("add-camera", "street", camera.url)
    gateway.start()
    gateway.wait_for_more(100, timeout_s=60)

    assert psutil.Process(gateway.agent.process.pid).memory_info().rss <= AGENT_LIMIT_BYTES
    assert psutil.Process(server.process.pid).memory_info().rss <= SERVER_LIMIT_BYTES
