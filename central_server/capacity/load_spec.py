"""What the load generator is told."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from central_server.errors import ServerError

MAX_CAMERAS = 10_000
# A run longer than an hour is a mistake, and so is a load that fills the memory with its own figures.
MAX_S = 3600.0
MAX_FRAMES = 2_000_000
# Clients that start in bunches, as published: ten at a time.
BUNCH = 10


class LoadError(ServerError):
    """The load could not be run: what was found, in one line."""


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """A load of cameras, each with its fixed schedule of instants.

    Attributes:
        address: HOST:PORT of the server, plaintext.
        cameras: how many; each has a connection and a call of its own, as agents have.
        fps: frames a second of each camera.
        fps_of_camera: one for each camera, instead of `fps`; empty for all alike.
        duration_s: each camera has duration_s * fps frames, at least one.
        images: files that are sent as they are, in turn; empty for random bytes.
        payload_bytes: how many random bytes a frame has where there are no images.
        max_age_ms: sent with each frame; None leaves it to the server.
        start_pause_ms: None spreads the cameras evenly over the period. A number starts them in
            bunches of ten this far apart, the ten of a bunch at one instant.
        window: at most so many unanswered frames a camera; None for no bound, as an open loop demands.
        give_up_ms: the run ends with the first frame that is later than this or not detected;
            None goes on to the end.
        grace_s: how long after the last frame's instant answers are waited for.
        connect_timeout_s: how long all connections together may take.

    Raises:
        ValueError: a figure that is out of its range, named.

    """

    address: str
    cameras: int
    fps: float = 10.0
    fps_of_camera: tuple[float, ...] = ()
    duration_s: float = 10.0
    images: tuple[Path, ...] = ()
    payload_bytes: int = 60_000
    max_age_ms: int | None = None
    start_pause_ms: float | None = None
    window: int | None = None
    give_up_ms: float | None = None
    grace_s: float = 5.0
    connect_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        _check("cameras", self.cameras, 1, MAX_CAMERAS)
        for fps in (self.fps, *self.fps_of_camera):
            _check("fps", fps, 1e-3, 1e4)
        _check("duration_s", self.duration_s, 1e-3, MAX_S)
        _check("payload_bytes", self.payload_bytes, 0, 256 << 20)
        _check("grace_s", self.grace_s, 0, MAX_S)
        _check("connect_timeout_s", self.connect_timeout_s, 1e-3, MAX_S)
        _check("max_age_ms", self.max_age_ms or 0, 0, 2**32 - 1)
        _check("start_pause_ms", self.start_pause_ms or 0, 0, 1e6)
        _check("give_up_ms", self.give_up_ms or 0, 0, 1e9)
        if self.window is not None:
            _check("window", self.window, 1, 1 << 20)
        if self.fps_of_camera and len(self.fps_of_camera) != self.cameras:
            raise ValueError(
                f"fps_of_camera: found {len(self.fps_of_camera)} rates, expected {self.cameras}, one a camera"
            )
        _check("frames", sum(self.frames_of(camera) for camera in range(self.cameras)), 1, MAX_FRAMES)

    def rate_of(self, camera: int) -> float:
        """Give a camera's frames a second."""
        return self.fps_of_camera[camera] if self.fps_of_camera else self.fps

    def frames_of(self, camera: int) -> int:
        """How many frames a camera has in the whole run."""
        return max(1, int(self.duration_s * self.rate_of(camera) + 1e-9))

    def phase_s(self, camera: int) -> float:
        """When a camera's first frame is due, from the start."""
        if self.start_pause_ms is not None:
            return camera // BUNCH * self.start_pause_ms / 1e3
        return camera / self.cameras / self.rate_of(camera)

    @property
    def last_due_s(self) -> float:
        """When the last frame of all is due, from the start."""
        return max(
            self.phase_s(camera) + (self.frames_of(camera) - 1) / self.rate_of(camera)
            for camera in range(self.cameras)
        )

    def to_json(self) -> str:
        """Write it for the generator's process."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "LoadSpec":
        """Read it in the generator's process.

        Raises:
            ValueError: no such thing.

        """
        fields = json.loads(text)
        fields["images"] = tuple(map(Path, fields.get("images", ())))
        fields["fps_of_camera"] = tuple(fields.get("fps_of_camera", ()))
        try:
            return cls(**fields)
        except TypeError as error:
            raise ValueError(f"found {sorted(fields)}, which are not a load's: {error}") from error


def _check(name: str, value: float, least: float, most: float) -> None:
    if math.isnan(value) or not least <= value <= most:
        raise ValueError(f"{name}: found {value:g}, expected {least:g} to {most:g}")
