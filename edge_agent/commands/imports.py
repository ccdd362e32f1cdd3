"""The command that adds many cameras at once: import-cameras."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_agent.commands.typed import Settings
from edge_agent.errors import ConfigError

if TYPE_CHECKING:
    from edge_agent.commands.camera_table import TableRow
    from edge_agent.config.edit import ConfigEdit

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
    from edge_agent.config.edit import ConfigEdit, editing

    settings: Settings = context.obj
    rows, bad = read_table(file)
    if dry_run or bad:
        edit = ConfigEdit(settings.config)
        _add(edit, file, rows, bad)
        edit.check()
        typer.echo(f"{len(rows)} cameras could be added")
        return
    with editing(settings.config) as edit:
        _add(edit, file, rows, bad)
    typer.echo(f"added {len(rows)} cameras")


def _add(edit: "ConfigEdit", file: Path, rows: "list[TableRow]", bad: dict[int, str]) -> None:
    taken = {
        row.line: f"name: there is a camera {row.name} already"
        for row in rows
        if row.name in edit.camera_names
    }
    if problems := bad | taken:
        lines = [f"{file}:{line}: {problem}" for line, problem in sorted(problems.items())]
        raise ConfigError("\n".join([*lines, "nothing was added"]))
    edit.add_cameras({row.name: row.values for row in rows})
    for row in rows:
        edit.set_password(row.name, row.password)
