"""The main job on real footage: walkers.mp4 as an RTSP camera at 10 fps, agent, server, answers."""

import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from bench import programs
from bench.report import Report
from central_server.capacity.load_result import percentile

FRAMES = 400
FPS = 10


def measure(*, quick: bool) -> Report:
    """Play the footage once through GStreamer's RTSP server, with each detector."""
    report = Report(
        f"walkers.mp4, {FRAMES} frames at {FPS} fps, through GStreamer's RTSP server",
        ("detector", "what", "figure"),
        notes=[
            "latency: from capture, told by presentation time and the arrival of packets, to the answer at "
            "the agent; camera, agent and server share the machine",
            f"frames are numbered by the agent from the first that it has decoded: the share is of {FRAMES}",
        ],
    )
    for detector in ("simulated:5",) if quick else ("coco-ssd", "simulated:5"):
        _measure(report, detector, FRAMES)
    return report


def _measure(report: Report, detector: str, frames: int) -> None:
    with tempfile.TemporaryDirectory() as scratch, programs.server("--detector", detector) as server:
        config, results = Path(scratch) / "agent.toml", Path(scratch) / "results.jsonl"
        with programs.gstreamer_camera("--file", str(programs.WALKERS)) as camera:
            programs.edge_agent(config, "set-server", server.said)
            programs.edge_agent(config, "add-camera", "street", f"rtsp://127.0.0.1:{camera.said}/live")
            before_s = server.processor_s()
            with programs.running_agent(config, results):
                # The first client gets the file from its beginning; at its end the camera hangs up.
                time.sleep(frames / FPS + 3)
                used_s = server.processor_s() - before_s
        records = programs.read_results(results)
    first_pass = [record for record in records if record["frame_id"] <= frames]
    outcomes = Counter(record["outcome"] for record in first_pass)
    latencies = np.array([record["latency_ms"] for record in first_pass if record["outcome"] == "detected"])
    for what, figure in (
        ("frames answered", len(first_pass)),
        ("frames detected", outcomes["detected"]),
        ("share detected", outcomes["detected"] / frames),
        ("latency p50, ms", percentile(latencies, 0.5)),
        ("latency p99, ms", percentile(latencies, 0.99)),
        ("latency, slowest, ms", percentile(latencies, 1.0)),
        ("server's processor time a frame, ms", used_s * 1e3 / len(records)),
    ):
        report.add(detector, what, figure)
