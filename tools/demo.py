"""The main job on one machine: a camera, the agent and the server as three programs, and a live table."""

import argparse
import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

BIN = Path(sys.executable).parent
RUN = Path("demo-run")
START_TIMEOUT_S = 30
END_TIMEOUT_S = 15


def main() -> int:
    """Run the demo; exit code 0 when people were detected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--duration", type=float, default=0, help="seconds; 0 until Ctrl-C")
    duration_s = parser.parse_args().duration
    if not 0 <= duration_s < float("inf"):
        parser.error(f"DURATION: found {duration_s:g}, expected seconds, 0 or more")
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A closed terminal ends the demo as Ctrl-C does, and with it all that it has started.
        signal.signal(number, signal.default_int_handler)
    try:
        return demo(duration_s)
    except KeyboardInterrupt:
        return 130


def demo(duration_s: float) -> int:
    """Start everything, watch, sum up; whatever ends it, nothing is left running."""
    shutil.rmtree(RUN, ignore_errors=True)
    RUN.mkdir()
    results = RUN / "results.jsonl"
    with contextlib.ExitStack() as ending:
        camera = start(ending, "camera", "edge-agent", "demo-camera", "--listen", "127.0.0.1:0")
        url = wait_for(RUN / "camera.log", r"(rtsp://\S+)", camera)
        server = start(ending, "server", "central-server", "serve", "--listen", "127.0.0.1:0")
        address = wait_for(RUN / "server.log", r"^listening (\S+)", server)
        print(f"camera   {url}\nserver   {address}\nresults  {results}\nlogs     {RUN}/*.log\n", flush=True)
        agent("set-server", address)
        agent("add-camera", "walkers", url)
        run_agent(results, duration_s)
    return summary(results)


def start(ending: contextlib.ExitStack, name: str, *command: str) -> subprocess.Popen[bytes]:
    """Start a program with its output in a log file; out of Ctrl-C's reach, ended by SIGTERM at the end."""
    log = ending.enter_context((RUN / f"{name}.log").open("wb"))
    process = subprocess.Popen(
        [BIN / command[0], *command[1:]], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    )
    ending.callback(stop, process)
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a program: gently, then not."""
    process.terminate()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """Wait for a line in a program's log; the whole demo ends with that log if it does not come."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        if match := re.search(pattern, log.read_text(), re.MULTILINE):
            return match[1]
        time.sleep(0.05)
    sys.exit(f"no line {pattern!r} in {log}:\n{log.read_text()}")


def agent(*arguments: str) -> None:
    """Run a command of the agent as a person would, and show it."""
    command = ["edge-agent", "--config", str(RUN / "agent.toml"), *arguments]
    print("$", *command, flush=True)
    subprocess.run([BIN / command[0], *command[1:]], check=True)


def run_agent(results: Path, duration_s: float) -> None:
    """Run the agent with its table until Ctrl-C or the time is over."""
    command = ["--config", RUN / "agent.toml", "run", "--table", "--results", results]
    process = subprocess.Popen([BIN / "edge-agent", *command], start_new_session=True)
    try:
        process.wait(duration_s or None)
        print(f"the agent ended by itself with exit code {process.returncode}", file=sys.stderr)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass
    finally:
        stop(process)


def summary(results: Path) -> int:
    """Print what was answered; 0 when people were detected, else 1."""
    records = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    outcomes = Counter(record["outcome"] for record in records)
    seen = Counter(item["label"] for record in records for item in record["objects"])
    latencies = sorted(record["latency_ms"] for record in records if record["outcome"] == "detected")
    print(f"\nframes answered: {len(records)}", dict(outcomes))
    if latencies:
        p50, p99 = (latencies[min(len(latencies) - 1, int(len(latencies) * part))] for part in (0.5, 0.99))
        print(
            f"latency, capture to answer: p50 {p50:.0f} ms, p99 {p99:.0f} ms, slowest {latencies[-1]:.0f} ms"
        )
    print("objects:", ", ".join(f"{count} x {label}" for label, count in seen.most_common()) or "none")
    if seen["person"]:
        return 0
    print("no people were detected: see the logs in", RUN, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
