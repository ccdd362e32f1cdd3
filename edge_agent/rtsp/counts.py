"""What a camera counts."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class CameraCounts:
    """Totals since the camera was started."""

    connections: int = 0
    """RTSP connections that were taken."""
    refused: int = 0
    """Requests with wrong credentials; the first one without any, which asks how, is not one of them."""
    frames: int = 0
    """Pictures that were shown, to however many viewers."""
    dropped_packets: int = 0
    """RTP packets that slow viewers lost."""
    requests: Counter[str] = field(default_factory=Counter)
    """Requests by method; methods that the camera does not know count as `other`."""
