"""The command line of the edge agent.

Here and in the modules that hold the commands, only what is light is imported at the top: gRPC, NumPy and
PyAV are imported by the commands that need them, so that the others answer at once.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from edge_agent.commands import (
    camera,
    discover,
    doctor,
    gateway,
    imports,
    listing,
    motion,
    service,
    status,
    trial,
)
from edge_agent.commands.typed import Settings, usage_errors
from edge_agent.errors import AgentError, UsageError

PROGRAM = "edge-agent"
INTERRUPTED = 130
# What the extra "edge" installs.
EXTRA = frozenset({"av", "rich", "simplejpeg", "tomlkit"})

app = typer.Typer(
    help="Capture this gateway's cameras and have their frames looked at by the central server.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (by default sys.argv's) and give its exit code; expected errors are one line."""
    try:
        return app(args=arguments, prog_name=PROGRAM, standalone_mode=False) or 0
    except AgentError as error:
        _complain(str(error))
        return error.exit_code
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        _complain(f"{error.name} is not installed: pip install 'camera-ai[edge]'")
        return 1
    except typer.TyperException as error:
        _complain(error.format_message())
        context: typer.Context | None = getattr(error, "ctx", None)
        typer.echo(f"Try '{context.command_path if context else PROGRAM} --help'.", err=True)
        return error.exit_code
    except typer.Abort:
        return INTERRUPTED


def _complain(problem: str) -> None:
    from edge_agent.log import error_prefix

    prefix = error_prefix(sys.stderr)
    for line in problem.split("\n"):
        typer.echo(f"{prefix}{PROGRAM}: {line}", err=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"{PROGRAM} {version('camera-ai')}")
        raise typer.Exit


@app.callback()
def configure(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            envvar="CAMERA_AI_CONFIG",
            # Whoever may not read it may yet be let in by the agent's socket.
            readable=False,
            help="The configuration; by default /etc/camera-ai/agent.toml for root,"
            " else ~/.config/camera-ai/agent.toml.",
        ),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option("--log-level", help="The least that is logged."),
    ] = "info",
    version: Annotated[  # noqa: ARG001 -- its callback answers
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Take the options that stand before any command."""
    import logging

    from edge_agent.config.file import default_path

    logging.basicConfig(level=log_level.upper(), format=f"{PROGRAM}: %(message)s")
    context.obj = Settings(config=config or default_path())


@app.command("set-server")
def set_server(
    context: typer.Context,
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The central server.")],
    ca: Annotated[
        Path | None,
        typer.Option("--ca", metavar="FILE", help="TLS, trusting the authorities in this PEM file."),
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="TLS, trusting the system's authorities.")] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Plaintext, although the server is beyond this machine.")
    ] = False,
) -> None:
    """Set the central server. Beyond loopback it takes --ca, --tls or --insecure."""
    from edge_agent.commands.changing import make
    from edge_agent.config.change import SetServer
    from edge_agent.config.keys import server_from

    settings: Settings = context.obj
    table: dict[str, object] = {"address": address}
    if ca is not None:
        table["ca"] = str(_pem_file(ca))
    table |= {key: True for key, given in {"tls": tls, "insecure": insecure}.items() if given}
    with usage_errors():
        server_from(table, Path.cwd())
    make(settings.config, SetServer(table))
    typer.echo(f"server: {address}")


@app.command("run")
def run(
    context: typer.Context,
    results: Annotated[
        str | None,
        typer.Option(
            "--results", metavar="FILE", help="Write each answer as a line of JSON to this file; - is stdout."
        ),
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="Show a live table of the cameras.")] = False,
) -> None:
    """Capture the cameras and send their frames, until SIGTERM or Ctrl-C."""
    import os

    # The connection's state is told in words of our own; gRPC's are for its developers.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    from edge_agent import runner

    settings: Settings = context.obj
    raise typer.Exit(runner.run(settings.config, results, table))


def _pem_file(path: Path) -> Path:
    from edge_agent.config.authorities import read_authorities

    try:
        read_authorities(path)
    except ValueError as error:
        raise UsageError(f"--ca: {error}") from None
    return path.absolute()


for commands in (camera, listing, gateway, imports, status, doctor, trial, motion, discover, service):
    app.add_typer(commands.app)


if __name__ == "__main__":
    sys.exit(main())
