"""The command that finds cameras on the network: discover."""

import re
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from edge_agent.commands.typed import Settings, typed_credentials
from edge_agent.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from edge_agent.discovery.device import Answer, Stream
    from edge_agent.discovery.probe import Device

app = typer.Typer()

NOT_OF_A_NAME = re.compile(r"[^a-z0-9]+")
LONGEST_NAME = 40


@app.command()
def discover(
    context: typer.Context,
    user: Annotated[
        str | None, typer.Option("--user", help="The cameras' user: it takes one to ask for streams.")
    ] = None,
    password_file: Annotated[
        str | None,
        typer.Option("--password-file", metavar="FILE", help="A file with the password; - is stdin."),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host", metavar="HOST[:PORT]", help="Ask this device, not the network; may be repeated."
        ),
    ] = None,
    interface: Annotated[
        list[str] | None,
        typer.Option(
            "--interface",
            metavar="ADDRESS",
            help="This machine's IPv4 address to ask from; all interfaces where not given.",
        ),
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout-s", min=0.1, max=60, help="How long the network is listened to.")
    ] = 3.0,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Find ONVIF cameras and the addresses of their streams, with the commands that add them.

    The password goes to every device that answers, as a digest; to be sure of one, name it by --host.
    """
    import asyncio

    try:
        from edge_agent.discovery.device import Credentials, ask_all
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("onveef", "httpx", "defusedxml"):
            raise
        raise UsageError(f"{error.name} is not installed: pip install 'camera-ai[onvif]'") from None
    from edge_agent.config.source_url import Source

    if host and interface:
        raise UsageError("--host and --interface contradict each other: a device is asked by its address")
    user, password = typed_credentials(Source(""), user, None, password_file)
    credentials = None if user is None else Credentials(user, password or "")
    devices = [_named(text) for text in host] if host else _on_the_network(interface, timeout_s)
    answers = asyncio.run(ask_all(devices, credentials))
    settings: Settings = context.obj
    if as_json:
        _print_json(answers)
    else:
        _print_table(answers)
        _print_commands(answers, settings.config, user, password_file)
    if all(answer.problem for answer in answers):
        raise typer.Exit(1)


def _named(text: str) -> "Device":
    from edge_agent.config.address import split_host_port
    from edge_agent.discovery.probe import Device, service_at

    try:
        host, port = split_host_port(text)
    except ValueError as error:
        raise UsageError(f"--host: {error}") from None
    authority = f"[{host}]" if ":" in host else host
    url = f"http://{authority}{'' if port is None else f':{port}'}/onvif/device_service"
    return Device(host, service_at(host, [url]))


def _on_the_network(interface: list[str] | None, timeout_s: float) -> "list[Device]":
    from ipaddress import IPv4Address

    from edge_agent.discovery.probe import DiscoveryError, interfaces, probe

    for address in interface or ():
        try:
            IPv4Address(address)
        except ValueError:
            raise UsageError("--interface: expected an IPv4 address of this machine") from None
    senders = interface or interfaces()
    devices = probe(senders, timeout_s)
    if not devices:
        raise DiscoveryError(
            f"no ONVIF device answered within {timeout_s:g} s, asked from {', '.join(senders)};"
            " is ONVIF switched on in the camera? One on another network is asked by --host"
        )
    return devices


def _print_json(answers: "list[Answer]") -> None:
    import json
    from dataclasses import asdict

    shown = [
        {
            **asdict(answer.device),
            "streams": [asdict(stream) for stream in answer.streams],
            "problem": answer.problem,
        }
        for answer in answers
    ]
    typer.echo(json.dumps(shown, indent=2))


def _print_table(answers: "list[Answer]") -> None:
    rows = [["ADDRESS", "NAME", "MODEL", "PROFILE", "VIDEO", "STREAM"]]
    for answer in answers:
        device = answer.device
        first = [device.address, device.name or "-", device.hardware or "-"]
        for stream in answer.streams:
            rows.append([*first, stream.profile or "-", _video(stream), stream.url or stream.note])
            first = ["", "", ""]
        if answer.problem:
            rows.append([*first, "-", "-", answer.problem])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo(line.rstrip())


def _video(stream: "Stream") -> str:
    size = f"{stream.width}x{stream.height}" if stream.width and stream.height else ""
    rate = f"{stream.fps} fps" if stream.fps else ""
    return " ".join(part for part in (stream.encoding, size, rate) if part) or "-"


def _print_commands(
    answers: "list[Answer]", config: "Path", user: str | None, password_file: str | None
) -> None:
    """Print what adds each stream, ready to be pasted; a password is never in it."""
    from edge_agent.config.file import default_path

    program = ["edge-agent"] if config == default_path() else ["edge-agent", "--config", str(config)]
    options = [] if user is None else ["--user", user]
    if user is not None and password_file not in (None, "-"):
        options += ["--password-file", str(password_file)]
    taken: set[str] = set()
    lines = []
    for answer in answers:
        for stream in answer.streams:
            if stream.url:
                name = _name(answer.device, taken)
                lines.append(shlex.join([*program, "add-camera", name, stream.url, *options]))
                if stream.note:
                    lines.append(f"  # {stream.note}")
    if lines:
        typer.echo("\nTo add one (the name is yours to choose):")
    for line in lines:
        typer.echo(line)


def _name(device: "Device", taken: set[str]) -> str:
    """Propose a name that the configuration allows, and that no other proposal has."""
    words = NOT_OF_A_NAME.sub("-", (device.name or device.hardware or "camera").lower()).strip("-")
    stem = words[:LONGEST_NAME].strip("-") or "camera"
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    taken.add(name)
    return name
