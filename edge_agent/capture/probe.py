"""Trying a camera once: what it sends, how soon, and a snapshot."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from edge_agent.capture.counters import CaptureCounters
from edge_agent.capture.errors import CaptureError
from edge_agent.capture.frames import FrameMaker
from edge_agent.capture.opening import RTSP_CODECS, open_source
from edge_agent.capture.source import Source
from edge_agent.capture.timing import PresentationClock
from edge_agent.config import CameraConfig
from edge_agent.frame import Frame

KEYFRAME_TIMEOUT_S = 30.0
MEASURED_PICTURES = 50
MEASURED_S = 2.0
EVERY_PICTURE_FPS = 1000.0


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What a camera was found to send."""

    codec: str
    width: int
    """Pixels, as the camera sends it."""
    height: int
    frames_per_second: float
    """From presentation times, over two seconds or 50 pictures; 0 when only one came."""
    first_keyframe_s: float
    """Seconds from the first attempt to connect to the first whole picture."""
    transport: str | None
    """TCP or UDP for an RTSP camera, None for anything else."""
    snapshot: Path | None
    """Where that picture was saved as a JPEG."""


def probe(camera: CameraConfig, password: str | None, snapshot: Path | None) -> ProbeReport:
    """Open a camera, device or file, look at some two seconds of it, and save its first picture if asked.

    Raises CaptureError, with one line that says what is wrong.
    """
    began_s = time.monotonic()
    whole = replace(camera, max_width=None, fps=EVERY_PICTURE_FPS)
    with open_source(camera, password, lambda _: None) as source:
        first, times_s = _looked_at(source, whole)
    if snapshot is not None:
        _save(first, snapshot)
    return ProbeReport(
        codec=RTSP_CODECS.get(source.codec, source.codec),
        width=first.width,
        height=first.height,
        frames_per_second=_rate(times_s),
        first_keyframe_s=first.captured_s - began_s,
        transport=source.transport,
        snapshot=snapshot,
    )


def _looked_at(source: Source, camera: CameraConfig) -> tuple[Frame, list[float]]:
    """Give the first whole picture, and the times in seconds of all that came, the stream's if it has any."""
    maker = FrameMaker(camera, PresentationClock(), CaptureCounters())
    began_s = time.monotonic()
    first: Frame | None = None
    times_s: list[float] = []
    for coded in source.pictures():
        if coded.packet.size > 0:
            presentation_s = source.presentation_s(coded.packet.pts)
            times_s.append(coded.arrived_s if presentation_s is None else presentation_s)
        for frame in maker.frames(source, coded):
            first = first or frame
        looked_s = time.monotonic() - began_s
        if first and (looked_s >= MEASURED_S or len(times_s) >= MEASURED_PICTURES):
            break
        if looked_s >= KEYFRAME_TIMEOUT_S:
            raise CaptureError(f"packets come, but no keyframe within {KEYFRAME_TIMEOUT_S:g} s")
    if first is None:
        raise CaptureError("no picture in it that can be decoded")
    return first, times_s


def _rate(times_s: list[float]) -> float:
    length_s = max(times_s) - min(times_s)
    return (len(times_s) - 1) / length_s if length_s > 0 else 0.0


def _save(frame: Frame, snapshot: Path) -> None:
    try:
        snapshot.write_bytes(frame.image_data)
    except OSError as error:
        raise CaptureError(f"cannot write the snapshot {snapshot}: {error.strerror}") from None
