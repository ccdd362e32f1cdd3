"""From compressed pictures to frames: decoded where needed, thinned, then encoded."""

import time
from collections.abc import Iterator
from typing import Protocol

import av
from av.bitstream import BitStreamFilterContext

from edge_agent.capture.counters import CaptureCounters
from edge_agent.capture.encode import EncodedImage, JpegEncoder
from edge_agent.capture.gate import KeyframeGate
from edge_agent.capture.jpeg import EOI, read_header, trimmed
from edge_agent.capture.source import CodedPicture, Source
from edge_agent.capture.thinning import Thinner
from edge_agent.config import CameraConfig
from edge_agent.frame import Frame
from edge_agent.wanted import Wanted

MOST_DAMAGED_IN_A_ROW = 10
"""Of pictures that stand by themselves, before the camera is said to send none that can be decoded."""


class Timeline(Protocol):
    """When pictures were taken: PresentationClock for what is live, FilePace for what is played."""

    def restart(self) -> None:
        """Begin a new connection or round."""

    def arrived(self, presentation_s: float | None, arrived_s: float) -> None:
        """Note a packet."""

    def captured_s(self, presentation_s: float | None, now_s: float) -> float:
        """Give the time of a picture that is ready now; may wait until it is due."""


class FrameMaker:
    """Makes the frames of one camera, through any number of connections. Not for use by two threads."""

    def __init__(self, camera: CameraConfig, timeline: Timeline, counters: CaptureCounters) -> None:
        self.encoder = JpegEncoder(camera.max_width, camera.jpeg_quality)
        self._wanted = Wanted.of(camera)
        self._camera = camera.name
        self._timeline = timeline
        self._counters = counters
        self._thinner = Thinner(camera.fps)
        self._gate = KeyframeGate()
        self._damaged_in_a_row = 0
        self._frame_id = 0

    @property
    def wanted(self) -> Wanted:
        """What is wanted of the frames; another thread may replace it."""
        return self._wanted

    @wanted.setter
    def wanted(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self.encoder.limit_bytes = wanted.limit_bytes

    def begin(self) -> None:
        """Expect a new connection or round: nothing of the one before is known of it."""
        self._gate = KeyframeGate()
        self._damaged_in_a_row = 0
        self._timeline.restart()

    @property
    def waits_for_keyframe(self) -> str | None:
        """Why no frame is made from what comes, or None when frames are."""
        if self._gate.is_open:
            return None
        return "packets were lost or damaged" if self._gate.was_damaged else "none came yet"

    def frames(self, source: Source, coded: CodedPicture) -> Iterator[Frame]:
        """Make frames of a compressed picture: none, one, or several at the end of a file."""
        packet = coded.packet
        self._thinner.at_rate(self._wanted.fps)
        self._counters.packets += packet.size > 0
        self._timeline.arrived(source.presentation_s(packet.pts), coded.arrived_s)
        if not source.is_intra_only:
            yield from self._decoded_then_thinned(source, coded)
        elif packet.size > 0:
            yield from self._thinned_then_decoded(source, coded)

    def _decoded_then_thinned(self, source: Source, coded: CodedPicture) -> Iterator[Frame]:
        packet = coded.packet
        if not self._gate.wants(packet.pts, is_keyframe=packet.is_keyframe, is_corrupt=packet.is_corrupt):
            self._counters.frames_corrupt += self._gate.was_damaged
            return
        for picture in self._decode(source, packet):
            if not self._gate.passes(picture.pts, is_corrupt=picture.is_corrupt):
                self._counters.frames_corrupt += 1
                continue
            captured_s = self._kept_s(source.presentation_s(picture.pts), time.monotonic())
            if captured_s is not None:
                yield from self._frame(self.encoder.encode(picture), captured_s)

    def _thinned_then_decoded(self, source: Source, coded: CodedPicture) -> Iterator[Frame]:
        packet = coded.packet
        captured_s = self._timeline.captured_s(source.presentation_s(packet.pts), coded.arrived_s)
        is_kept = self._thinner.keep(captured_s)
        if is_kept or not self._gate.is_open:
            images = self._images(source, packet)
            self._judge(is_sound=bool(images))
            if not images:
                return
        self._counters.frames_seen += 1
        if is_kept:
            yield from self._frame(images[0], captured_s)
        else:
            self._counters.frames_thinned += 1

    def _judge(self, *, is_sound: bool) -> None:
        """Note whether a picture that stands by itself could be made: only many in a row close the gate."""
        self._damaged_in_a_row = 0 if is_sound else self._damaged_in_a_row + 1
        if is_sound:
            self._gate.wants(None, is_keyframe=True, is_corrupt=False)
            return
        self._counters.frames_corrupt += 1
        if not self._gate.is_open or self._damaged_in_a_row >= MOST_DAMAGED_IN_A_ROW:
            self._gate.damaged()

    def _images(self, source: Source, packet: "av.Packet[av.VideoStream]") -> list[EncodedImage | None]:
        """Make the image of a picture that stands by itself: none when it is damaged, None when too large."""
        if source.codec == "mjpeg":
            data = trimmed(bytes(packet))
            if not data.endswith(EOI):
                return []
            if image := self._as_it_is(source, data):
                return [image]
        try:
            pictures = source.decoder.decode(packet)
        except av.error.FFmpegError:
            return []
        return [self.encoder.encode(picture) for picture in pictures[:1] if not picture.is_corrupt]

    def _kept_s(self, presentation_s: float | None, now_s: float) -> float | None:
        """Give the time of a picture, or None when it is thinned out."""
        captured_s = self._timeline.captured_s(presentation_s, now_s)
        self._counters.frames_seen += 1
        if self._thinner.keep(captured_s):
            return captured_s
        self._counters.frames_thinned += 1
        return None

    def _decode(self, source: Source, packet: "av.Packet[av.VideoStream]") -> list[av.VideoFrame]:
        try:
            return source.decoder.decode(packet)
        except av.error.FFmpegError:
            self._counters.frames_corrupt += 1
            self._gate.damaged()
            return []

    def _as_it_is(self, source: Source, data: bytes) -> EncodedImage | None:
        """Give a camera's own JPEG, if it may be sent on without another encoding."""
        header = read_header(data)
        if header is None or self.encoder.target_size(header.width, header.height)[0] != header.width:
            return None
        if not header.has_huffman_tables:
            data = _with_huffman_tables(source, data)
        if self.encoder.limit_bytes is not None and len(data) > self.encoder.limit_bytes:
            return None
        return EncodedImage(data, header.width, header.height)

    def _frame(self, image: EncodedImage | None, captured_s: float) -> Iterator[Frame]:
        if image is None:
            self._counters.frames_too_large += 1
            return
        self._frame_id += 1
        age_ns = int((time.monotonic() - captured_s) * 1e9)
        yield Frame(
            camera=self._camera,
            frame_id=self._frame_id,
            capture_time_ns=time.time_ns() - age_ns,
            captured_s=captured_s,
            image_data=image.data,
            width=image.width,
            height=image.height,
        )


def _with_huffman_tables(source: Source, data: bytes) -> bytes:
    """Insert the standard tables that Motion JPEG may leave out."""
    completed = BitStreamFilterContext("mjpeg2jpeg", source.stream).filter(av.Packet(data))
    return bytes(completed[0])
