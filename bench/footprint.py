"""What the programs cost at rest: processor time of the commands, memory at work."""

import resource
import subprocess
import tempfile
from pathlib import Path

from bench import programs
from bench.report import Report


def measure(*, quick: bool) -> Report:
    """Measure the commands' processor time, and both programs' memory with one camera of 768 x 576."""
    report = Report(
        "footprint",
        ("what", "figure", "unit", "aim"),
        notes=["processor time: user + system of the whole command, the least of several runs"],
    )
    runs = 3 if quick else 10
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "agent.toml"
        report.add("edge-agent --help", _least_processor_s(runs, "--help"), "s", "<= 0.35")
        add = ("--config", str(config), "add-camera")
        names = iter(range(runs))
        times = [_processor_s(*add, f"camera{number}", "rtsp://192.0.2.1/live") for number in names]
        report.add("edge-agent add-camera", min(times), "s", "<= 0.35")
    _memory(report, seconds=5 if quick else 30)
    return report


def _least_processor_s(runs: int, *arguments: str) -> float:
    return min(_processor_s(*arguments) for _ in range(runs))


def _processor_s(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([programs.BIN / "edge-agent", *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _memory(report: Report, seconds: int) -> None:
    with tempfile.TemporaryDirectory() as scratch, programs.server("--workers", "2") as server:
        config, results = Path(scratch) / "agent.toml", Path(scratch) / "results.jsonl"
        with programs.gstreamer_camera("--file", str(programs.WALKERS), "--loop") as camera:
            programs.edge_agent(config, "set-server", server.said)
            programs.edge_agent(config, "add-camera", "street", f"rtsp://127.0.0.1:{camera.said}/live")
            with programs.running_agent(config, results) as agent:
                answered = len(programs.wait_for_results(results, seconds * 10, timeout_s=seconds * 3 + 20))
                agent_mb = agent.resident_bytes() / 1e6
                server_mb = server.usage.resident_bytes() / 1e6
    report.add(f"agent, one 768 x 576 camera, after {answered} frames", agent_mb, "MB RSS", "<= 150")
    report.add("server, coco-ssd, two workers, with that camera", server_mb, "MB RSS", "<= 350")
