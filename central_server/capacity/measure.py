"""The capacity of this machine: a server started, a load that rises, the figures of what held."""

import os
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from central_server.capacity import search
from central_server.capacity.cost import StagesMs, measure_stages
from central_server.capacity.load import LoadError, LoadResult, LoadSpec, run_load
from central_server.capacity.load_spec import MAX_FRAMES
from central_server.capacity.pictures import Picture, PictureOptions, prepare
from central_server.capacity.server_process import ServerProcess
from central_server.cores import usable_cores
from central_server.detectors import registry
from central_server.detectors.detector import Detector, DetectorOptions
from central_server.errors import DetectorError, OptionError

# How long the stages of a frame are measured, without a server.
STAGES_S = 2.0
# How long the server is warmed up, uncounted.
WARM_UP_S, WARM_UP_FPS = 1.0, 10.0
# What a run takes besides its frames: the generator's start and end.
RUN_OVERHEAD_S = 1.5
# After the bound an answer changes nothing: how long it is waited for all the same.
GRACE_S = 1.0
CONNECT_TIMEOUT_S = 10.0
MAX_CAMERAS = 4096
# Why a search ends.
CERTAIN, BUDGET_SPENT = "certain", "budget spent"
# Files that a server and a generator need besides one for each camera.
SPARE_FILES = 64

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CapacityOptions:
    """What `central-server capacity` was told; see its options."""

    detector: str = "coco-ssd"
    detector_options: DetectorOptions = field(default_factory=DetectorOptions)
    workers: int = 1
    pictures: PictureOptions = field(default_factory=PictureOptions)
    fps: float = 10.0
    latency_ms: float = 100.0
    duration_s: float = 5.0
    budget_s: float = 110.0


@dataclass(frozen=True, slots=True)
class Run:
    """One load and what it took of the server: `processor_s` in all, `peak_bytes` of resident memory."""

    cameras: int
    held: bool
    load: LoadResult
    processor_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """What was found.

    Attributes:
        options: what was asked for.
        cores: how many the process may use.
        pictures: what was sent.
        stages: processor time a frame of each stage without a server, in ms: before the search and after it.
        runs: every load, in order.
        ended: why there were no more of them.
        took_s: all in all.
        load_before: the machine's load average over the minute before, processes that run or want to.

    """

    options: CapacityOptions
    cores: int
    pictures: tuple[Picture, ...]
    stages: tuple[StagesMs, StagesMs]
    runs: tuple[Run, ...]
    ended: str
    took_s: float
    load_before: float

    @property
    def stages_ms(self) -> StagesMs:
        """The mean of both measures."""
        before, after = self.stages
        return {stage: (used_ms + after[stage]) / 2 for stage, used_ms in before.items()}

    @property
    def stages_drift_ms(self) -> float:
        """How far the two are apart, all stages together: no part of a frame is known better than that."""
        before, after = self.stages
        return abs(sum(after.values()) - sum(before.values()))

    @property
    def votes(self) -> search.Runs:
        """Which numbers of cameras held, run by run."""
        return _votes(self.runs)

    @property
    def cameras(self) -> int:
        """The most cameras that held; 0 for none."""
        return search.largest_held(self.votes)

    @property
    def is_confirmed(self) -> bool:
        """Whether two runs held."""
        return search.is_confirmed(self.votes, self.cameras)

    @property
    def held(self) -> tuple[Run, ...]:
        """The runs of the most cameras, those that held."""
        return tuple(run for run in self.runs if run.cameras == self.cameras and run.held)

    @property
    def not_held(self) -> Run | None:
        """A run of the first load beyond them that did not hold; None where there was none."""
        beyond = search.smallest_not_held(self.votes)
        return next((run for run in self.runs if run.cameras == beyond and not run.held), None)


def measure(options: CapacityOptions, tell: Tell) -> Capacity:
    """Find how many cameras hold; `tell` is given a line about each step.

    The first load is always run; each further one only if it fits into what is left of the budget.

    Raises:
        ServerError: what is wrong with the options, or with the server that was started; in one line.

    """
    if options.duration_s > options.budget_s:
        raise OptionError(
            f"--duration-s: found {options.duration_s:g}, expected at most {options.budget_s:g} of --budget-s"
        )
    begun_s, load_before = time.monotonic(), os.getloadavg()[0]
    cores = usable_cores()
    stages_s = min(STAGES_S, options.budget_s / 20)
    with tempfile.TemporaryDirectory(prefix="camera-ai-capacity-") as folder:
        pictures = prepare(options.pictures, Path(folder))
        detectors = registry.load(options.detector, options.detector_options, min(options.workers, cores))
        before_ms = _measure_stages(options, detectors, pictures, stages_s)
        tell(f"one frame costs {_listed(before_ms)} ms of a worker, without the wire")
        frames = max(1.0, options.duration_s * options.fps)
        most = max(1, min(_raise_file_limit(), int(MAX_FRAMES / frames)))
        deadline_s = begun_s + options.budget_s - stages_s
        with ServerProcess(*_arguments(options, most)) as server:
            runs, ended = _search(options, pictures, server, most, deadline_s, tell)
        after_ms = _measure_stages(options, detectors, pictures, stages_s)
    return Capacity(
        options=options,
        cores=cores,
        pictures=pictures,
        stages=(before_ms, after_ms),
        runs=tuple(runs),
        ended=ended,
        took_s=time.monotonic() - begun_s,
        load_before=load_before,
    )


def _search(
    options: CapacityOptions,
    pictures: tuple[Picture, ...],
    server: ServerProcess,
    most: int,
    deadline_s: float,
    tell: Tell,
) -> tuple[list[Run], str]:
    """Give the runs, and why there are no more."""
    # A worker's first frames cost more than all later ones. As many cameras as workers send at one instant,
    # or the worker that was freed last would take them all; and what is late is no end of it.
    warm_up = _spec(options, pictures, server, options.workers, min(WARM_UP_S, options.duration_s))
    run_load(replace(warm_up, fps=WARM_UP_FPS, start_pause_ms=0, give_up_ms=None))
    runs: list[Run] = []
    while (cameras := search.next_cameras(_votes(runs), most)) is not None:
        spec = _spec(options, pictures, server, cameras, options.duration_s)
        if runs and time.monotonic() + spec.last_due_s + RUN_OVERHEAD_S > deadline_s:
            return runs, BUDGET_SPENT
        try:
            run = _run(server, spec, options.latency_ms)
        except LoadError as error:
            # Where there are figures already, a load that the generator cannot make does not spoil them.
            if not runs:
                raise
            return runs, f"{counted(cameras, 'camera')}: {error}"
        runs.append(run)
        tell(f"{counted(cameras, 'camera')}: {_in_words(run, options.latency_ms)}")
    if search.smallest_not_held(_votes(runs)) is None:
        return runs, f"no more than {counted(most, 'camera')} can be tried here"
    return runs, CERTAIN


def _spec(
    options: CapacityOptions,
    pictures: tuple[Picture, ...],
    server: ServerProcess,
    cameras: int,
    duration_s: float,
) -> LoadSpec:
    return LoadSpec(
        server.address,
        cameras,
        fps=options.fps,
        duration_s=duration_s,
        images=tuple(picture.file for picture in pictures),
        give_up_ms=options.latency_ms,
        grace_s=options.latency_ms / 1e3 + GRACE_S,
        connect_timeout_s=CONNECT_TIMEOUT_S,
    )


def _run(server: ServerProcess, spec: LoadSpec, latency_ms: float) -> Run:
    server.check()
    server.reset_peak()
    before_s = server.processor_s()
    try:
        load = run_load(spec)
    finally:
        server.check()
    used_s = server.processor_s() - before_s
    return Run(spec.cameras, load.holds(latency_ms), load, used_s, server.peak_bytes())


def _votes(runs: list[Run] | tuple[Run, ...]) -> dict[int, list[bool]]:
    votes: dict[int, list[bool]] = {}
    for run in runs:
        votes.setdefault(run.cameras, []).append(run.held)
    return votes


def _measure_stages(
    options: CapacityOptions, detectors: list[Detector], pictures: tuple[Picture, ...], length_s: float
) -> StagesMs:
    try:
        return measure_stages(detectors, [picture.data for picture in pictures], length_s)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise DetectorError(f"--detector {options.detector}: fails on a picture: {reason}") from error


def _arguments(options: CapacityOptions, most: int) -> list[str]:
    arguments = ["--detector", options.detector, "--workers", str(options.workers)]
    arguments += ["--max-streams", str(most), "--log-level", "warning"]
    if options.detector_options.labels_file:
        arguments += ["--labels", str(options.detector_options.labels_file)]
    for provider in options.detector_options.providers:
        arguments += ["--provider", provider]
    return arguments


def _raise_file_limit() -> int:
    """Let server and generator have as many connections as the system allows; give how many that is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CAMERAS + SPARE_FILES
    limit = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return max(1, limit - SPARE_FILES)


def counted(number: int, noun: str) -> str:
    """Give a number with its noun, e.g. ``1 camera``, ``2 cameras``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listed(stages_ms: StagesMs) -> str:
    return " + ".join(f"{name} {used_ms:.2f}" for name, used_ms in stages_ms.items())


def _in_words(run: Run, latency_ms: float) -> str:
    if not run.held:
        return f"not held: {run.load.why_not(latency_ms)}"
    load = run.load
    return f"held, p50 {load.p50_ms:.0f} ms, p99 {load.p99_ms:.0f} ms, slowest {load.slowest_ms:.0f} ms"
