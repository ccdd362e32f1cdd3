"""Opening a camera, device or file with PyAV, and reading its compressed pictures, within timeouts."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self, TypeAlias
from urllib.parse import urlsplit

import av
from av.container import InputContainer
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from edge_agent.capture.errors import CaptureError
from edge_agent.capture.explain import explained
from edge_agent.capture.reach import reach
from edge_agent.config import CameraConfig
from edge_agent.source_url import SourceKind, source_kind, source_path, source_url
from edge_agent.state import CameraState

VideoPacket: TypeAlias = "av.Packet[VideoStream]"

DEFAULT_PORTS: Final = MappingProxyType({"rtsp": 554, "rtsps": 322, "http": 80, "https": 443})
FIRST_STAGES: Final = MappingProxyType(
    {
        "rtsp": "RTSP handshake",
        "http": "HTTP request",
        "device": "opening the device",
        "file": "opening the file",
    }
)
INTRA_ONLY: Final = frozenset({"mjpeg", "rawvideo"})
SOCKET_BUFFER_BYTES: Final = 1 << 20
"""A large keyframe comes in one burst; the default loses part of it over UDP."""
REORDER_DELAY_US: Final = 200_000
"""How long a UDP packet that is missing is waited for."""


@dataclass(frozen=True, slots=True)
class CodedPicture:
    """A compressed picture as it arrived; `packet.size` is 0 once, at the end of a file."""

    packet: VideoPacket
    arrived_s: float
    """time.monotonic()"""


class Source:
    """An open camera, device or file; use it as a context manager, in one thread.

    Its repr, and that of what PyAV holds inside, may contain the password: neither is to be printed.
    """

    def __init__(self, container: InputContainer, stream: VideoStream, camera: CameraConfig) -> None:
        self.kind: SourceKind = source_kind(camera.url)
        self.decoder: VideoCodecContext = stream.codec_context
        # One thread: frame threads delay pictures, and a gateway's cores are shared by many cameras.
        self.decoder.thread_type = "NONE"
        self.decoder.thread_count = 1
        self.stream = stream
        self._container = container
        self._read_timeout_s = camera.read_timeout_s
        self._opened_s = time.monotonic()
        self._seconds_per_tick = float(stream.time_base) if stream.time_base else None

    @property
    def codec(self) -> str:
        """FFmpeg's name: h264, hevc, mjpeg, rawvideo and others."""
        return str(self.decoder.codec.name)

    @property
    def is_intra_only(self) -> bool:
        """Every picture stands by itself, so that one may be left out before it is decoded."""
        return self.codec in INTRA_ONLY

    def presentation_s(self, pts: int | None) -> float | None:
        """Give a presentation time in seconds; None where the source has none that means anything."""
        if pts is None or self._seconds_per_tick is None or self.kind == "http":
            return None  # multipart MJPEG carries no times: FFmpeg counts 25 a second, whatever comes
        return pts * self._seconds_per_tick

    def pictures(self) -> Iterator[CodedPicture]:
        """Read the compressed pictures of the first video stream as they arrive.

        Ends with a file; a camera or device that ends, stalls or fails raises CaptureError.
        """
        packets = self._container.demux(self.stream)
        any_came = False
        while True:
            asked_s = time.monotonic()
            packet = self._next(packets, any_came=any_came)
            arrived_s = time.monotonic()
            if packet is None:
                return
            if self.kind != "file" and arrived_s - asked_s >= self._read_timeout_s:
                # Interrupted by the timeout, FFmpeg hands out the picture that its parser still held.
                raise self._stalled(any_came=True)
            any_came = True
            yield CodedPicture(packet, arrived_s)

    def close(self) -> None:
        """Hang up."""
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self, packets: Iterator[VideoPacket], *, any_came: bool) -> "VideoPacket | None":
        try:
            packet = next(packets, None)
        except av.error.ExitError:
            problem = self._stalled(any_came=any_came)
        except (av.error.FFmpegError, OSError) as error:
            problem = CaptureError(f"reading failed: {error.strerror}")
        else:
            if self.kind == "file" or (packet is not None and packet.size > 0):
                return packet
            return self._ended()
        raise problem  # outside the handler: the library's exception holds the URL with the password

    def _ended(self) -> "VideoPacket | None":
        raise CaptureError(
            "the device ended" if self.kind == "device" else "the camera closed the connection"
        )

    def _stalled(self, *, any_came: bool) -> CaptureError:
        if any_came:
            return CaptureError(f"no packet for {self._read_timeout_s:g} s", CameraState.STALLED)
        waited_s = time.monotonic() - self._opened_s
        after = "PLAY" if self.kind == "rtsp" else "it was opened"
        return CaptureError(f"no packet within {waited_s:.0f} s after {after}")


def open_source(camera: CameraConfig, password: str | None, on_stage: Callable[[str], None]) -> Source:
    """Open a camera, device or file; `on_stage` is told each stage as it begins.

    Every stage has its own timeout: TCP connect and the handshake `connect_timeout_s` each, the first packet
    that and `read_timeout_s`. Raises CaptureError, whose text and chain hold no password.
    """
    kind = source_kind(camera.url)
    place = _reached(camera, on_stage) if kind in ("rtsp", "http") else source_path(camera.url)
    on_stage(FIRST_STAGES[kind])
    container = _container(camera, password, kind, place)
    try:
        stream = _video_stream(container, kind, place)
    except CaptureError:
        container.close()
        raise
    on_stage("waiting for the first packet")
    return Source(container, stream, camera)


def _reached(camera: CameraConfig, on_stage: Callable[[str], None]) -> str:
    """Do the first stage of a network source; gives HOST:PORT for people."""
    parts = urlsplit(camera.url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    on_stage(f"TCP connect to {place}")
    reach(host, port, camera.connect_timeout_s)
    return place


def _container(camera: CameraConfig, password: str | None, kind: SourceKind, place: str) -> InputContainer:
    began_s = time.monotonic()
    try:
        return av.open(
            f"file:{place}" if kind == "file" else source_url(camera, password),
            format={"http": "mpjpeg", "device": "v4l2"}.get(kind),
            options=dict(_options(camera, kind)),
            metadata_errors="replace",
            timeout=(camera.connect_timeout_s, camera.read_timeout_s),
        )
    except (av.error.FFmpegError, OSError) as error:
        timed_out = time.monotonic() - began_s >= camera.connect_timeout_s
        problem = explained(error, camera, kind, place, timed_out=timed_out)
    raise problem  # outside the handler: the library's exception holds the URL with the password


def _options(camera: CameraConfig, kind: SourceKind) -> Mapping[str, str]:
    """Give FFmpeg's options: hand out the first packet as soon as it is there, and nothing but video."""
    if kind == "file":
        return {}
    first_packet_only = {"probesize": "32", "fpsprobesize": "0", "analyzeduration": "200000"}
    if kind != "rtsp":
        return first_packet_only
    over_tcp = camera.transport == "tcp" or camera.url.startswith("rtsps:")
    return first_packet_only | {
        "rtsp_transport": "tcp" if over_tcp else "udp",
        "allowed_media_types": "video",
        "buffer_size": str(SOCKET_BUFFER_BYTES),
        "max_delay": str(REORDER_DELAY_US),
    }


def _video_stream(container: InputContainer, kind: SourceKind, place: str) -> VideoStream:
    if not container.streams.video:
        raise CaptureError(f"{place} offers no video" + (" in its SDP" if kind == "rtsp" else ""))
    stream = container.streams.video[0]
    if stream.codec_context is None:
        raise CaptureError(f"{place} offers video of a codec that FFmpeg does not know")
    return stream
