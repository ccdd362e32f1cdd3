"""What the server adds to the bare model: processor time a frame, and what a second worker brings."""

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
import simplejpeg

from bench import footage, programs
from bench.answers import check_detects
from bench.load import offer
from bench.model import Model, prepared
from bench.programs import Started
from bench.progress import Steps
from bench.report import Report, ratio, spread
from central_server.capacity.load import LoadResult
from edge_agent.config import CameraConfig

FULL_HD_WH = (1920, 1080)
# What the edge agent sends by default.
QUALITY = CameraConfig(name="", url="").jpeg_quality
# Every tenth of the clip's frames.
STEP = 10
# A closed loop that keeps all workers busy: more streams than workers, each with one frame unanswered
# (of two that wait the newer would supersede the older).
STREAMS, WINDOW = 4, 1
MAX_AGE_MS = 60_000
# Faster than any server: the window sets the pace.
FPS = 2000.0

MOST_OVER_RUN = 1.20
MOST_OVER_DECODE = 1.3
LEAST_SPEED_UP = 1.7
LEAST_EFFICIENCY = 0.95

Figures = defaultdict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Bare:
    """The library calls that nobody can do without, ready to be timed in this thread."""

    run: Callable[[], object]
    decode: Callable[[], object]


def measure(*, quick: bool) -> Report:
    """Measure in rounds: the bare calls, one worker with each size of frame, two workers."""
    rounds, frames = (3, 80) if quick else (5, 240)
    figures: Figures = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch, Steps() as steps:
        steps.begin("pictures")
        small = footage.write_jpegs(Path(scratch), STEP, quality=QUALITY)
        large = footage.write_jpegs(Path(scratch), STEP, quality=QUALITY, frame_wh=FULL_HD_WH)
        bare = _bare(large)
        options = ("--detector", "coco-ssd", "--workers")
        with programs.server(*options, "1") as one, programs.server(*options, "2") as two:
            for server in (one, two):
                for file in (small[-1], large[-1]):
                    check_detects(server.said, file, "person")
            for number in range(1, rounds + 1):
                steps.begin(f"round {number} of {rounds}")
                figures["run"].append(_processor_ms(bare.run, frames // 2))
                figures["decode"].append(_processor_ms(bare.decode, frames // 2))
                _offer(figures, "one", one, small, frames)
                _offer(figures, "large", one, large, frames)
                _offer(figures, "two", two, small, 2 * frames)
    return _report(figures, rounds, frames)


def _bare(files: Sequence[Path]) -> Bare:
    model = Model()
    inputs = cycle([prepared(image) for image in footage.frames(STEP)])
    images = cycle([file.read_bytes() for file in files])
    return Bare(
        run=lambda: model.run(next(inputs)),
        decode=lambda: simplejpeg.decode_jpeg(next(images), "RGB", fastdct=False, fastupsample=False),
    )


def _processor_ms(call: Callable[[], object], times: int) -> float:
    call()
    begun_ns = time.thread_time_ns()
    for _ in range(times):
        call()
    return (time.thread_time_ns() - begun_ns) / times / 1e6


def _offer(figures: Figures, name: str, server: Started, files: Sequence[Path], frames: int) -> None:
    """Have a server answer so many frames as fast as it can; note its processor time and its pace."""
    before_s = server.processor_s()
    result = offer(
        server,
        STREAMS,
        fps=FPS,
        duration_s=frames / STREAMS / FPS,
        images=tuple(files),
        max_age_ms=MAX_AGE_MS,
        window=WINDOW,
        grace_s=120,
    )
    used_s = server.processor_s() - before_s
    if result.detected != result.due:
        raise RuntimeError(f"{name}: found {dict(result.counts())}, expected all {result.due} detected")
    figures[f"{name} ms"].append(used_s * 1e3 / result.detected)
    figures[f"{name} fps"].append(result.detected / _length_s(result))


def _length_s(result: LoadResult) -> float:
    return float(result.answered_s.max() - result.sent_s.min())


def _report(figures: Figures, rounds: int, frames: int) -> Report:
    report = Report(
        "coco-ssd: the server against the bare library calls",
        ("what", "median", "unit", "of single rounds"),
        notes=[
            f"{rounds} rounds in which all take turns; {frames} frames for a worker in each, "
            f"{STREAMS} streams with one frame in flight each, all answered `detected`",
            "bare: one thread; session.run with its input prepared, and simplejpeg's full decode with the "
            "accurate DCT; processor time of that thread, and of the whole server process",
            f"both sizes: JPEGs of the walkers, quality {QUALITY} (the edge agent's default), 4:2:0",
            "what the server has besides: wire, resize, boxes, and the decode of the smaller frames",
        ],
    )
    for name, what in (
        ("run", "bare session.run"),
        ("decode", "bare decode of 1920 x 1080"),
        ("one ms", "server, one worker, 768 x 576"),
        ("large ms", "server, one worker, 1920 x 1080"),
        ("two ms", "server, two workers, 768 x 576"),
    ):
        report.add(what, float(np.median(figures[name])), "processor ms a frame", spread(figures[name]))
    for name, what in (("one fps", "one worker"), ("two fps", "two workers")):
        report.add(
            f"{what}, 768 x 576",
            float(np.median(figures[name])),
            "frames/s by the clock",
            spread(figures[name]),
        )
    allowed = [
        run + MOST_OVER_DECODE * decode for run, decode in zip(figures["run"], figures["decode"], strict=True)
    ]
    report.targets = [
        ratio("processor time, 768 x 576 / bare run", figures["one ms"], figures["run"], "<=", MOST_OVER_RUN),
        ratio(
            f"processor time, 1920 x 1080 / (bare run + {MOST_OVER_DECODE} x bare decode)",
            figures["large ms"],
            allowed,
            "<=",
            1.0,
        ),
        ratio(
            "frames by the clock, two workers / one",
            figures["two fps"],
            figures["one fps"],
            ">=",
            LEAST_SPEED_UP,
        ),
        # Frames per second of processor time are the inverse of processor time a frame.
        ratio(
            "frames per second of processor time, two workers / one",
            figures["one ms"],
            figures["two ms"],
            ">=",
            LEAST_EFFICIENCY,
        ),
    ]
    report.runs = [dict(figures)]
    return report
