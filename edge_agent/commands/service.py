"""`edge-agent install-service`: the agent as a systemd service, installed, printed or removed."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from edge_agent.commands.typed import Settings
from edge_agent.errors import AgentError, UsageError

app = typer.Typer()


@app.command("install-service")
def install_service(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--print", help="Print the unit, and change nothing.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Stop the service and remove it; what is configured stays.")
    ] = False,
) -> None:
    """Install the agent as a systemd service that starts with the machine; again after each upgrade."""
    from edge_agent.config.file import SYSTEM_PATH, default_path
    from edge_agent.service.unit import folders_needed, installed_program, is_temporary, unit_text

    if show and remove:
        raise UsageError("--print and --remove are not for the same call")
    settings: Settings = context.obj
    if settings.config not in (SYSTEM_PATH, default_path()):
        raise UsageError(f"--config: the service reads {SYSTEM_PATH}; found {settings.config}")
    if show:
        program = installed_program(sys.argv[0])
        typer.echo(unit_text(program, folders_needed(program)), nl=False)
        return
    _demand_root_and_systemd("--remove" if remove else "")
    from edge_agent.service import installation

    if remove:
        installation.remove(typer.echo)
        return
    program = installed_program(sys.argv[0])
    if is_temporary(program):
        typer.echo(f"{program} is among temporary files: when they are cleared away, the service is gone")
    installation.install(unit_text(program, folders_needed(program)), SYSTEM_PATH, typer.echo)


def _demand_root_and_systemd(option: str) -> None:
    if os.geteuid() != 0:
        raise AgentError(f"install-service {option}".rstrip() + " needs root: call it with sudo")
    if not Path("/run/systemd/system").is_dir():
        raise AgentError("no service can be installed: systemd does not run here (no /run/systemd/system)")
