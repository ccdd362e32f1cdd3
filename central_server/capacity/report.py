"""What was found, as JSON and as lines for a terminal."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from central_server.capacity.load_result import Floats, percentile
from central_server.capacity.measure import Capacity, Run, counted

HOURS_A_MONTH = 730
# Of the cores; a load average beyond it is somebody else's work.
BUSY = 0.5
NAME_WIDTH, FIGURE_WIDTH = 24, 9

Row = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Load:
    """The figures of the runs at the load that held, taken together; latencies and lags in ms."""

    latencies_ms: Floats
    lag_ms: Floats
    loop_lag_ms: Floats
    backpressure_ms: Floats
    frames_per_s: float
    server_ms: float
    server_cores: float
    peak_bytes: int
    generator_ms: float
    generator_cores: float


def take_together(runs: tuple[Run, ...]) -> Load:
    """Add up runs, at least one; processor time is for each frame, or for each second (cores)."""
    frames = sum(run.load.due for run in runs)
    length_s = sum(run.load.length_s for run in runs)
    server_s = sum(run.processor_s for run in runs)
    generator_s = sum(run.load.processor_s for run in runs)
    return Load(
        latencies_ms=np.concatenate([run.load.latencies_ms for run in runs]),
        lag_ms=np.concatenate([run.load.lag_ms for run in runs]),
        loop_lag_ms=np.concatenate([run.load.loop_lag_ms for run in runs]),
        backpressure_ms=np.concatenate([run.load.backpressure_ms for run in runs]),
        frames_per_s=frames / length_s,
        server_ms=server_s * 1e3 / frames,
        server_cores=server_s / length_s,
        peak_bytes=max(run.peak_bytes for run in runs),
        generator_ms=generator_s * 1e3 / frames,
        generator_cores=generator_s / length_s,
    )


def split(capacity: Capacity, server_ms: float) -> dict[str, float]:
    """Give a frame's processor time at the server by stage; what no stage explains is the wire's."""
    stages_ms = capacity.stages_ms
    return {"wire": server_ms - sum(stages_ms.values()), **stages_ms}


def to_json(capacity: Capacity, price_per_hour: float | None) -> dict[str, Any]:
    """Give everything, for a file."""
    options = capacity.options
    found: dict[str, Any] = {
        "version": version("camera-ai"),
        "detector": options.detector,
        "workers": options.workers,
        "cores": capacity.cores,
        "pictures": [
            {"width": picture.size_wh[0], "height": picture.size_wh[1], "bytes": len(picture.data)}
            for picture in capacity.pictures
        ],
        "fps": options.fps,
        "latency_bound_ms": options.latency_ms,
        "duration_s": options.duration_s,
        "ended": capacity.ended,
        "took_s": capacity.took_s,
        "load_average_before": capacity.load_before,
        "cameras": capacity.cameras,
        "cameras_per_core": capacity.cameras / capacity.cores,
        "confirmed": capacity.is_confirmed,
        "stages_ms": capacity.stages_ms,
        "stages_drift_ms": capacity.stages_drift_ms,
        "at_capacity": _load_to_json(capacity) if capacity.held else None,
        "not_held": _not_held_to_json(capacity),
        "cost": _cost_to_json(capacity, price_per_hour),
        "runs": [_run_to_json(run) for run in capacity.runs],
    }
    return found


def _load_to_json(capacity: Capacity) -> dict[str, Any]:
    load = take_together(capacity.held)
    return {
        "frames_per_s": load.frames_per_s,
        "latency_ms": _spread(load.latencies_ms, "slowest"),
        "server": {
            "processor_ms": load.server_ms,
            "split_ms": split(capacity, load.server_ms),
            "cores": load.server_cores,
            "peak_rss_bytes": load.peak_bytes,
        },
        "generator": {
            "processor_ms": load.generator_ms,
            "cores": load.generator_cores,
            "lag_ms": _spread(load.lag_ms, "max"),
            "loop_lag_ms": _spread(load.loop_lag_ms, "max"),
            "backpressure_ms": _spread(load.backpressure_ms, "max"),
        },
    }


def _not_held_to_json(capacity: Capacity) -> dict[str, Any] | None:
    run = capacity.not_held
    if run is None:
        return None
    return {"cameras": run.cameras, "why": run.load.why_not(capacity.options.latency_ms)}


def _cost_to_json(capacity: Capacity, price_per_hour: float | None) -> dict[str, float] | None:
    if price_per_hour is None or not capacity.cameras:
        return None
    camera_hour = price_per_hour / capacity.cameras
    return {
        "price_per_hour": price_per_hour,
        "camera_hour": camera_hour,
        "camera_month": camera_hour * HOURS_A_MONTH,
    }


def _run_to_json(run: Run) -> dict[str, Any]:
    return {
        **run.load.summary(),
        "held": run.held,
        "server_processor_s": run.processor_s,
        "server_peak_rss_bytes": run.peak_bytes,
    }


def to_text(capacity: Capacity, price_per_hour: float | None) -> str:
    """Give what a person wants to know."""
    options = capacity.options
    lines = [
        f"{options.detector}, {counted(options.workers, 'worker')}, {_pictures_in_words(capacity)}, "
        f"{options.fps:g} fps, every answer within {options.latency_ms:g} ms",
        "",
    ]
    rows = _rows(capacity, price_per_hour) if capacity.cameras else _rows_of_none(capacity)
    lines += [
        f"{name:<{NAME_WIDTH}}{figure:>{FIGURE_WIDTH}}  {words}".rstrip() for name, figure, words in rows
    ]
    lines += [
        "",
        f"{counted(len(capacity.runs), 'run')} of {options.duration_s:g} s in {capacity.took_s:.0f} s "
        f"({capacity.ended}); load average before: {capacity.load_before:.1f}",
    ]
    if capacity.load_before > BUSY * capacity.cores:
        lines.append("the machine was not idle before: this is what was left beside other work")
    return "\n".join(lines)


def _rows(capacity: Capacity, price_per_hour: float | None) -> Iterator[Row]:
    load = take_together(capacity.held)
    yield "cameras", str(capacity.cameras), _certainty(capacity)
    if (beyond := capacity.not_held) is not None:
        yield "", str(beyond.cameras), f"did not: {beyond.load.why_not(capacity.options.latency_ms)}"
    else:
        yield "", "", "more were not tried"
    per_core = f"{capacity.cameras / capacity.cores:.1f}"
    yield "cameras a core", per_core, f"{capacity.cores} usable, shared with the load generator"
    yield "frames served a second", f"{load.frames_per_s:.1f}", ""
    p50_ms, p99_ms, slowest_ms = _spread(load.latencies_ms, "slowest").values()
    yield "latency p50", f"{p50_ms:.1f}", "ms from the frame's instant to the arrival of its answer"
    yield "latency p99", f"{p99_ms:.1f}", ""
    yield "latency slowest", f"{slowest_ms:.1f}", ""
    yield "server, a frame", f"{load.server_ms:.2f}", f"ms of processor time; {load.server_cores:.2f} cores"
    for stage, used_ms in split(capacity, load.server_ms).items():
        words = f"what is left; the stages drifted by {capacity.stages_drift_ms:.2f}"
        yield f"  {stage}", f"{used_ms:.2f}", words if stage == "wire" else ""
    yield "server's memory", f"{load.peak_bytes / 1e6:.0f}", "MB resident at most"
    yield "load generator, a frame", f"{load.generator_ms:.2f}", f"ms; {load.generator_cores:.2f} cores"
    for name, lags_ms in (("its own lag", load.lag_ms), ("its loop's lag", load.loop_lag_ms)):
        p50_ms, p99_ms, most_ms = _spread(lags_ms, "max").values()
        where = "before sending" if lags_ms is load.lag_ms else "at any time"
        yield f"  {name}", f"{p50_ms:.1f}", f"ms p50, {p99_ms:.1f} p99, {most_ms:.1f} most, {where}"
    cost = _cost_to_json(capacity, price_per_hour)
    if cost is not None:
        yield "cost of a camera", f"{cost['camera_hour']:.4g}", "an hour"
        yield "", f"{cost['camera_month']:.4g}", f"a month of {HOURS_A_MONTH} h"


def _rows_of_none(capacity: Capacity) -> Iterator[Row]:
    yield "cameras", "0", "not even one holds"
    if (beyond := capacity.not_held) is not None:
        yield "", str(beyond.cameras), f"did not: {beyond.load.why_not(capacity.options.latency_ms)}"
    for stage, used_ms in capacity.stages_ms.items():
        yield f"  {stage}", f"{used_ms:.2f}", "ms of a worker's processor time a frame"


def _certainty(capacity: Capacity) -> str:
    votes = capacity.votes[capacity.cameras]
    words = f"held in {sum(votes)} of {counted(len(votes), 'run')}"
    return words if capacity.is_confirmed else f"{words}, not confirmed"


def _pictures_in_words(capacity: Capacity) -> str:
    sizes = sorted({picture.size_wh for picture in capacity.pictures})
    size_words = "x".join(map(str, sizes[0])) if len(sizes) == 1 else f"{len(sizes)} sizes"
    mean_bytes = np.mean([len(picture.data) for picture in capacity.pictures])
    return f"{size_words} ({mean_bytes / 1e3:.0f} kB)"


def _spread(values: Floats, last: str) -> dict[str, float]:
    return {name: percentile(values, q) for name, q in (("p50", 0.5), ("p99", 0.99), (last, 1.0))}
