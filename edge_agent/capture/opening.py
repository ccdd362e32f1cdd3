"""Opening a camera, device or file with PyAV: each stage within its timeout, each failure in plain words."""

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from edge_agent.capture.body import HttpBody
from edge_agent.capture.errors import CaptureError
from edge_agent.capture.explain import explained
from edge_agent.capture.reach import is_address, reach
from edge_agent.capture.redirect import refuse_redirect
from edge_agent.capture.source import Source, rtp_transport
from edge_agent.capture.stage import Bounds, Stage
from edge_agent.config import CameraConfig
from edge_agent.config.source_url import SourceKind, source_kind, source_path, source_url
from edge_agent.state import CameraState

DEFAULT_PORTS: Final = MappingProxyType({"rtsp": 554, "rtsps": 322, "http": 80, "https": 443})
FIRST_STAGES: Final = MappingProxyType(
    {
        "rtsp": "RTSP handshake",
        "http": "HTTP request",
        "device": "opening the device",
        "file": "opening the file",
    }
)
RTSP_CODECS: Final = MappingProxyType({"h264": "H.264", "hevc": "H.265", "mjpeg": "MJPEG"})
SOCKET_BUFFER_BYTES: Final = 1 << 20
"""A large keyframe comes in one burst; the default loses part of it over UDP."""
REORDER_DELAY_US: Final = 200_000
"""How long a UDP packet that is missing is waited for."""
MOST_USERINFO_BYTES: Final = 127
"""FFmpeg's RTSP client cuts off what is longer, and the camera would refuse the rest."""


def open_source(camera: CameraConfig, password: str | None, on_stage: Callable[[Stage], None]) -> Source:
    """Open a camera, device or file; `on_stage` is told each stage as it begins.

    Every stage has its own timeout: TCP connect, the first answer and the handshake `connect_timeout_s`
    each, the first packet that and `read_timeout_s`. Raises CaptureError, whose text and chain hold no
    password.
    """
    kind, bounds = source_kind(camera.url), Bounds.of(camera)
    place = _reached(camera, bounds, on_stage) if kind in ("rtsp", "http") else source_path(camera.url)
    if kind in ("device", "file"):
        on_stage(Stage(FIRST_STAGES[kind], bounds.handshake_s))
    container, body = _opened(camera, password, kind, place)
    try:
        stream = _video_stream(container, kind, place)
    except CaptureError:
        container.close()
        if body:
            body.close()
        raise
    on_stage(Stage("waiting for the first packet", bounds.read_s))
    return Source(container, stream, camera, body)


def _reached(camera: CameraConfig, bounds: Bounds, on_stage: Callable[[Stage], None]) -> str:
    """Do the first stages of a network source; gives HOST:PORT for people."""
    parts = urlsplit(camera.url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def connecting() -> None:
        on_stage(Stage(f"TCP connect to {place}", bounds.connect_s))

    if not is_address(host):
        on_stage(Stage(f"resolving {host}", bounds.resolve_s))
    with reach(host, port, camera.connect_timeout_s, connecting) as connection:
        kind = source_kind(camera.url)
        on_stage(Stage(FIRST_STAGES[kind], bounds.handshake_s))
        if kind == "rtsp" and camera.user is not None:
            refuse_redirect(connection, camera.url, place, camera.connect_timeout_s)
    return place


def _opened(
    camera: CameraConfig, password: str | None, kind: SourceKind, place: str
) -> tuple[InputContainer, HttpBody | None]:
    url = f"file:{place}" if kind == "file" else source_url(camera, password)
    userinfo_bytes = len(url) - len(camera.url) - 1
    if kind == "rtsp" and userinfo_bytes > MOST_USERINFO_BYTES:
        raise CaptureError(
            f"user and password are too long for RTSP: {userinfo_bytes} bytes when percent-encoded,"
            f" expected at most {MOST_USERINFO_BYTES}",
            CameraState.AUTHENTICATION_FAILED,
        )
    began_s = time.monotonic()
    try:
        return _containers(url, camera, kind)
    except (av.error.FFmpegError, OSError) as error:
        timed_out = time.monotonic() - began_s >= camera.connect_timeout_s
        problem = explained(error, camera, kind, place, timed_out=timed_out)
    raise problem  # outside the handler: the library's exception holds the URL with the password


def _containers(url: str, camera: CameraConfig, kind: SourceKind) -> tuple[InputContainer, HttpBody | None]:
    timeout_s = (camera.connect_timeout_s, camera.read_timeout_s)
    body = HttpBody(url, *timeout_s) if kind == "http" else None
    try:
        container = av.open(
            body or url,
            "r",
            format={"http": "mpjpeg", "device": "v4l2"}.get(kind),
            options=dict(_options(camera, kind)),
            metadata_errors="replace",
            timeout=timeout_s,
        )
    except BaseException:
        if body:
            body.close()
        raise
    return container, body


def _options(camera: CameraConfig, kind: SourceKind) -> Mapping[str, str]:
    """Give FFmpeg's options: hand out the first packet as soon as it is there, and nothing but video."""
    if kind == "file":
        return {}
    first_packet_only = {"probesize": "32", "fpsprobesize": "0", "analyzeduration": "200000"}
    if kind != "rtsp":
        return first_packet_only
    return first_packet_only | {
        "fflags": "+noparse+nofillin",  # pictures are put together by PictureAssembler
        "rtsp_transport": rtp_transport(camera),
        "allowed_media_types": "video",
        "buffer_size": str(SOCKET_BUFFER_BYTES),
        "max_delay": str(REORDER_DELAY_US),
    }


def _video_stream(container: InputContainer, kind: SourceKind, place: str) -> VideoStream:
    if not container.streams.video:
        raise CaptureError(f"{place} offers no video" + (" in its SDP" if kind == "rtsp" else ""))
    stream = container.streams.video[0]
    codec = stream.codec_context.codec.name if stream.codec_context else "an unknown codec"
    if codec == "an unknown codec" or (kind == "rtsp" and codec not in RTSP_CODECS):
        expected = f"; expected {', '.join(RTSP_CODECS.values())}" if kind == "rtsp" else ""
        raise CaptureError(f"{place} offers video in {codec}{expected}")
    return stream
