"""The command that sets what belongs to the gateway as a whole: set-gateway."""

from typing import Annotated

import typer

from edge_agent.commands.typed import Settings, given, usage_errors
from edge_agent.config.change import SetGateway
from edge_agent.config.keys import GATEWAY_RULES
from edge_agent.config.rules import unknown
from edge_agent.errors import UsageError

app = typer.Typer()


@app.command("set-gateway")
def set_gateway(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Option("--name", help="How the server calls it; the host's name where not set.")
    ] = None,
    max_kbit: Annotated[
        float | None,
        typer.Option("--max-kbit", help="Kilobits a second for all its cameras; no bound where not set."),
    ] = None,
    spool_mb: Annotated[
        int | None,
        typer.Option("--spool-mb", help="Megabytes of records that may wait; 64 where not set."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset", metavar="OPTION", help="Take an option away, like max-kbit; may be repeated."
        ),
    ] = None,
) -> None:
    """Set what belongs to the gateway as a whole."""
    from edge_agent.commands.changing import make

    settings: Settings = context.obj
    values = given(name=name, max_kbit=max_kbit, spool_mb=spool_mb)
    gone = tuple(_unset_key(option) for option in unset or ())
    if not values and not gone:
        raise UsageError("nothing to change: give an option")
    if both := values.keys() & set(gone):
        raise UsageError(f"{min(both)} is both set and unset")
    with usage_errors():
        make(settings.config, SetGateway(values, gone))
    typer.echo("changed the gateway")


def _unset_key(option: str) -> str:
    key = option.removeprefix("--").replace("-", "_")
    if key not in GATEWAY_RULES:
        raise UsageError(f"--unset: {unknown('option', option, GATEWAY_RULES)}")
    return key
