"""Watching a camera with its motion gate for a while: what would be sent, and a picture of what it sees."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from cython_ext.motion_grid import MotionGrid
from edge_agent.capture.errors import CaptureError
from edge_agent.capture.gate import KeyframeGate
from edge_agent.capture.luma import luma_of
from edge_agent.capture.motion import MotionGate, Why
from edge_agent.capture.motion_masks import covered_cells
from edge_agent.capture.opening import open_source
from edge_agent.capture.privacy import PrivacyMasks
from edge_agent.capture.source import Source
from edge_agent.capture.thinning import Thinner
from edge_agent.capture.timing import PresentationClock
from edge_agent.config import CameraConfig

KEYFRAME_TIMEOUT_S = 30.0
QUALITY = 90
MOVES, MOVED, IGNORED = (255, 0, 0), (255, 160, 0), (0, 0, 60)
"""The colours of what moves in the picture, of what moved at any time, and of what is ignored."""


@dataclass(frozen=True, slots=True)
class MotionReport:
    """What the gate made of a camera."""

    frames: int
    """Frames at the wanted rate."""
    sent: int
    """How many of them would have been sent."""
    reasons: Mapping[str, int]
    """How many for each reason, `Why`; those not sent are `still`."""
    mean_share: float
    """Of the picture's cells that are not ignored, how many moved, over all frames; 0 to 1."""
    peak_share: float
    """The largest share that moved at once."""
    ignored_share: float
    """Of all cells, how many are ignored: by motion masks and by privacy masks."""
    picture: Path
    """The frame with the largest share, drawn upon: a JPEG."""


def try_motion(camera: CameraConfig, password: str | None, seconds: float, picture: Path) -> MotionReport:
    """Watch a camera, device or file for some seconds of its time; a file is not held back to its pace.

    Raises CaptureError, with one line that says what is wrong.
    """
    sight = _Sight(camera)
    with open_source(camera, password, lambda _: None) as source:
        for decoded, captured_s in _pictures(source, camera.fps, seconds):
            sight.look(decoded, captured_s)
    return sight.report(picture)


class _Sight:
    """A gate at work, and the most that it has seen."""

    def __init__(self, camera: CameraConfig) -> None:
        self._gate = MotionGate(camera.motion_sensitivity, camera.motion_masks + camera.privacy_masks)
        self._camera = camera
        self._privacy = PrivacyMasks(camera.privacy_masks)
        self._reasons: Counter[str] = Counter()
        self._shares: list[float] = []
        self._peak: tuple[float, NDArray[np.uint8], NDArray[np.uint8]] | None = None
        self._moved: NDArray[np.bool_] | None = None

    def look(self, decoded: av.VideoFrame, captured_s: float) -> None:
        decoded = self._privacy.applied(decoded)
        decision = self._gate.decide(luma_of(decoded), captured_s, watched=False)
        self._reasons[decision.why.value] += 1
        self._shares.append(decision.share)
        foreground = self._gate.foreground
        assert foreground is not None  # noqa: S101 -- there is one since the first decision
        if self._moved is None or self._moved.shape != foreground.shape:
            self._moved = np.zeros(foreground.shape, np.bool_)
            self._peak = None
        self._moved |= foreground != 0
        if self._peak is None or decision.share > self._peak[0] or not self._peak[0]:
            pixels = np.asarray(decoded.to_ndarray(format="rgb24"), np.uint8)
            self._peak = (decision.share, pixels, foreground.copy())

    def report(self, picture: Path) -> MotionReport:
        grid = self._gate.grid
        if grid is None or self._peak is None or self._moved is None:
            raise CaptureError("no picture in it that can be decoded")
        _, pixels, moves = self._peak
        ignored = covered_cells(grid, self._camera.motion_masks)
        private = covered_cells(grid, self._camera.privacy_masks)
        _tint(pixels, grid, ignored, IGNORED, 0.6)
        _tint(pixels, grid, self._moved & (moves == 0), MOVED, 0.25)
        _tint(pixels, grid, moves != 0, MOVES, 0.5)
        _save(pixels, picture)
        still = self._reasons[Why.STILL.value]
        return MotionReport(
            frames=len(self._shares),
            sent=len(self._shares) - still,
            reasons=dict(self._reasons),
            mean_share=float(np.mean(self._shares)),
            peak_share=max(self._shares),
            ignored_share=float(np.mean(ignored | private)),
            picture=picture,
        )


def _pictures(source: Source, fps: float, seconds: float) -> Iterator[tuple[av.VideoFrame, float]]:
    """Decode what can be trusted, at the wanted rate, each with its time."""
    clock, trusted, thinner = PresentationClock(), KeyframeGate(), Thinner(fps)
    asked_s = time.monotonic()
    first_s: float | None = None
    for coded in source.pictures():
        packet = coded.packet
        clock.arrived(source.presentation_s(packet.pts), coded.arrived_s)
        is_keyframe = packet.is_keyframe or source.is_intra_only
        if trusted.wants(packet.pts, is_keyframe=is_keyframe, is_corrupt=packet.is_corrupt):
            for decoded in _decoded(source, packet, trusted):
                presentation_s = source.presentation_s(decoded.pts)
                if source.kind == "file" and presentation_s is not None:
                    captured_s = presentation_s
                else:
                    captured_s = clock.captured_s(presentation_s, time.monotonic())
                first_s = captured_s if first_s is None else first_s
                if captured_s - first_s >= seconds:
                    return
                if thinner.keep(captured_s):
                    yield decoded, captured_s
        if first_s is None and time.monotonic() - asked_s >= KEYFRAME_TIMEOUT_S:
            raise CaptureError(f"packets come, but no keyframe within {KEYFRAME_TIMEOUT_S:g} s")


def _decoded(
    source: Source, packet: "av.Packet[av.VideoStream]", trusted: KeyframeGate
) -> list[av.VideoFrame]:
    try:
        pictures = source.decoder.decode(packet)
    except av.error.FFmpegError:
        trusted.damaged()
        return []
    return [picture for picture in pictures if trusted.passes(picture.pts, is_corrupt=picture.is_corrupt)]


def _tint(
    pixels: NDArray[np.uint8],
    grid: MotionGrid,
    cells: NDArray[np.bool_],
    colour: tuple[int, int, int],
    share: float,
) -> None:
    """Mix a colour into the pixels of some cells."""
    chosen = np.repeat(np.repeat(cells, grid.side_px, axis=0), grid.side_px, axis=1)
    chosen = chosen[: grid.height, : grid.width]
    pixels[chosen] = (pixels[chosen] * (1 - share) + np.array(colour) * share).astype(np.uint8)


def _save(pixels: NDArray[np.uint8], picture: Path) -> None:
    data: bytes = simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=QUALITY, colorspace="RGB")
    try:
        picture.write_bytes(data)
    except OSError as error:
        raise CaptureError(f"cannot write the picture {picture}: {error.strerror}") from None
