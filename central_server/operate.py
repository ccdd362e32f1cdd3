"""The commands for whoever operates a running server: wish and gateways, over its --control socket."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from central_server.errors import OptionError, ServerError

app = typer.Typer()

TIMEOUT_S = 10.0
# A gateway with a thousand cameras of long names takes a quarter of a megabyte.
MAX_ANSWER_BYTES = 4 << 20

SocketOption = Annotated[
    Path,
    typer.Option("--socket", metavar="SOCKET", help="As of serve --control.", envvar="CAMERA_AI_CONTROL"),
]


@app.command()
def wish(
    camera: Annotated[str, typer.Argument(metavar="CAMERA", help="The camera's name on its gateway.")],
    control: SocketOption,
    gateway: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Needed where several have such a camera, or none watches now."),
    ] = None,
    fps: Annotated[
        float | None, typer.Option(help="Frames a second, 0.1 to 60; 0 gives the rate back to the agent.")
    ] = None,
    watched: Annotated[
        bool | None,
        typer.Option("--watched/--not-watched", help="Someone is looking: nothing is held back meanwhile."),
    ] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'X,Y X,Y X,Y'",
            help="A region where motion is ignored, in fractions of the frame; again for more. All at once.",
        ),
    ] = None,
    no_masks: Annotated[bool, typer.Option("--no-masks", help="Take the server's regions away.")] = False,
) -> None:
    """Wish something of a camera; it stands until it is ended or the server ends.

    The gateway's own masks, of privacy above all, are never lifted by this.
    """
    asked: list[dict[str, Any]] = []
    if fps is not None:
        asked.append({"fps": fps})
    if watched is not None:
        asked.append({"watched": watched})
    if mask and no_masks:
        raise OptionError("--mask and --no-masks contradict each other")
    if mask or no_masks:
        asked.append({"masks": [_polygon(text) for text in mask or ()]})
    if not asked:
        raise OptionError("nothing is wished: give --fps, --watched, --not-watched, --mask or --no-masks")
    for wished in asked:
        question = {"command": "wish", "gateway": gateway, "camera": camera, **wished}
        answer = next(_ask(control, question))
        named = answer["gateway"] or "without a name"
        told = answer["told"]
        how = "told" if told else "it stands, no agent watches now"
        typer.echo(f"gateway {_plain(named)}, camera {_plain(camera)}: {next(iter(wished))}: {how}")


@app.command()
def gateways(
    control: SocketOption,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object for each.")] = False,
) -> None:
    """List the agents that watch for wishes: gateway, version, since when, cameras."""
    watching = list(_ask(control, {"command": "gateways"}))
    if as_json:
        for agent in watching:
            typer.echo(json.dumps(agent))
        return
    if not watching:
        typer.echo("no agent watches", err=True)
        return
    rows = [["GATEWAY", "VERSION", "SINCE", "CAMERAS"]]
    for agent in watching:
        cameras = ", ".join(agent["cameras"])
        rows.append([agent["gateway"] or "-", agent["agent_version"] or "-", agent["since"], cameras or "-"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo(_plain(line.rstrip()))


def _polygon(text: str) -> list[list[float]]:
    """Read X,Y X,Y X,Y; the server checks the figures."""
    try:
        pairs = [[float(part) for part in pair.split(",")] for pair in text.split()]
    except ValueError:
        pairs = []
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise OptionError(f"--mask: found {text[:40]!r}, expected 'X,Y X,Y X,Y' with fractions from 0 to 1")
    return pairs


def _ask(control: Path, question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the answers to one question, up to the one that ends them."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(str(control))
            connection.sendall(json.dumps(question).encode() + b"\n")
            # The server may end the connection once it has answered.
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as answers:
                while line := answers.readline(MAX_ANSWER_BYTES):
                    answer = _object(line)
                    if "error" in answer:
                        raise ServerError(str(answer["error"]))
                    if "end" in answer:
                        return
                    yield answer
                raise ServerError(f"--socket {control}: the server ended before it had answered")
    except OSError as error:
        raise ServerError(f"--socket {control}: {error.strerror or error}") from None
    except (ValueError, TypeError):
        raise ServerError(f"--socket {control}: what answers there is no central server") from None


def _object(line: bytes) -> dict[str, Any]:
    answer = json.loads(line)
    if not isinstance(answer, dict):
        raise TypeError("found no JSON object")
    return answer


def _plain(text: str) -> str:
    from central_server.log import visible

    return visible(text)
