"""Many streams: the memory of a server that has a hundred for minutes, and what thousands leave behind."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from camera_ai.detection_pb2 import OUTCOME_DETECTED, DetectRequest

from bench import programs
from bench.answers import check_published
from bench.misbehaving import connect, open_call
from bench.programs import Started
from bench.progress import Steps
from bench.report import Report, Target
from bench.servers.capacity import WORK
from bench.servers.run import PAYLOAD_BYTES
from central_server.capacity.load import LoadSpec, run_load

STREAMS = 100
FPS = 2.0
MOST_MB = 180.0
LOOK_S = 1.0
# What the floor of the memory may rise from the second to the last quarter: less than a frame a minute.
MOST_RISE_MB = 1.0

OPENED = 2000
AT_ONCE = 20
WARM_UP = 200
# A call with its frames and tasks that leaks is far more than this.
MOST_LEFT_BYTES = 2500
CLOSED_WITHIN_S = 15.0


def measure(*, quick: bool) -> Report:
    """Watch a server with many streams, then open and close many more."""
    report = Report("streams", ("what", "figure", "unit"))
    with Steps() as steps:
        steps.begin(f"{STREAMS} streams for {'half a minute' if quick else 'five minutes'}")
        _watch(report, 30.0 if quick else 300.0)
        steps.begin(f"{OPENED} streams opened and closed")
        _open_and_close(report)
    return report


def _watch(report: Report, duration_s: float) -> None:
    options = ("--detector", WORK.detector, "--max-streams", str(2 * STREAMS))
    with programs.server(*options) as server, ThreadPoolExecutor(1) as pool:
        check_published(server.said, PAYLOAD_BYTES)
        usage = server.usage
        spec = LoadSpec(server.said, STREAMS, fps=FPS, duration_s=duration_s, payload_bytes=PAYLOAD_BYTES)
        load = pool.submit(run_load, spec)
        begun_s = time.monotonic()
        samples = []
        while not load.done():
            samples.append((time.monotonic() - begun_s, usage.resident_bytes() / 1e6))
            time.sleep(LOOK_S)
        result = load.result()
        peak_mb = usage.peak_bytes() / 1e6
    seconds, megabytes = np.array(samples).T
    quarter = len(samples) // 4
    # The line through the last three quarters: what is opened at the start is no slope.
    slope = float(np.polyfit(seconds[quarter:], megabytes[quarter:], 1)[0]) * 60
    rise_mb = float(megabytes[-quarter:].min() - megabytes[quarter : 2 * quarter].min())
    of = f"{STREAMS} streams, {FPS:g} fps, {PAYLOAD_BYTES:,} bytes, {duration_s:g} s"
    report.add(f"{of}: frames detected of {result.due}", result.detected, "frames")
    report.add("p99 of their latency", result.p99_ms, "ms")
    report.add("memory at the end of the first quarter", float(megabytes[quarter]), "MB RSS")
    report.add("memory at the end", float(megabytes[-1]), "MB RSS")
    report.add("slope over the last three quarters", slope, "MB a minute")
    report.targets += [
        Target("most memory, MB RSS", peak_mb, "<=", MOST_MB),
        Target("rise of its floor, second to last quarter, MB", rise_mb, "<=", MOST_RISE_MB),
        Target("frames not detected", result.due - result.detected, "<=", 0),
    ]
    report.runs.append({"samples_s_mb": samples, **result.summary()})


def _open_and_close(report: Report) -> None:
    with programs.server("--detector", "simulated:0") as server:
        check_published(server.said, PAYLOAD_BYTES)
        usage = server.usage
        asyncio.run(_streams(server, WARM_UP))
        _wait_for_closing(server, usage.descriptors())
        names = ("memory, kB RSS", "descriptors", "threads")
        before = (usage.resident_bytes() / 1e3, usage.descriptors(), usage.threads())
        asyncio.run(_streams(server, OPENED))
        _wait_for_closing(server, int(before[1]))
        after = (usage.resident_bytes() / 1e3, usage.descriptors(), usage.threads())
    report.notes.append(
        f"opened and closed: {OPENED} streams, {AT_ONCE} at a time, each on a connection of its own, with "
        f"two frames of {PAYLOAD_BYTES:,} bytes; every second one ends by a cancel; {WARM_UP} went before"
    )
    for name, was, now in zip(names, before, after, strict=True):
        report.add(f"{name}: before {OPENED} streams", was, "")
        report.add(f"{name}: after", now, "")
    left_bytes = (after[0] - before[0]) * 1e3 / OPENED
    report.targets += [
        Target("left in memory, bytes a stream", left_bytes, "<=", MOST_LEFT_BYTES),
        Target("descriptors left", after[1] - before[1], "<=", 0),
        Target("threads left", after[2] - before[2], "<=", 0),
    ]


async def _streams(server: Started, count: int) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with room:
            await _stream(server.said, is_cut=bool(number % 2))

    await asyncio.gather(*(one(number) for number in range(count)))


async def _stream(address: str, *, is_cut: bool) -> None:
    """Open a stream, have a frame answered, send another, and end well or by a cancel."""
    async with connect(address) as channel:
        call = open_call(channel)
        for frame_id in (1, 2):
            await call.write(
                DetectRequest(frame_id=frame_id, image_data=bytes(PAYLOAD_BYTES), max_age_ms=60_000)
            )
            if frame_id == 2 and is_cut:
                call.cancel()
                return
            answer = await asyncio.wait_for(call.read(), CLOSED_WITHIN_S)
            if answer.outcome != OUTCOME_DETECTED:
                raise RuntimeError(f"found {answer}, expected every frame to be detected")
        await call.done_writing()
        await asyncio.wait_for(call.code(), CLOSED_WITHIN_S)


def _wait_for_closing(server: Started, descriptors: int) -> None:
    """Wait until the server has closed what the clients left, but not for ever."""
    deadline_s = time.monotonic() + CLOSED_WITHIN_S
    while server.usage.descriptors() > descriptors and time.monotonic() < deadline_s:
        time.sleep(0.1)
    time.sleep(1)
