"""The command that adds many cameras at once: import-cameras."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_agent.commands.typed import Settings
from edge_agent.errors import ConfigError, NamesTakenError

if TYPE_CHECKING:
    from edge_agent.commands.camera_table import TableRow

app = typer.Typer()


@app.command("import-cameras")
def import_cameras(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.csv",
            help="Columns name and url, and any of user, password, fps, max-width and the other options of"
            " add-camera; labels are parted by semicolons.",
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
) -> None:
    """Add the cameras of a table: all of them, or none when one row is bad."""
    from edge_agent.commands.camera_table import read_table
    from edge_agent.commands.changing import make
    from edge_agent.config.change import AddCameras
    from edge_agent.config.edit import ConfigEdit

    settings: Settings = context.obj
    rows, bad = read_table(file)
    if dry_run or bad:
        edit = ConfigEdit(settings.config)
        _refuse(file, bad | _taken(rows, edit.camera_names))
        edit.add_cameras({row.name: row.values for row in rows})
        edit.check()
        typer.echo(f"{len(rows)} cameras could be added")
        return
    passwords = {row.name: row.password for row in rows if row.password is not None}
    if rows:
        try:
            make(settings.config, AddCameras({row.name: row.values for row in rows}, passwords))
        except NamesTakenError as error:
            _refuse(file, _taken(rows, error.names))
            raise
    typer.echo(f"added {len(rows)} cameras")


def _taken(rows: "list[TableRow]", names: Collection[str]) -> dict[int, str]:
    return {row.line: f"name: there is a camera {row.name} already" for row in rows if row.name in names}


def _refuse(file: Path, problems: dict[int, str]) -> None:
    if problems:
        lines = [f"{file}:{line}: {problem}" for line, problem in sorted(problems.items())]
        raise ConfigError("\n".join([*lines, "nothing was added"]))
