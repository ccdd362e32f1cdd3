"""Many streams: the memory of a server that has a hundred for minutes, and what thousands leave behind."""

import asyncio
import threading
import time
from collections.abc import Iterator

import numpy as np
from camera_ai.detection_pb2 import OUTCOME_DETECTED, DetectRequest

from bench import programs
from bench.answers import check_published
from bench.load import offer
from bench.misbehaving import connect, open_call
from bench.programs import Started
from bench.progress import Steps
from bench.report import Report, Target
from bench.servers.capacity import WORK
from bench.servers.run import PAYLOAD_BYTES
from bench.usage import Usage

STREAMS = 100
FPS = 2.0
MOST_MB = 180.0
LOOK_S = 1.0
# What the floor of the memory may rise from the second to the last quarter: less than a frame a minute.
MOST_RISE_MB = 1.0

OPENED = 2000
AT_ONCE = 20
# The first round opens what the server keeps, threads and arenas; what the others add would go on for ever.
# Several, because the allocator's pages come and go by some hundred bytes a stream of one round.
ROUNDS = 5
# Names of cameras, which come back as cameras do.
CAMERAS = 100
# The smallest of what a stream has, its state, is more than this.
MOST_LEFT_BYTES = 200
# gRPC's own pools take another thread now and then; one that stayed for each stream would be thousands.
MOST_LEFT_THREADS = 2
CLOSED_WITHIN_S = 15.0


class Watch:
    """Looks at a program's memory in a thread, for as long as the block runs."""

    def __init__(self, usage: Usage) -> None:
        self.samples_s_mb: list[tuple[float, float]] = []
        self._usage = usage
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _look(self) -> None:
        begun_s = time.monotonic()
        while not self._ending.wait(LOOK_S):
            self.samples_s_mb.append((time.monotonic() - begun_s, self._usage.resident_bytes() / 1e6))


def measure(*, quick: bool) -> Iterator[Report]:
    """Watch a server with many streams, then open and close many more."""
    with Steps() as steps:
        steps.begin(f"{STREAMS} streams for {'half a minute' if quick else 'five minutes'}")
        held = _watch(30.0 if quick else 300.0)
    yield held
    with Steps() as steps:
        left = _open_and_close(steps)
    yield left


def _watch(duration_s: float) -> Report:
    report = Report("many streams", ("what", "figure", "unit"))
    options = ("--detector", WORK.detector, "--max-streams", str(2 * STREAMS))
    with programs.server(*options) as server:
        check_published(server.said, PAYLOAD_BYTES)
        usage = server.usage
        with Watch(usage) as watch:
            result = offer(server, STREAMS, fps=FPS, duration_s=duration_s, payload_bytes=PAYLOAD_BYTES)
        samples = watch.samples_s_mb
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
    return report


def _open_and_close(steps: Steps) -> Report:
    """Open and close streams in equal rounds: what those after the first leave is what every other would."""
    report = Report(
        "streams opened and closed",
        ("after", "memory, kB RSS", "descriptors", "threads"),
        notes=[
            f"a round: {OPENED} streams, {AT_ONCE} at a time, each on a connection of its own, with two "
            f"frames of {PAYLOAD_BYTES:,} bytes of one of {CAMERAS} cameras; half of them are cancelled",
            f"left: by rounds 2 to {ROUNDS}, before which all that the server keeps has been there once",
        ],
    )
    with programs.server("--detector", "simulated:0") as server:
        check_published(server.said, PAYLOAD_BYTES)
        usage = server.usage
        looks = [_look(usage)]
        report.add("the start", *looks[0])
        for number in range(1, ROUNDS + 1):
            steps.begin(f"round {number} of {ROUNDS}: {OPENED} streams opened and closed")
            asyncio.run(_streams(server, OPENED))
            _wait_for_closing(server, looks[-1][1])
            server.check()
            looks.append(_look(usage))
            report.add(f"round {number}", *looks[-1])
    of_rounds = np.diff(looks[1:], axis=0)
    left_bytes = of_rounds[:, 0] * 1e3 / OPENED
    _, descriptors, threads = of_rounds.sum(axis=0).tolist()
    report.targets += [
        Target(
            "left in memory, bytes a stream (and of single rounds)",
            float(left_bytes.mean()),
            "<=",
            MOST_LEFT_BYTES,
            (float(left_bytes.min()), float(left_bytes.max())),
        ),
        Target("descriptors left", descriptors, "<=", 0),
        Target("threads left", threads, "<=", MOST_LEFT_THREADS),
    ]
    return report


def _look(usage: Usage) -> tuple[float, int, int]:
    return usage.resident_bytes() / 1e3, usage.descriptors(), usage.threads()


async def _streams(server: Started, count: int) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with room:
            # Cuts and cameras in all pairs.
            camera_id = f"camera-{number // 2 % CAMERAS}"
            await _stream(server.said, camera_id, is_cut=bool(number % 2))

    await asyncio.gather(*(one(number) for number in range(count)))


async def _stream(address: str, camera_id: str, *, is_cut: bool) -> None:
    """Open a stream, have a frame answered, send another, and end well or by a cancel."""
    async with connect(address) as channel:
        call = open_call(channel)
        for frame_id in (1, 2):
            await call.write(
                DetectRequest(
                    frame_id=frame_id,
                    image_data=bytes(PAYLOAD_BYTES),
                    max_age_ms=60_000,
                    camera_id=camera_id,
                )
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
