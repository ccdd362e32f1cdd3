"""What the edge agent is told: the central server, the gateway and the cameras, as plain frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Transport = Literal["tcp", "udp"]
Decode = Literal["auto", "all", "reference", "keyframes"]
Motion = Literal["off", "on"]

Polygon = tuple[tuple[float, float], ...]
"""Corners (x, y) as fractions of the frame's width and height, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Where the central server is, and how the channel to it is secured."""

    address: str
    """HOST:PORT; an IPv6 host stands in brackets."""
    ca: str | None = None
    """A PEM file of the authorities to trust; it implies TLS."""
    tls: bool = False
    """TLS with the system's authorities."""
    insecure: bool = False
    """Plaintext beyond loopback, on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraConfig:
    """One camera: where its stream is and what is wanted of it."""

    name: str
    url: str
    """Without credentials; the password is in the secrets file."""
    user: str | None = None
    fps: float = 10.0
    """Frames per second wanted; a camera that delivers more is thinned to it."""
    max_width: int | None = None
    """Wider frames are scaled down to this many pixels; None leaves it to what the server's model can use."""
    jpeg_quality: int = 80
    transport: Transport = "tcp"
    """What carries RTP for an RTSP camera."""
    labels: tuple[str, ...] = ()
    """Only these labels are wanted; empty wants all."""
    min_score: float | None = None
    """Objects below this score are not wanted; None leaves it to the detector."""
    max_age_ms: int = 1000
    """A frame older than this is not worth an answer."""
    decode: Decode = "auto"
    """Which pictures are decoded: auto leaves out what the wanted rate does not need."""
    motion: Motion = "off"
    """Whether still scenes are left out, but for one frame every few seconds."""
    motion_sensitivity: int = 50
    """1 to 100."""
    motion_masks: tuple[Polygon, ...] = ()
    """Regions in which nothing counts as motion."""
    privacy_masks: tuple[Polygon, ...] = ()
    """Regions that are blacked out before a picture leaves the gateway."""
    max_kbit: float | None = None
    """Kilobits a second that its images may take; None sets no bound."""
    loop: bool = False
    """Play a file again from its start when it ends."""
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 5.0
    """Without a packet for this long the camera counts as stalled."""
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """The gateway as a whole."""

    name: str | None = None
    """How the server calls it; None takes the host's name."""
    max_kbit: float | None = None
    """Kilobits a second that the images of all cameras may take together; None sets no bound."""
    spool_mb: int = 64
    """Megabytes of records that wait for the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The whole configuration; cameras are in the order of the file."""

    server: ServerConfig | None
    cameras: Mapping[str, CameraConfig]
    gateway: GatewayConfig = GatewayConfig()
