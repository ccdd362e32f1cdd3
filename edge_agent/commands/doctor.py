"""The command that says what is wrong, and what to do: doctor."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from edge_agent.commands.typed import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edge_agent.doctor.finding import Finding

app = typer.Typer()


@app.command("doctor")
def doctor(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Cameras; all of them where none is named."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say what is wrong with cameras, network, clock, disk or server, and what to do; exit code 1 then."""
    import os
    from dataclasses import asdict

    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    from edge_agent.doctor.examine import examine, leave_hung_checks

    settings: Settings = context.obj
    findings = examine(settings.config, names or ())
    problems = sum(finding.level == "problem" for finding in findings)
    if as_json:
        told = {"findings": [asdict(finding) for finding in findings], "problems": problems}
        typer.echo(json.dumps(told, indent=2))
    else:
        for line in _lines(findings):
            typer.echo(line)
        typer.echo(f"{problems} {'problem' if problems == 1 else 'problems'}")
    leave_hung_checks(1 if problems else 0)
    raise typer.Exit(1 if problems else 0)


def _lines(findings: "Iterable[Finding]") -> list[str]:
    lines = []
    subject = ""
    for finding in findings:
        if finding.subject != subject:
            subject = finding.subject
            lines.append(subject)
        lines.append(f"  {finding.level.value:8} {finding.found}")
        if finding.advice:
            lines.append(f"  {'':8} -> {finding.advice}")
    return lines
