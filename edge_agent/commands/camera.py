"""The commands that change cameras: add-camera, set-camera, remove-camera."""

from pathlib import Path
from typing import Annotated

import typer

from edge_agent.commands.typed import (
    Settings,
    given,
    typed_credentials,
    typed_polygons,
    typed_source,
    usage_errors,
)
from edge_agent.config import Decode, Motion, Transport
from edge_agent.config.change import AddCameras, RemoveCamera, SetCamera
from edge_agent.config.keys import CAMERA_RULES, camera_from
from edge_agent.config.rules import unknown
from edge_agent.config.source_url import Source, redacted
from edge_agent.errors import UsageError

app = typer.Typer()

URL_HELP = (
    "rtsp://, rtsps://, http:// or https:// (MJPEG), a video device like /dev/video0, or a file."
    " A user and password in it may be raw or percent-encoded; the password is kept apart."
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The camera's name: letters, digits, '.', '_' and '-'.")
]
Fps = Annotated[
    float | None, typer.Option("--fps", help="Frames per second wanted, 0.1 to 60; 10 where not set.")
]
MaxWidth = Annotated[
    int | None, typer.Option("--max-width", metavar="PIXELS", help="Scale wider frames down to this.")
]
JpegQuality = Annotated[int | None, typer.Option("--jpeg-quality", help="1 to 100; 80 where not set.")]
TransportOption = Annotated[
    Transport | None,
    typer.Option("--transport", help="What carries RTP from an RTSP camera; tcp where not set."),
]
User = Annotated[
    str | None, typer.Option("--user", help="The camera's user; the password is asked for where not given.")
]
Password = Annotated[
    str | None, typer.Option("--password", help="Others on this machine can see it here: rather use a file.")
]
PasswordFile = Annotated[
    str | None, typer.Option("--password-file", metavar="FILE", help="A file with the password; - is stdin.")
]
Labels = Annotated[
    list[str] | None, typer.Option("--label", help="Only objects of this label are wanted; may be repeated.")
]
MinScore = Annotated[
    float | None, typer.Option("--min-score", help="Only objects of at least this score are wanted, 0 to 1.")
]
MaxAgeMs = Annotated[
    int | None, typer.Option("--max-age-ms", help="Older frames are not looked at; 1000 where not set.")
]
DecodeOption = Annotated[
    Decode | None,
    typer.Option("--decode", help="Which pictures are decoded; auto, where not set, as few as --fps needs."),
]
MotionOption = Annotated[
    Motion | None,
    typer.Option("--motion", help="on: of a still scene only a frame every few seconds; off where not set."),
]
MotionSensitivity = Annotated[
    int | None, typer.Option("--motion-sensitivity", help="1 to 100; 50 where not set.")
]
POLYGON = "X,Y X,Y X,Y"
MotionMasks = Annotated[
    list[str] | None,
    typer.Option(
        "--motion-mask",
        metavar=POLYGON,
        help="A region to ignore, its corners from 0 to 1; may be repeated. All are set anew.",
    ),
]
PrivacyMasks = Annotated[
    list[str] | None,
    typer.Option(
        "--privacy-mask",
        metavar=POLYGON,
        help="A region that is blacked out before a picture leaves the gateway; may be repeated."
        " All are set anew.",
    ),
]
MaxKbit = Annotated[
    float | None,
    typer.Option("--max-kbit", help="Kilobits a second that its pictures may take; no bound where not set."),
]
Loop = Annotated[bool | None, typer.Option("--loop/--no-loop", help="Play a file again when it ends.")]
ConnectTimeoutS = Annotated[
    float | None,
    typer.Option(
        "--connect-timeout-s",
        help="The longest for TCP connect and for the handshake; 5 where not set.",
    ),
]
ReadTimeoutS = Annotated[
    float | None,
    typer.Option("--read-timeout-s", help="Stalled after so many seconds of silence; 5 where not set."),
]
Enabled = Annotated[
    bool | None, typer.Option("--enabled/--disabled", help="Whether the camera is captured by run.")
]


@app.command("add-camera")
def add_camera(
    context: typer.Context,
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help=URL_HELP)],
    user: User = None,
    password: Password = None,
    password_file: PasswordFile = None,
    fps: Fps = None,
    max_width: MaxWidth = None,
    jpeg_quality: JpegQuality = None,
    transport: TransportOption = None,
    labels: Labels = None,
    min_score: MinScore = None,
    max_age_ms: MaxAgeMs = None,
    decode: DecodeOption = None,
    motion: MotionOption = None,
    motion_sensitivity: MotionSensitivity = None,
    motion_masks: MotionMasks = None,
    privacy_masks: PrivacyMasks = None,
    max_kbit: MaxKbit = None,
    loop: Loop = None,
    connect_timeout_s: ConnectTimeoutS = None,
    read_timeout_s: ReadTimeoutS = None,
    enabled: Enabled = None,
) -> None:
    """Add a camera."""
    from edge_agent.commands.changing import make

    settings: Settings = context.obj
    source = typed_source(url, credentials=user is None)
    user, password = typed_credentials(source, user, password, password_file)
    values = given(
        url=source.url,
        user=user,
        fps=fps,
        max_width=max_width,
        jpeg_quality=jpeg_quality,
        transport=transport,
        labels=labels,
        min_score=min_score,
        max_age_ms=max_age_ms,
        decode=decode,
        motion=motion,
        motion_sensitivity=motion_sensitivity,
        motion_masks=typed_polygons(motion_masks),
        privacy_masks=typed_polygons(privacy_masks),
        max_kbit=max_kbit,
        loop=loop,
        connect_timeout_s=connect_timeout_s,
        read_timeout_s=read_timeout_s,
        enabled=enabled,
    )
    with usage_errors():
        camera = camera_from(name, values, Path.cwd())
    make(settings.config, AddCameras({name: values}, {} if password is None else {name: password}))
    typer.echo(f"added {name}: {redacted(camera, password)}")


@app.command("set-camera")
def set_camera(
    context: typer.Context,
    name: Name,
    url: Annotated[str | None, typer.Option("--url", help=URL_HELP)] = None,
    user: User = None,
    password: Password = None,
    password_file: PasswordFile = None,
    fps: Fps = None,
    max_width: MaxWidth = None,
    jpeg_quality: JpegQuality = None,
    transport: TransportOption = None,
    labels: Labels = None,
    min_score: MinScore = None,
    max_age_ms: MaxAgeMs = None,
    decode: DecodeOption = None,
    motion: MotionOption = None,
    motion_sensitivity: MotionSensitivity = None,
    motion_masks: MotionMasks = None,
    privacy_masks: PrivacyMasks = None,
    max_kbit: MaxKbit = None,
    loop: Loop = None,
    connect_timeout_s: ConnectTimeoutS = None,
    read_timeout_s: ReadTimeoutS = None,
    enabled: Enabled = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset", metavar="OPTION", help="Take an option away, like max-width; may be repeated."
        ),
    ] = None,
) -> None:
    """Change some options of a camera; the others stay as they are."""
    from edge_agent.commands.changing import make

    settings: Settings = context.obj
    source = Source("") if url is None else typed_source(url, credentials=user is None)
    user, password = typed_credentials(source, user, password, password_file, user_elsewhere=True)
    values = given(
        url=source.url or None,
        user=user,
        fps=fps,
        max_width=max_width,
        jpeg_quality=jpeg_quality,
        transport=transport,
        labels=labels,
        min_score=min_score,
        max_age_ms=max_age_ms,
        decode=decode,
        motion=motion,
        motion_sensitivity=motion_sensitivity,
        motion_masks=typed_polygons(motion_masks),
        privacy_masks=typed_polygons(privacy_masks),
        max_kbit=max_kbit,
        loop=loop,
        connect_timeout_s=connect_timeout_s,
        read_timeout_s=read_timeout_s,
        enabled=enabled,
    )
    gone = [_unset_key(option) for option in unset or ()]
    if not values and not gone and password is None:
        raise UsageError("nothing to change: give an option")
    if both := values.keys() & set(gone):
        raise UsageError(f"{min(both)} is both set and unset")
    with usage_errors():
        make(settings.config, SetCamera(name, values, tuple(gone), password))
    typer.echo(f"changed {name}")


@app.command("remove-camera")
def remove_camera(context: typer.Context, name: Name) -> None:
    """Remove a camera and its password."""
    from edge_agent.commands.changing import make

    settings: Settings = context.obj
    make(settings.config, RemoveCamera(name))
    typer.echo(f"removed {name}")


@app.command("enable")
def enable(context: typer.Context, name: Name) -> None:
    """Let a camera be captured again."""
    _enable(context, name, enabled=True)


@app.command("disable")
def disable(context: typer.Context, name: Name) -> None:
    """Leave a camera out, and keep what is set for it."""
    _enable(context, name, enabled=False)


def _enable(context: typer.Context, name: str, *, enabled: bool) -> None:
    from edge_agent.commands.changing import make

    settings: Settings = context.obj
    make(settings.config, SetCamera(name, {"enabled": enabled}))
    typer.echo(f"{'enabled' if enabled else 'disabled'} {name}")


def _unset_key(option: str) -> str:
    key = option.removeprefix("--").replace("-", "_")
    key = {"label": "labels", "motion_mask": "motion_masks", "privacy_mask": "privacy_masks"}.get(key, key)
    known = {**{known: None for known in CAMERA_RULES if known != "url"}, "password": None}
    if key not in known:
        raise UsageError(f"--unset: {unknown('option', option, known)}")
    return key
