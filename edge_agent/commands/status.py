"""The commands that speak with the running agent: status, report-reading."""

import json
import time
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from edge_agent.commands.typed import Settings, given, usage_errors
from edge_agent.errors import UsageError

app = typer.Typer()

NOT_WELL_EXIT_CODE = 3
WATCH: dict[str, Any] = {"command": "status", "watch": True}
RETRY_S = 1.0
# Where no terminal says how wide it is: lines are not to be cut for a file.
WIDE_CHARACTERS = 200


@app.command("status")
def status(
    context: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", help="Again each second, until Ctrl-C.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="As JSON; with --watch an object a line, one a second.")
    ] = False,
) -> None:
    """Show how the running agent and its cameras are. Exit code 3: not all is well; 4: no agent runs."""
    from edge_agent.control.client import answers, ask

    settings: Settings = context.obj
    if not watch:
        told = ask(settings.config, {"command": "status"})
        if as_json:
            typer.echo(json.dumps(told, indent=2))
        else:
            _print(told)
        raise typer.Exit(NOT_WELL_EXIT_CODE if told["problems"] else 0)
    if not as_json:
        _repaint(settings.config)
    for told in answers(settings.config, WATCH):
        typer.echo(json.dumps(told))


# What begins with a minus and is no option is a value: it freezes.
@app.command("report-reading", context_settings={"ignore_unknown_options": True})
def report_reading(
    context: typer.Context,
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="The device's name.")],
    value: Annotated[float, typer.Argument(metavar="VALUE", help="What it has measured.")],
    unit: Annotated[str | None, typer.Option("--unit", help="Of the value, like C or lux.")] = None,
    location: Annotated[str | None, typer.Option("--location", help="Where the device is.")] = None,
    battery_percent: Annotated[float | None, typer.Option("--battery-percent", help="Its battery.")] = None,
    device_status: Annotated[str | None, typer.Option("--status", help="How it says it is.")] = None,
    firmware_version: Annotated[str | None, typer.Option("--firmware-version", help="Its firmware.")] = None,
) -> None:
    """Hand a device's reading to the running agent, which brings it to the server."""
    from edge_agent.control.client import ask

    settings: Settings = context.obj
    options = given(
        unit=unit,
        location=location,
        battery_percent=battery_percent,
        status=device_status,
        firmware_version=firmware_version,
    )
    with usage_errors():
        ask(settings.config, {"command": "report-reading", "device": device, "value": value, **options})


def _print(told: dict[str, Any]) -> None:
    from rich.console import Console

    from edge_agent.table import drawn

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE_CHARACTERS)
    console.print(drawn(told, console.width))


def _repaint(config_path: Path) -> NoReturn:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from edge_agent.control.client import answers
    from edge_agent.control.protocol import NoAgentError
    from edge_agent.table import drawn

    console = Console()
    if not console.is_terminal:
        raise UsageError("--watch needs a terminal; into a file or program give --json as well")
    with Live(console=console, auto_refresh=False) as live:
        while True:
            try:
                for told in answers(config_path, WATCH):
                    live.update(drawn(told, console.width), refresh=True)
            except NoAgentError as error:
                # It is perhaps being upgraded: whoever watches wants to see it come back.
                live.update(Text(str(error)), refresh=True)
            time.sleep(RETRY_S)
