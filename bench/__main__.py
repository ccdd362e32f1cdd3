"""`python -m bench NAME`: run one measure, print its table, and keep it as JSON if asked to."""

import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from bench import agent, detector, footprint, kernels, overload, peers, restarts, servers, streams, street
from bench.report import Report, cores_and_load
from bench.servers.variants import VARIANTS
from central_server.capacity.load import LoadError

app = typer.Typer(
    help="Measures. Times are of this machine and this run: quote ratios.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

CHARTS = (".svg", ".png")


def _writable(file: Path | None) -> Path | None:
    """Refuse before a long measure what could not be written after it."""
    if file is not None and not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"found no folder {file.absolute().parent}")
    return file


def _chart(file: Path | None) -> Path | None:
    if file is not None and file.suffix not in CHARTS:
        raise typer.BadParameter(f"found {file.name}, expected a name that ends with {' or '.join(CHARTS)}")
    return _writable(file)


Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", callback=_writable, help="Keep the figures as JSON, too."),
]
Quick = Annotated[bool, typer.Option("--quick", help="A short form, under two minutes.")]


def _show(json_file: Path | None, reports: Iterable[Report]) -> None:
    """Print and keep each report as soon as it is there: what breaks the measure off loses no more."""
    # The load before the measure: afterwards it is the measure's own.
    machine = {"machine": platform.machine(), "python": platform.python_version(), **cores_and_load()}
    typer.echo(f"machine: {machine}")
    begun_s, kept = time.monotonic(), []
    for report in reports:
        report.print()
        sys.stdout.flush()
        kept.append(report.to_json())
        if json_file is not None:
            figures = {"machine": machine, "took_s": time.monotonic() - begun_s, "reports": kept}
            _write(json_file, json.dumps(figures, indent=2, allow_nan=False) + "\n")
    typer.echo(f"took {(time.monotonic() - begun_s) / 60:.1f} minutes")


def _one(measure: Callable[..., Report], **options: Any) -> Iterator[Report]:
    yield measure(**options)


def _write(file: Path, text: str) -> None:
    """Write a file as a whole, or leave what is there."""
    if file.exists() and not file.is_file():
        file.write_text(text)
        return
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.write_text(text)
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind, so that everything that was started is ended."""
    sys.exit(128 + number)


@app.command("kernels")
def kernels_command(json_file: Json = None, quick: Quick = False) -> None:
    """Each kernel against NumPy or OpenCV, after checking that the answers are equal."""
    _show(json_file, _one(kernels.measure, quick=quick))


@app.command("footprint")
def footprint_command(json_file: Json = None, quick: Quick = False) -> None:
    """Processor time of the commands, memory of the agent and the server at work."""
    _show(json_file, _one(footprint.measure, quick=quick))


@app.command("agent")
def agent_command(json_file: Json = None, quick: Quick = False) -> None:
    """Compare the agent's processor time with the ffmpeg command line's that does the same, at one camera."""
    _show(json_file, _one(agent.measure, quick=quick))


@app.command("street")
def street_command(json_file: Json = None, quick: Quick = False) -> None:
    """Run the main job: an RTSP camera at 10 fps through agent and server; frames answered, latency."""
    _show(json_file, _one(street.measure, quick=quick))


@app.command("restarts")
def restarts_command(json_file: Json = None, quick: Quick = False) -> None:
    """How soon a camera's frames are answered again after camera or server come back."""
    _show(json_file, _one(restarts.measure, quick=quick))


@app.command("servers")
def servers_command(
    json_file: Json = None,
    quick: Quick = False,
    chart: Annotated[
        Path | None,
        typer.Option(metavar="FILE", callback=_chart, help="Draw the slowest answers; .svg or .png."),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="A,B", help=f"Of {', '.join(v.name for v in VARIANTS)}.")
    ] = None,
) -> None:
    """Six kinds of server, Python and C++ and ours: latency as published, capacity, cost of a frame."""
    _show(json_file, servers.measure(quick=quick, only=only, chart_file=chart))


@app.command("detector")
def detector_command(json_file: Json = None, quick: Quick = False) -> None:
    """With the model: the server's processor time a frame against the bare calls; two workers against one."""
    _show(json_file, _one(detector.measure, quick=quick))


@app.command("overload")
def overload_command(
    json_file: Json = None,
    quick: Quick = False,
    capacity: Annotated[
        int | None, typer.Option(min=1, help="Cameras that fit, where that is known; else it is searched.")
    ] = None,
    max_age_ms: Annotated[int, typer.Option(min=1, help="The frames' maximum age.")] = 100,
) -> None:
    """Twice the cameras that fit: fairness, latency, throughput; a quiet stream beside greedy ones."""
    _show(json_file, overload.measure(quick=quick, capacity=capacity, max_age_ms=max_age_ms))


@app.command("peers")
def peers_command(
    json_file: Json = None,
    quick: Quick = False,
    cameras: Annotated[int, typer.Option(min=1, help="The others: by default half of what fits.")] = (
        peers.CAMERAS
    ),
) -> None:
    """Put one client that freezes, never reads, or leaves beside others: how far their p99 moves."""
    _show(json_file, _one(peers.measure, quick=quick, cameras=cameras))


@app.command("streams")
def streams_command(json_file: Json = None, quick: Quick = False) -> None:
    """Hold a hundred streams for minutes, open and close thousands: memory, descriptors, threads."""
    _show(json_file, streams.measure(quick=quick))


for ending in (signal.SIGTERM, signal.SIGHUP):
    # Whoever has it ignored, as nohup does, wants it so.
    if signal.getsignal(ending) is not signal.SIG_IGN:
        signal.signal(ending, _end)
# It changes gRPC in whoever inherits it: all programs are measured as they come.
os.environ.pop("GRPC_EXPERIMENTS", None)
try:
    app()
except (LoadError, RuntimeError, ValueError, OSError, ImportError) as error:
    sys.exit(f"bench: {error}")
