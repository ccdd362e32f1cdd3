"""`python -m bench NAME`: run one measure, print its table, and keep it as JSON if asked to."""

import json
import platform
from pathlib import Path
from typing import Annotated

import typer

from bench import footprint, kernels, restarts, street
from bench.report import Report, cores_and_load

app = typer.Typer(
    help="Measures. Times are of this machine and this run: quote ratios.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Keep the figures as JSON, too.")]
Quick = Annotated[bool, typer.Option("--quick", help="A short form, under two minutes.")]


def _show(report: Report, json_file: Path | None) -> None:
    report.print()
    machine = {"machine": platform.machine(), "python": platform.python_version(), **cores_and_load()}
    typer.echo(f"machine: {machine}")
    if json_file is not None:
        json_file.write_text(json.dumps({"machine": machine, **report.to_json()}, indent=2) + "\n")


@app.command("kernels")
def kernels_command(json_file: Json = None, quick: Quick = False) -> None:
    """Each kernel against NumPy or OpenCV, after checking that the answers are equal."""
    _show(kernels.measure(quick=quick), json_file)


@app.command("footprint")
def footprint_command(json_file: Json = None, quick: Quick = False) -> None:
    """Processor time of the commands, memory of the agent and the server at work."""
    _show(footprint.measure(quick=quick), json_file)


@app.command("street")
def street_command(json_file: Json = None, quick: Quick = False) -> None:
    """Run the main job: an RTSP camera at 10 fps through agent and server; frames answered, latency."""
    _show(street.measure(quick=quick), json_file)


@app.command("restarts")
def restarts_command(json_file: Json = None, quick: Quick = False) -> None:
    """How soon a camera's frames are answered again after camera or server come back."""
    _show(restarts.measure(quick=quick), json_file)


app()
