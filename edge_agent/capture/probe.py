"""Trying a camera once: what it sends, how soon, and a snapshot."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
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
        pictures = _pictures(source, whole)
        first, first_time_s = next(pictures)
        first_keyframe_s = time.monotonic() - began_s
        measured_until_s = time.monotonic() + MEASURED_S
        times_s = [first_time_s]
        for _, time_s in islice(pictures, MEASURED_PICTURES - 1):
            times_s.append(time_s)
            if time.monotonic() >= measured_until_s:
                break
    if snapshot is not None:
        _save(first, snapshot)
    return ProbeReport(
        codec=RTSP_CODECS.get(source.codec, source.codec),
        width=first.width,
        height=first.height,
        frames_per_second=_rate(times_s),
        first_keyframe_s=first_keyframe_s,
        transport=source.transport,
        snapshot=snapshot,
    )


def _pictures(source: Source, camera: CameraConfig) -> Iterator[tuple[Frame, float]]:
    """Give whole pictures with their times in seconds, of the stream if it has any; at least one."""
    maker = FrameMaker(camera, PresentationClock(), CaptureCounters())
    deadline_s = time.monotonic() + KEYFRAME_TIMEOUT_S
    any_came = False
    for coded in source.pictures():
        presentation_s = source.presentation_s(coded.packet.pts)
        for frame in maker.frames(source, coded):
            any_came = True
            yield frame, coded.arrived_s if presentation_s is None else presentation_s
        if not any_came and time.monotonic() >= deadline_s:
            raise CaptureError(f"packets come, but no keyframe within {KEYFRAME_TIMEOUT_S:g} s")
    if not any_came:
        raise CaptureError("no picture in it that can be decoded")


def _rate(times_s: list[float]) -> float:
    length_s = max(times_s) - min(times_s)
    return (len(times_s) - 1) / length_s if length_s > 0 else 0.0


def _save(frame: Frame, snapshot: Path) -> None:
    try:
        snapshot.write_bytes(frame.image_data)
    except OSError as error:
        raise CaptureError(f"cannot write the snapshot {snapshot}: {error.strerror}") from None
