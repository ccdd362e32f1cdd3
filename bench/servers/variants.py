"""The servers that are compared, each started as a program of its own."""

from collections.abc import Callable
from dataclasses import dataclass

from bench import programs
from bench.controls.sync_server import THREADS
from bench.programs import Started
from central_server.cores import usable_cores

CORES = usable_cores()
# More than any run has: what the servers refuse beyond is their default.
MAX_STREAMS = 256


@dataclass(frozen=True, slots=True)
class Work:
    """What a server does for each frame: milliseconds of processor time, or by the wall clock."""

    work_ms: float
    by_wall_clock: bool = False

    @property
    def detector(self) -> str:
        """The option of the servers that know detectors."""
        return f"simulated:{self.work_ms:g}" + (",wall" if self.by_wall_clock else "")

    @property
    def control_options(self) -> tuple[str, ...]:
        """The options of the controls."""
        return ("--work-ms", f"{self.work_ms:g}", "--spin", "wall" if self.by_wall_clock else "cpu")


@dataclass(frozen=True, slots=True)
class Variant:
    """A kind of server; `most_streams` is how many it serves at once, where that is bounded by design."""

    name: str
    title: str
    start: Callable[[Work], Started]
    most_streams: int = MAX_STREAMS


def _control(name: str, *options: str) -> Callable[[Work], Started]:
    return lambda work: programs.module(
        r"listening (\S+)", f"bench.controls.{name}", *work.control_options, *options
    )


def _central(workers: int) -> Callable[[Work], Started]:
    return lambda work: programs.server("--detector", work.detector, "--workers", str(workers))


def _reference(mode: str, workers: int) -> Callable[[Work], Started]:
    return lambda work: programs.reference_server(
        "--detector", work.detector, "--mode", mode, "--workers", str(workers)
    )


SYNC_PYTHON = Variant("sync-python", "sync Python", _control("sync_server"), THREADS)
ASYNCIO_PYTHON = Variant("asyncio-python", "asyncio Python", _control("asyncio_server"))
PYTHON_PROCESSES = Variant(
    "python-processes",
    f"asyncio Python, {CORES} processes",
    _control("processes", "--processes", str(CORES)),
)
CENTRAL = Variant("central", f"central server, {CORES} workers", _central(CORES))
CENTRAL_DOUBLE = Variant("central-double", f"central server, {2 * CORES} workers", _central(2 * CORES))
ASYNC_CPP = Variant("async-cpp", f"async C++, {CORES} threads", _reference("async", CORES))
ASYNC_CPP_DOUBLE = Variant(
    "async-cpp-double", f"async C++, {2 * CORES} threads", _reference("async", 2 * CORES)
)
SYNC_CPP = Variant("sync-cpp", "sync C++", _reference("sync", CORES))

VARIANTS = (
    SYNC_PYTHON,
    ASYNCIO_PYTHON,
    PYTHON_PROCESSES,
    CENTRAL,
    CENTRAL_DOUBLE,
    ASYNC_CPP,
    ASYNC_CPP_DOUBLE,
    SYNC_CPP,
)


def chosen(names: str | None) -> tuple[Variant, ...]:
    """Give the variants with these names, separated by commas; all without any.

    Raises:
        ValueError: a name that there is not.

    """
    if names is None:
        return VARIANTS
    known = {variant.name: variant for variant in VARIANTS}
    wanted = [name.strip() for name in names.split(",")]
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"found {', '.join(unknown)}, expected some of {', '.join(known)}")
    return tuple(variant for variant in VARIANTS if variant.name in wanted)
