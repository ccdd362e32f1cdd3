"""What a capture counts, from its start to its stop."""

from dataclasses import dataclass


@dataclass(slots=True)
class CaptureCounters:
    """Written by the capture thread alone; other threads read single values, each of them whole."""

    opens: int = 0
    """Times the source was opened."""
    failed_opens: int = 0
    packets: int = 0
    """Compressed pictures that arrived."""
    frames_seen: int = 0
    """Pictures that could have been delivered: decoded, or whole JPEGs."""
    frames_thinned: int = 0
    """Left out of these, to come down to the wanted rate."""
    frames_skipped: int = 0
    """Pictures that were not decoded, and so are not among those seen: the wanted rate does not need them."""
    frames_still: int = 0
    """Held back by the motion gate, of those that thinning left."""
    frames_corrupt: int = 0
    """Damaged pictures, packets that did not decode, and what depended on them: not delivered."""
    frames_too_large: int = 0
    """Pictures that no quality or size brought below the limit on image bytes."""
    frames_delivered: int = 0
