"""`python -m bench NAME`: run one measure, print its table, and keep it as JSON if asked to."""

import json
import platform
import sys
from pathlib import Path
from typing import Annotated

import typer

from bench import detector, footprint, kernels, overload, peers, restarts, servers, streams, street
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


def _show(json_file: Path | None, *reports: Report) -> None:
    for report in reports:
        report.print()
    machine = {"machine": platform.machine(), "python": platform.python_version(), **cores_and_load()}
    typer.echo(f"machine: {machine}")
    if json_file is not None:
        figures = {"machine": machine, "reports": [report.to_json() for report in reports]}
        json_file.write_text(json.dumps(figures, indent=2, allow_nan=False) + "\n")


@app.command("kernels")
def kernels_command(json_file: Json = None, quick: Quick = False) -> None:
    """Each kernel against NumPy or OpenCV, after checking that the answers are equal."""
    _show(json_file, kernels.measure(quick=quick))


@app.command("footprint")
def footprint_command(json_file: Json = None, quick: Quick = False) -> None:
    """Processor time of the commands, memory of the agent and the server at work."""
    _show(json_file, footprint.measure(quick=quick))


@app.command("street")
def street_command(json_file: Json = None, quick: Quick = False) -> None:
    """Run the main job: an RTSP camera at 10 fps through agent and server; frames answered, latency."""
    _show(json_file, street.measure(quick=quick))


@app.command("restarts")
def restarts_command(json_file: Json = None, quick: Quick = False) -> None:
    """How soon a camera's frames are answered again after camera or server come back."""
    _show(json_file, restarts.measure(quick=quick))


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
    _show(json_file, *servers.measure(quick=quick, only=only, chart_file=chart))


@app.command("detector")
def detector_command(json_file: Json = None, quick: Quick = False) -> None:
    """With the model: the server's processor time a frame against the bare calls; two workers against one."""
    _show(json_file, detector.measure(quick=quick))


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
    _show(json_file, peers.measure(quick=quick, cameras=cameras))


@app.command("streams")
def streams_command(json_file: Json = None, quick: Quick = False) -> None:
    """Hold a hundred streams for minutes, open and close thousands: memory, descriptors, threads."""
    _show(json_file, streams.measure(quick=quick))


try:
    app()
except (LoadError, RuntimeError, ValueError) as error:
    sys.exit(f"bench: {error}")
