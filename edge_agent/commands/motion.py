"""The command to try a camera's motion gate: test-motion."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from edge_agent.commands.camera import (
    ConnectTimeoutS,
    Fps,
    MotionMasks,
    MotionSensitivity,
    Password,
    PasswordFile,
    ReadTimeoutS,
    TransportOption,
    User,
)
from edge_agent.commands.tried import tried_camera
from edge_agent.commands.typed import given, typed_polygons, usage_errors
from edge_agent.config.keys import CAMERA_RULES
from edge_agent.config.rules import checked
from edge_agent.errors import UsageError

app = typer.Typer()

LONGEST_S = 3600.0


@app.command("test-motion")
def try_motion_gate(
    context: typer.Context,
    camera: Annotated[
        str, typer.Argument(metavar="NAME|URL", help="A camera of the configuration, or a URL.")
    ],
    picture: Annotated[
        Path, typer.Option("--picture", metavar="FILE", help="Write what the gate sees to this JPEG file.")
    ],
    seconds: Annotated[
        float, typer.Option("--seconds", help="For how long to watch: 1 to 3600; what moves should move.")
    ] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    motion_sensitivity: MotionSensitivity = None,
    motion_masks: MotionMasks = None,
    user: User = None,
    password: Password = None,
    password_file: PasswordFile = None,
    fps: Fps = None,
    transport: TransportOption = None,
    connect_timeout_s: ConnectTimeoutS = None,
    read_timeout_s: ReadTimeoutS = None,
) -> None:
    """Watch a camera with its motion gate, and draw what it sees.

    Red moves in the picture, orange moved at some time, blue is ignored, black is private. Sensitivity and
    motion masks may be tried on any camera; the other options about the camera are for a URL.
    """
    if not 1 <= seconds <= LONGEST_S:
        raise UsageError(f"--seconds: found {seconds:g}, expected a number from 1 to {LONGEST_S:g}")
    config, secret = tried_camera(
        context.obj,
        camera,
        user,
        password,
        password_file,
        fps=fps,
        transport=transport,
        connect_timeout_s=connect_timeout_s,
        read_timeout_s=read_timeout_s,
    )
    tried = given(motion_sensitivity=motion_sensitivity, motion_masks=typed_polygons(motion_masks))
    with usage_errors():
        config = replace(config, **checked(tried, CAMERA_RULES))
    from edge_agent.capture.motion_trial import try_motion

    report = try_motion(config, secret, seconds, picture)
    if as_json:
        typer.echo(json.dumps(asdict(report), default=str))
        return
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(report.reasons.items()))
    typer.echo(f"frames:   {report.sent} of {report.frames} would have been sent ({reasons})")
    typer.echo(
        f"moving:   {report.mean_share:.2%} of the picture on average, {report.peak_share:.2%} at most"
    )
    typer.echo(f"ignored:  {report.ignored_share:.1%} of the picture")
    typer.echo(f"picture:  {report.picture}")
