"""The commands that show cameras: list-cameras, show-camera. A password is only ever said to be set."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer

from edge_agent.commands.typed import Settings
from edge_agent.config import CameraConfig

app = typer.Typer()

Json = Annotated[bool, typer.Option("--json", help="As JSON.")]


@app.command("list-cameras")
def list_cameras(context: typer.Context, as_json: Json = False) -> None:
    """List the cameras."""
    from edge_agent.config.file import load
    from edge_agent.config.secrets import Secrets

    settings: Settings = context.obj
    cameras = load(settings.config).cameras.values()
    secrets = Secrets.load(settings.config)
    shown = [_shown(camera, secrets.password(camera.name)) for camera in cameras]
    if as_json:
        typer.echo(json.dumps(shown, indent=2))
        return
    if not shown:
        typer.echo("no camera yet; add one with `edge-agent add-camera NAME URL`", err=True)
        return
    columns = ("name", "url", "user", "password", "fps", "enabled")
    rows = [[column.upper() for column in columns]]
    rows += [[_cell(camera[column]) for column in columns] for camera in shown]
    for line in _aligned(rows):
        typer.echo(line)


@app.command("show-camera")
def show_camera(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The camera's name.")],
    as_json: Json = False,
) -> None:
    """Show all that is set for one camera."""
    from edge_agent.config.file import load_camera

    settings: Settings = context.obj
    shown = _shown(*load_camera(settings.config, name))
    if as_json:
        typer.echo(json.dumps(shown, indent=2))
        return
    for line in _aligned([[f"{key}:", _cell(value)] for key, value in shown.items()]):
        typer.echo(line)


def _shown(camera: CameraConfig, password: str | None) -> dict[str, object]:
    values = asdict(camera)
    name, url, user = values.pop("name"), values.pop("url"), values.pop("user")
    return {
        "name": name,
        "url": url,
        "user": user,
        "password": "not set" if password is None else "set",
        **values,
    }


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case tuple():
            return ", ".join(word if isinstance(word, str) else _polygon(word) for word in value) or "-"
        case _:
            return str(value)


def _polygon(points: Iterable[tuple[float, float]]) -> str:
    return "[" + " ".join(f"{x_norm:g},{y_norm:g}" for x_norm, y_norm in points) + "]"


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
