"""The command line of the central server."""

import math
import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from central_server import operate
from central_server.errors import ServerError
from central_server.records import command as records

PROGRAM = "central-server"

app = typer.Typer(
    name=PROGRAM,
    help="Detects objects in the frames of many cameras and streams the boxes back.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
# What the extra "server" installs.
EXTRA = frozenset({"cv2", "grpc_health", "onnxruntime", "simplejpeg", "uvloop"})
LOG_LEVELS = ("debug", "info", "warning", "error")


def _a_number(value: float | None) -> float | None:
    if value is not None and math.isnan(value):  # NaN is in every range.
        raise typer.BadParameter("found nan, expected a number")
    return value


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"central-server {version('camera-ai')}")
        raise typer.Exit


@app.callback()
def callback(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Hold what all commands share."""


@app.command()
def serve(
    listen: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Where; port 0 takes a free one.", envvar="CAMERA_AI_LISTEN"),
    ] = "127.0.0.1:50051",
    detector: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="coco-ssd, onnx:FILE, simulated:MS, or an installed one.",
            envvar="CAMERA_AI_DETECTOR",
        ),
    ] = "coco-ssd",
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Threads that detect; by default one for each usable core."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="One label a line, for a model that does not carry its own."),
    ] = None,
    provider: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="onnxruntime execution provider; again for more, in order of preference."
        ),
    ] = None,
    min_score: Annotated[
        float, typer.Option(min=0, max=1, callback=_a_number, help="Least score for streams that do not say.")
    ] = 0.5,
    max_streams: Annotated[int, typer.Option(min=1, max=100_000, help="More are refused.")] = 256,
    max_age_ms: Annotated[
        int,
        typer.Option(
            min=1,
            max=3_600_000,
            help="Frames older than this are not worked on, where the agent does not say.",
        ),
    ] = 1000,
    max_image_bytes: Annotated[
        int, typer.Option(min=1024, max=256 << 20, help="Larger images are refused.")
    ] = 4 << 20,
    max_image_pixels: Annotated[
        int, typer.Option(min=64, max=1 << 30, help="Images of more pixels are refused.")
    ] = 4096 * 4096,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM certificate chain.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its PEM private key.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow plaintext beyond loopback.")] = False,
    drain_grace_s: Annotated[
        float,
        typer.Option(
            min=0, max=3600, callback=_a_number, help="Seconds for answering accepted frames after SIGTERM."
        ),
    ] = 10.0,
    control: Annotated[
        Path | None,
        typer.Option(
            metavar="SOCKET",
            help="A Unix socket for wish and gateways, mode 0600.",
            envvar="CAMERA_AI_CONTROL",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the gateways' records are kept; without it gateways keep their own.",
            envvar="CAMERA_AI_DATA",
        ),
    ] = None,
    records_days: Annotated[
        float, typer.Option(min=0.01, max=36_500, callback=_a_number, help="Older records go.")
    ] = 90.0,
    records_mb: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Megabytes of records; beyond it the oldest go.")
    ] = 1000,
    log_level: Annotated[str, typer.Option(help=" | ".join(LOG_LEVELS))] = "info",
) -> None:
    """Serve until SIGTERM; prints `listening HOST:PORT` once ready."""
    # Until there is something to drain a signal ends the program at once, Ctrl-C too.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    import asyncio
    import os

    # gRPC reads these when it is imported. Otherwise each stranger's failed handshake is a line in the log;
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # and each message passes through two more threads of gRPC's, at a quarter of the wire's processor time.
    experiments = os.environ.get("GRPC_EXPERIMENTS", "")
    if "event_engine_listener" not in experiments:
        os.environ["GRPC_EXPERIMENTS"] = f"{experiments},-event_engine_listener".lstrip(",")

    import uvloop

    from central_server.cores import usable_cores
    from central_server.detectors.detector import DetectorOptions
    from central_server.image import ImageLimits
    from central_server.listen import TlsFiles, parse_address
    from central_server.log import start_log
    from central_server.records.store import Retention
    from central_server.server import ServeOptions
    from central_server.server import serve as run_server

    if log_level not in LOG_LEVELS:
        raise typer.BadParameter(
            f"found {log_level!r}, expected one of {', '.join(LOG_LEVELS)}", param_hint="--log-level"
        )
    if (tls_certificate is None) != (tls_key is None):
        raise typer.BadParameter(
            "--tls-certificate and --tls-key go together", param_hint="--tls-certificate"
        )
    start_log(log_level)
    options = ServeOptions(
        listen=parse_address(listen),
        detector=detector,
        workers=workers or usable_cores(),
        detector_options=DetectorOptions(labels, tuple(provider or ("CPUExecutionProvider",))),
        min_score=min_score,
        max_streams=max_streams,
        max_age_ms=max_age_ms,
        limits=ImageLimits(max_image_bytes, max_image_pixels),
        tls=TlsFiles(tls_certificate, tls_key) if tls_certificate and tls_key else None,
        insecure=insecure,
        drain_grace_s=drain_grace_s,
        control=control,
        data=data,
        retention=Retention(records_days * 86400, records_mb << 20),
    )
    # Its loop costs a frame less processor time than asyncio's own.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_server(options))


@app.command()
def detectors() -> None:
    """List the detectors that are installed."""
    from central_server.detectors.registry import known_names

    for name in known_names():
        typer.echo(name)


@app.command()
def capacity(
    detector: Annotated[
        str,
        typer.Option(metavar="NAME", help="As of serve.", envvar="CAMERA_AI_DETECTOR"),
    ] = "coco-ssd",
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="As of serve: by default one for each usable core.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(metavar="FILE", help="As of serve.")] = None,
    provider: Annotated[list[str] | None, typer.Option(metavar="NAME", help="As of serve.")] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="WxH", help="Pixels of the frames; by default 768x576, or as they are given."),
    ] = None,
    quality: Annotated[int, typer.Option(min=1, max=100, help="Of the JPEGs that are made.")] = 80,
    picture: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A picture of your own to send; again for more, in turn."),
    ] = None,
    fps: Annotated[
        float, typer.Option(min=0.01, max=1000, callback=_a_number, help="Frames a second of each camera.")
    ] = 10.0,
    latency_ms: Annotated[
        float,
        typer.Option(min=1, max=60_000, callback=_a_number, help="Within which every frame is answered."),
    ] = 100.0,
    duration_s: Annotated[
        float,
        typer.Option(
            "--duration-s", "--duration", min=0.1, max=600, callback=_a_number, help="Seconds of each load."
        ),
    ] = 5.0,
    budget_s: Annotated[
        float, typer.Option(min=1, max=86_400, callback=_a_number, help="Seconds for the whole.")
    ] = 110.0,
    price_per_hour: Annotated[
        float | None,
        typer.Option(min=0, max=1e9, callback=_a_number, help="Of this machine; tells the cost of a camera."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures; - for standard output.")
    ] = None,
) -> None:
    """Find how many cameras this machine holds; exit code 1 if not even one.

    Starts a server of its own on loopback and sends it real frames over the real wire, from more and more
    cameras, until answers come late.
    """
    from central_server.capacity import command
    from central_server.capacity.measure import CapacityOptions
    from central_server.capacity.pictures import PictureOptions, parse_size
    from central_server.cores import usable_cores
    from central_server.detectors.detector import DetectorOptions

    wanted_wh = parse_size(size) if size else None if picture else (768, 576)
    options = CapacityOptions(
        detector=detector,
        detector_options=DetectorOptions(labels, tuple(provider or ("CPUExecutionProvider",))),
        workers=workers or usable_cores(),
        pictures=PictureOptions(tuple(picture or ()), wanted_wh, quality),
        fps=fps,
        latency_ms=latency_ms,
        duration_s=duration_s,
        budget_s=budget_s,
    )
    raise typer.Exit(command.run(options, price_per_hour, json_file))


app.add_typer(operate.app)
app.add_typer(records.app, name="records")


def main() -> None:
    """Run the command line; what is expected to go wrong ends in one line."""
    try:
        sys.exit(app(prog_name=PROGRAM, standalone_mode=False))
    except ServerError as error:
        _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        _fail(f"{error.name} is not installed: pip install 'camera-ai[server]'", 1)
    except typer.TyperException as error:
        _fail(f"{error.format_message().rstrip('.')}; see {PROGRAM} --help", error.exit_code)


def _fail(problem: str, exit_code: int) -> NoReturn:
    from central_server.log import visible

    typer.echo(f"{PROGRAM}: {visible(' '.join(problem.split()))}", err=True)
    sys.exit(exit_code)
