"""What is wanted of a camera's frames at this moment: the configuration, as server and budget bend it."""

from dataclasses import dataclass

from edge_agent.config import CameraConfig, Polygon


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Replaced whole by the event loop, read by the capture thread once a frame: no lock is needed."""

    fps: float
    """Frames a second."""
    quality: int
    """Of the JPEGs, 1 to 100."""
    max_width: int | None = None
    """Wider frames are scaled down to this many pixels; None leaves it to `input_wh`."""
    input_wh: tuple[int, int] | None = None
    """Pixels that the server's model looks at; None where the server did not say."""
    shrink: float = 1.0
    """The share of its width and height that a frame may keep beyond that, for want of bandwidth."""
    limit_bytes: int | None = None
    """The largest image that the server takes."""
    watched: bool = False
    """Someone is looking: the motion gate stays open."""
    server_masks: tuple[Polygon, ...] = ()
    """Regions to ignore for motion that were drawn elsewhere, beside the camera's own."""

    @classmethod
    def of(cls, camera: CameraConfig) -> "Wanted":
        """Give what the configuration alone wants."""
        return cls(fps=camera.fps, quality=camera.jpeg_quality, max_width=camera.max_width)
