"""How soon frames are answered again after the camera or the server has come back."""

import contextlib
import random
import tempfile
import time
from pathlib import Path

from bench import programs
from bench.report import Report

AIM = "<= 3 s + one keyframe interval (1 s)"
OUTAGE_S = 1.0
PATTERN = ("--pattern", "--size=320x240", "--fps=10", "--gop=10")


def measure(*, quick: bool) -> Report:
    """Kill and start again the camera and the server, five times each in random order."""
    report = Report("restarts, 320 x 240 at 10 fps", ("what came back", "first answer after s", "aim"))
    events = ["camera", "server"] * (2 if quick else 5)
    random.Random(5).shuffle(events)
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as ending:
        config, results = Path(scratch) / "agent.toml", Path(scratch) / "results.jsonl"
        server = ending.enter_context(programs.server("--detector", "simulated:1"))
        camera = ending.enter_context(programs.gstreamer_camera(*PATTERN))
        address, port = server.said, camera.said
        programs.edge_agent(config, "set-server", address)
        programs.edge_agent(config, "add-camera", "street", f"rtsp://127.0.0.1:{port}/live")
        ending.enter_context(programs.running_agent(config, results))
        programs.wait_for_results(results, 10, timeout_s=20)
        for event in events:
            (camera if event == "camera" else server).kill()
            time.sleep(OUTAGE_S)
            if event == "camera":
                camera = ending.enter_context(programs.gstreamer_camera(*PATTERN, port=port))
            else:
                server = ending.enter_context(programs.server("--detector", "simulated:1", listen=address))
            returned_s = time.monotonic()
            answered = len(programs.read_results(results))
            programs.wait_for_results(results, answered + 1, timeout_s=30)
            report.add(event, time.monotonic() - returned_s, AIM)
            programs.wait_for_results(results, answered + 20, timeout_s=30)
    return report
