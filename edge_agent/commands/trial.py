"""The commands to try things with: test-camera, demo-camera."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from edge_agent.commands.camera import (
    ConnectTimeoutS,
    Password,
    PasswordFile,
    ReadTimeoutS,
    TransportOption,
    User,
)
from edge_agent.commands.tried import tried_camera
from edge_agent.commands.typed import typed_credentials
from edge_agent.errors import UsageError

if TYPE_CHECKING:
    from edge_agent.rtsp.auth import Credentials

app = typer.Typer()

PACKAGED_CLIP = Path(__file__).parents[1] / "media" / "walkers.mp4"


@app.command("test-camera")
def try_camera(
    context: typer.Context,
    camera: Annotated[
        str, typer.Argument(metavar="NAME|URL", help="A camera of the configuration, or a URL.")
    ],
    snapshot: Annotated[
        Path | None,
        typer.Option("--snapshot", metavar="FILE", help="Save the first picture to this JPEG file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    user: User = None,
    password: Password = None,
    password_file: PasswordFile = None,
    transport: TransportOption = None,
    connect_timeout_s: ConnectTimeoutS = None,
    read_timeout_s: ReadTimeoutS = None,
) -> None:
    """Open a camera and say what it delivers. The options about the camera are for a URL."""
    config, secret = tried_camera(
        context.obj,
        camera,
        user,
        password,
        password_file,
        transport=transport,
        connect_timeout_s=connect_timeout_s,
        read_timeout_s=read_timeout_s,
    )
    from edge_agent.capture.probe import probe

    report = probe(config, secret, snapshot)
    if as_json:
        typer.echo(json.dumps(asdict(report), default=str))
        return
    typer.echo(f"codec:           {report.codec}" + (f" over {report.transport}" if report.transport else ""))
    typer.echo(f"size:            {report.width} x {report.height} px")
    typer.echo(f"frame rate:      {report.frames_per_second:.1f} frames/s")
    typer.echo(f"first keyframe:  after {report.first_keyframe_s:.2f} s")
    if report.snapshot is not None:
        typer.echo(f"snapshot:        {report.snapshot}")


@app.command("demo-camera")
def demo_camera(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A video file; without one, the packaged clip.")
    ] = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where to serve; port 0 takes a free one.")
    ] = "127.0.0.1:0",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve beyond this machine: RTSP is plaintext.")
    ] = False,
    user: User = None,
    password: Password = None,
    password_file: PasswordFile = None,
    auth: Annotated[
        Literal["basic", "digest"], typer.Option("--auth", help="How the password is asked for.")
    ] = "digest",
    once: Annotated[
        bool, typer.Option("--once", help="Play the file once, rather than again and again.")
    ] = False,
) -> None:
    """Serve a video file as a live RTSP camera, at its own pace, until SIGTERM or Ctrl-C."""
    import asyncio

    path = PACKAGED_CLIP if file is None else file
    host, port = _listen_address(listen, insecure=insecure)
    credentials = _demo_credentials(user, password, password_file, auth)
    asyncio.run(_serve_until_stopped(path, host, port, credentials, loop=not once))


async def _serve_until_stopped(
    path: Path, host: str, port: int, credentials: "Credentials | None", *, loop: bool
) -> None:
    import asyncio
    import contextlib
    import signal

    from edge_agent.rtsp.camera import serve

    serving = asyncio.ensure_future(
        serve(path, host, port, auth=credentials, loop=loop, on_listening=_say_listening)
    )
    for stop in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(stop, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _say_listening(url: str) -> None:
    typer.echo(f"listening {url}")


def _listen_address(text: str, *, insecure: bool) -> tuple[str, int]:
    from edge_agent.config.address import is_loopback, split_host_port

    host, colon, port = text.rpartition(":")
    if not colon:
        raise UsageError("--listen: the port is missing; expected HOST:PORT")
    try:
        # Port 0, for a free one, is no port that a URL may have.
        host, _ = split_host_port(host)
    except ValueError as error:
        raise UsageError(f"--listen: {error}; expected HOST:PORT") from None
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise UsageError("--listen: the port is not a number from 0 to 65535; expected HOST:PORT")
    if not is_loopback(host) and not insecure:
        raise UsageError(f"--listen: {host} is not loopback: give --insecure to serve beyond this machine")
    return host, int(port)


def _demo_credentials(
    user: str | None, password: str | None, password_file: str | None, auth: Literal["basic", "digest"]
) -> "Credentials | None":
    from edge_agent.config.source_url import Source
    from edge_agent.rtsp.auth import Credentials

    user, password = typed_credentials(Source(""), user, password, password_file)
    if user is None or password is None:
        return None
    return Credentials(user=user, password=password, scheme=auth)
