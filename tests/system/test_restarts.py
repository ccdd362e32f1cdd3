"""Cameras and servers that die and come back: the agent goes on by itself and loses no other camera."""

import random
import time

import pytest

# What is promised, with a keyframe a second: 3 s after the return, plus one keyframe interval.
RESUME_S = 3.0 + 1.0
# A loaded test machine is given this on top; `python -m bench restarts` shows the real figure.
SLACK_S = 6.0


def restarts(gst_camera, start_server, gateway, each: int, seed: int) -> None:
    """Kill and start again the camera and the server, `each` times, in random order."""
    dying = gst_camera(pattern=True, size="320x240", fps=10, gop=10)
    steady = gst_camera(pattern=True, size="320x240", fps=10, gop=10)
    servers = [start_server("--detector", "simulated:1")]
    gateway.command("set-server", servers[0].address)
    gateway.command("add-camera", "dying", dying.url, "--read-timeout-s", "2")
    gateway.command("add-camera", "steady", steady.url)
    gateway.start()
    gateway.wait_for_more(5, "dying")
    gateway.wait_for_more(5, "steady")
    events = ["camera", "server"] * each
    random.Random(seed).shuffle(events)
    for event in events:
        if event == "camera":
            dying.kill()
            gateway.wait_for_more(5, "steady")
            dying.restart()
        else:
            servers[-1].kill()
            time.sleep(0.5)  # the outage itself
            servers.append(start_server("--detector", "simulated:1", listen=servers[0].address))
        begun_s = time.monotonic()
        gateway.wait_for_more(1, "dying", RESUME_S + SLACK_S)
        print(f"{event} back: first answer after {time.monotonic() - begun_s:.2f} s")
        gateway.wait_for_more(5, "steady")
    assert gateway.stop() == 0

    for camera in ("dying", "steady"):
        ids = [record["frame_id"] for record in gateway.results(camera)]
        assert len(ids) == len(set(ids)), f"a frame of {camera} was answered twice"
    assert not [line for line in gateway.agent.errors if "Traceback" in line]


def test_camera_and_server_killed_and_started_again(gst_camera, start_server, gateway) -> None:
    """Once each."""
    restarts(gst_camera, start_server, gateway, each=1, seed=1)


@pytest.mark.soak
def test_five_times_each(gst_camera, start_server, gateway) -> None:
    """Five times each, in random order."""
    restarts(gst_camera, start_server, gateway, each=5, seed=5)
