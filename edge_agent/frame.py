"""One captured picture with its identity, ready to be sent."""

from dataclasses import dataclass

from edge_agent.config import Polygon


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture of one camera: who took it, which it is, when; and its compressed image."""

    camera: str
    frame_id: int
    """Strictly increasing for the camera's life in this process, across reconnects."""
    capture_time_ns: int
    """Nanoseconds since the Unix epoch by the gateway's clock: for people and records; it decides nothing."""
    captured_s: float
    """The same instant by time.monotonic(), from arrival and presentation times: ages count from here."""
    image_data: bytes
    """A whole JPEG (baseline or progressive)."""
    width: int
    """Pixels of the JPEG."""
    height: int
    """Pixels of the JPEG."""
    privacy_masks: tuple[Polygon, ...] = ()
    """The regions that were black before it was made: where others hold by now, it is not to be sent."""

    def __repr__(self) -> str:
        size = f"{self.width}x{self.height}, {len(self.image_data)} bytes"
        return f"Frame({self.camera!r}, {self.frame_id}, {size})"
