"""What a capture thread is at, and for how long that may take: what a watch from outside goes by. Pure."""

import time
from dataclasses import dataclass, field

from edge_agent.config import CameraConfig


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of a capture thread's work that is over within a bound, unless a call hangs."""

    name: str
    """In plain words, for a person: TCP connect to HOST:PORT, RTSP handshake."""
    bound_s: float
    """By the stage's own timeouts; a watcher adds its patience."""
    since_s: float = field(default_factory=time.monotonic)
    """time.monotonic() at which it began."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long each stage of a camera takes at most, by the timeouts that it has itself, in seconds."""

    resolve_s: float
    connect_s: float
    handshake_s: float
    read_s: float
    frame_s: float = 10.0
    """To decode, scale and encode one picture: far beyond what any picture takes."""
    close_s: float = 5.0

    @classmethod
    def of(cls, camera: CameraConfig) -> "Bounds":
        """Give those of a camera.

        The system's resolver has timeouts of its own, five seconds for a name server that is dead. A
        handshake is a request of ours, FFmpeg's connection, and its first look at the stream. FFmpeg may
        take twice the timeout of reading to notice.
        """
        return cls(
            resolve_s=2 * camera.connect_timeout_s,
            connect_s=camera.connect_timeout_s,
            handshake_s=4 * camera.connect_timeout_s,
            read_s=camera.connect_timeout_s + 2 * camera.read_timeout_s,
        )
