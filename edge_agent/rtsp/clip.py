"""A video file as a camera's material: its pictures in decoding order, in RTP packets, with their times."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from edge_agent.errors import AgentError
from edge_agent.rtsp.packing import ParameterSets, RtpPacker
from edge_agent.rtsp.sdp import VideoDescription

_SERVED = ("h264", "hevc", "mjpeg")
_OPEN_TIMEOUT_S = 5.0
"""For a path that is no plain file."""


class ClipError(AgentError):
    """The file cannot be served as a camera."""


@dataclass(frozen=True, slots=True)
class AccessUnit:
    """One coded picture; times are in seconds from the first picture of the clip's first round."""

    packets: tuple[bytes, ...]
    """RTP packets in order: payloads and markers are final, the rest of the headers is to be stamped."""
    is_keyframe: bool
    decode_s: float
    """When it is due to be sent: with B-frames not when it is due to be shown, and negative at first."""
    presentation_s: float
    duration_s: float


class Clip:
    """A video file that can be served.

    Opening reads its head and packs its first picture, which blocks for some 10 ms. Raises ClipError with
    what is wrong with the file: missing, no video, a codec other than H.264, H.265 and MJPEG, no times,
    pictures that RTP cannot carry.
    """

    def __init__(self, path: Path, parameter_sets: ParameterSets = "everywhere") -> None:
        self.path = path
        self._parameter_sets = parameter_sets
        with self._open() as source:
            packer = RtpPacker(self._video(source), parameter_sets)
            self.description: VideoDescription = packer.description
        if next(self.play(loop=False), None) is None:
            raise ClipError(f"{path}: no picture in its video stream")

    def play(self, *, loop: bool, start_s: float = 0.0) -> Iterator[AccessUnit]:
        """Go through the clip once, or for ever with times that grow on; raises ClipError where it breaks."""
        while True:
            end_s = start_s
            for unit in self._round(start_s):
                end_s = max(end_s, unit.presentation_s + unit.duration_s)
                yield unit
            if not loop:
                return
            start_s = end_s

    def _round(self, start_s: float) -> Iterator[AccessUnit]:
        with self._open() as source:
            try:
                yield from self._units(source, start_s)
            except av.error.FFmpegError as error:
                raise ClipError(f"{self.path}: cannot be read further: {error.strerror}") from None

    def _open(self) -> InputContainer:
        try:
            return av.open(self.path, timeout=_OPEN_TIMEOUT_S)
        except (av.error.FFmpegError, OSError) as error:
            raise ClipError(f"{self.path}: cannot be read as a video: {error.strerror}") from None

    def _video(self, source: InputContainer) -> VideoStream:
        if not source.streams.video:
            raise ClipError(f"{self.path}: no video stream in it")
        stream = source.streams.video[0]
        codec = stream.codec_context.name
        if codec not in _SERVED:
            raise ClipError(f"{self.path}: its video codec is {codec}; expected {', '.join(_SERVED)}")
        return stream

    def _units(self, source: InputContainer, start_s: float) -> Iterator[AccessUnit]:
        stream = self._video(source)
        packer = RtpPacker(stream, self._parameter_sets)
        second = float(stream.time_base or Fraction(1, 90_000))
        usual_duration_s = float(1 / (stream.average_rate or Fraction(25)))
        first_pts: int | None = None
        decode_s = start_s
        for number, packet in enumerate(source.demux(stream)):
            if packet.size == 0:  # the demuxer's own end mark, or a picture that AVI left out
                continue
            if packet.pts is None:
                raise ClipError(f"{self.path}: picture {number} has no time: put the stream into a container")
            if first_pts is None:
                first_pts = packet.pts
            if packet.dts is not None:  # Matroska tells none before the first reordered picture
                decode_s = start_s + (packet.dts - first_pts) * second
            presentation_s = start_s + (packet.pts - first_pts) * second
            duration_s = (packet.duration or 0) * second or usual_duration_s
            is_keyframe = packet.is_keyframe
            packets = packer.pack(packet)
            if not packets:
                raise ClipError(
                    f"{self.path}: RTP cannot carry its {self.description.codec} picture {number}"
                    " (of JPEG it takes baseline 4:2:0 with the standard Huffman tables)"
                )
            yield AccessUnit(packets, is_keyframe, decode_s, presentation_s, duration_s)
