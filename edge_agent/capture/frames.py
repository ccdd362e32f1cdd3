"""From compressed pictures to frames: decoded where needed, thinned, then encoded."""

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import av
from av.bitstream import BitStreamFilterContext

from edge_agent.capture.counters import CaptureCounters
from edge_agent.capture.decoding import DecodeChoice, PictureKind
from edge_agent.capture.encode import EncodedImage, JpegEncoder
from edge_agent.capture.gate import KeyframeGate
from edge_agent.capture.image_size import image_wh
from edge_agent.capture.jpeg import EOI, read_header, trimmed
from edge_agent.capture.luma import luma_of
from edge_agent.capture.motion import MotionGate, MotionInterval
from edge_agent.capture.privacy import PrivacyMasks
from edge_agent.capture.source import CodedPicture, Source, VideoPacket
from edge_agent.capture.thinning import Thinner
from edge_agent.config import CameraConfig, Polygon
from edge_agent.frame import Frame
from edge_agent.wanted import Wanted

MOST_DAMAGED_IN_A_ROW = 10
"""Of pictures that stand by themselves, before the camera is said to send none that can be decoded."""

LATE_KEYFRAME_S = 5.0
"""Beyond this, a camera that sends no keyframe from which more than keyframes could be decoded is said to."""


class Timeline(Protocol):
    """When pictures were taken: PresentationClock for what is live, FilePace for what is played."""

    def restart(self) -> None:
        """Begin a new connection or round."""

    def arrived(self, presentation_s: float | None, arrived_s: float) -> None:
        """Note a packet."""

    def captured_s(self, presentation_s: float | None, now_s: float) -> float:
        """Give the time of a picture that is ready now; may wait until it is due."""


class FrameMaker:
    """Makes the frames of one camera, through any number of connections. Not for use by two threads.

    `wanted` and `configured` may be replaced by another thread at any time; they are read once for each
    compressed picture. Of another configuration only what concerns frames counts here: masks and motion.
    `on_motion` is told each interval of motion that has ended, where the camera's motion gate is on.
    """

    def __init__(
        self,
        camera: CameraConfig,
        timeline: Timeline,
        counters: CaptureCounters,
        on_motion: Callable[[MotionInterval], None] = lambda _: None,
    ) -> None:
        self.wanted = Wanted.of(camera)
        self._now = self.wanted
        """What is wanted of the frame that is made now."""
        self.configured = camera
        self._camera = camera
        self._timeline = timeline
        self._counters = counters
        self._on_motion = on_motion
        self._privacy = PrivacyMasks(camera.privacy_masks)
        self._encoder = JpegEncoder()
        self._thinner = Thinner(camera.fps)
        self._gate = KeyframeGate()
        self._choice = DecodeChoice(camera.decode)
        self._motion: MotionGate | None = None
        if camera.motion == "on":
            self._motion = MotionGate(camera.motion_sensitivity, self._ignored())
        self._pixel_format = ""
        self._damaged_in_a_row = 0
        self._frame_id = 0

    def begin(self) -> None:
        """Expect a new connection or round: nothing of the one before is known of it."""
        self._gate = KeyframeGate()
        self._choice.restart()
        self._damaged_in_a_row = 0
        self._timeline.restart()

    def end(self) -> None:
        """Tell what has not been told: no more frames will be made."""
        if self._motion and (open_interval := self._motion.finish()):
            self._on_motion(open_interval)

    @property
    def waits_for_keyframe(self) -> str | None:
        """Why no frame is made from what comes, or None when frames are."""
        if self._gate.is_open:
            is_late = self._choice.waited_s > LATE_KEYFRAME_S
            return "keyframes alone were decoded, and the next one is late" if is_late else None
        return "packets were lost or damaged" if self._gate.was_damaged else "none came yet"

    def frames(self, source: Source, coded: CodedPicture) -> Iterator[Frame]:
        """Make frames of a compressed picture: none, one, or several at the end of a file."""
        self._take_wanted()
        packet = coded.packet
        self._counters.packets += packet.size > 0
        self._timeline.arrived(source.presentation_s(packet.pts), coded.arrived_s)
        if not source.is_intra_only:
            yield from self._decoded_then_thinned(source, coded)
        elif packet.size > 0:
            yield from self._thinned_then_decoded(source, coded)

    def _take_wanted(self) -> None:
        if self.configured is not self._camera:
            self._take_configured(self.configured)
        wanted, before = self.wanted, self._now
        if wanted is before:
            return
        self._now = wanted
        self._thinner.at_rate(wanted.fps)
        if self._motion and wanted.server_masks != before.server_masks:
            self._motion.set_masks(self._ignored())

    def _take_configured(self, camera: CameraConfig) -> None:
        before, self._camera = self._camera, camera
        if camera.privacy_masks != before.privacy_masks:
            self._privacy = PrivacyMasks(camera.privacy_masks)
            if self._motion:
                self._motion.restart()  # cells that are black in part are no motion
        gates = [(each.motion, each.motion_sensitivity) for each in (before, camera)]
        if gates[0] != gates[1]:
            self.end()
            is_on = camera.motion == "on"
            self._motion = MotionGate(camera.motion_sensitivity, self._ignored()) if is_on else None
        elif self._motion:
            self._motion.set_masks(self._ignored())

    def _ignored(self) -> tuple[Polygon, ...]:
        """Give the regions without motion: the server's come on top of those drawn here."""
        return self._camera.motion_masks + self._camera.privacy_masks + self._now.server_masks

    def _decoded_then_thinned(self, source: Source, coded: CodedPicture) -> Iterator[Frame]:
        packet = coded.packet
        if packet.size > 0 and not self._is_chosen(source, coded):
            self._counters.frames_skipped += 1
            return
        was_open = self._gate.is_open
        if not self._gate.wants(packet.pts, is_keyframe=packet.is_keyframe, is_corrupt=packet.is_corrupt):
            self._counters.frames_corrupt += self._gate.was_damaged
            return
        if not was_open and source.decoder.is_open:
            # Else it would build on what was damaged: leading pictures, and those of a gradual refresh.
            source.decoder.flush_buffers()
        for picture in self._decode(source, packet):
            if not self._gate.passes(picture.pts, is_corrupt=picture.is_corrupt):
                self._counters.frames_corrupt += 1
                continue
            captured_s = self._kept_s(source.presentation_s(picture.pts), time.monotonic())
            if captured_s is not None:
                yield from self._frame_of(picture, captured_s)

    def _is_chosen(self, source: Source, coded: CodedPicture) -> bool:
        """Decide whether a picture is decoded at all."""
        presentation_s = source.presentation_s(coded.packet.pts) if source.kind == "file" else None
        at_s = coded.arrived_s if presentation_s is None else presentation_s
        is_chosen = self._choice.wants(source.picture_kind(coded.packet), at_s, self._now.fps)
        source.may_rest = self._choice.least is PictureKind.KEYFRAME
        return is_chosen

    def _thinned_then_decoded(self, source: Source, coded: CodedPicture) -> Iterator[Frame]:
        packet = coded.packet
        captured_s = self._timeline.captured_s(source.presentation_s(packet.pts), coded.arrived_s)
        is_kept = self._thinner.keep(captured_s)
        ready: EncodedImage | None = None
        picture: av.VideoFrame | None = None
        if is_kept or not self._gate.is_open:
            ready, picture = self._whole(source, packet)
            is_sound = ready is not None or picture is not None
            self._judge(is_sound=is_sound)
            if not is_sound:
                return
        self._counters.frames_seen += 1
        if not is_kept:
            self._counters.frames_thinned += 1
        elif picture is not None:
            yield from self._frame_of(picture, captured_s, ready)
        elif ready is not None:
            yield from self._frame(ready, captured_s)

    def _judge(self, *, is_sound: bool) -> None:
        """Note whether a picture that stands by itself could be made: only many in a row close the gate."""
        self._damaged_in_a_row = 0 if is_sound else self._damaged_in_a_row + 1
        if is_sound:
            self._gate.wants(None, is_keyframe=True, is_corrupt=False)
            return
        self._counters.frames_corrupt += 1
        if not self._gate.is_open or self._damaged_in_a_row >= MOST_DAMAGED_IN_A_ROW:
            self._gate.damaged()

    def _whole(self, source: Source, packet: VideoPacket) -> tuple[EncodedImage | None, av.VideoFrame | None]:
        """Make what is needed of a picture that stands by itself: nothing when it is damaged.

        That is an image which may be sent as it came, and the decoded picture where there is none or where
        motion is looked for.
        """
        ready: EncodedImage | None = None
        if source.codec == "mjpeg":
            data = trimmed(bytes(packet))
            if not data.endswith(EOI):
                return None, None
            ready = self._as_it_is(source, data)
            if ready is not None and self._motion is None:
                return ready, None
        try:
            pictures = source.decoder.decode(packet)
        except av.error.FFmpegError:
            return None, None
        sound = [picture for picture in pictures[:1] if not picture.is_corrupt]
        return (ready, sound[0]) if sound else (None, None)

    def _kept_s(self, presentation_s: float | None, now_s: float) -> float | None:
        """Give the time of a picture, or None when it is thinned out."""
        captured_s = self._timeline.captured_s(presentation_s, now_s)
        self._counters.frames_seen += 1
        if self._thinner.keep(captured_s):
            return captured_s
        self._counters.frames_thinned += 1
        return None

    def _decode(self, source: Source, packet: VideoPacket) -> list[av.VideoFrame]:
        try:
            pictures = source.decoder.decode(packet)
            if packet.size > 0 and self._choice.least is PictureKind.KEYFRAME:
                # Nothing follows that would bring it out of a decoder which puts pictures in order.
                pictures += source.decoder.decode(None)
                source.decoder.flush_buffers()
        except av.error.FFmpegError:
            self._counters.frames_corrupt += 1
            self._gate.damaged()
            return []
        return pictures

    def _as_it_is(self, source: Source, data: bytes) -> EncodedImage | None:
        """Give a camera's own JPEG, if it may be sent on without another encoding."""
        wanted = self._now
        if self._privacy or wanted.quality < self._camera.jpeg_quality:
            return None
        header = read_header(data)
        if header is None:
            return None
        size_wh = (header.width, header.height)
        if image_wh(wanted, *size_wh) != size_wh:
            return None
        if not header.has_huffman_tables:
            data = _with_huffman_tables(source, data)
        if wanted.limit_bytes is not None and len(data) > wanted.limit_bytes:
            return None
        return EncodedImage(data, *size_wh)

    def _frame_of(
        self, picture: av.VideoFrame, captured_s: float, ready: EncodedImage | None = None
    ) -> Iterator[Frame]:
        """Make the frame of a decoded picture, if the scene is worth it.

        What privacy masks cover is gone before anybody looks: not even whether a frame is sent tells of it.
        """
        picture = self._privacy.applied(picture)
        if self._motion and self._is_still(self._motion, picture, captured_s):
            self._counters.frames_still += 1
            return
        image = ready or self._encoder.encode(picture, self._now)
        if image is None:
            self._counters.frames_too_large += 1
            return
        yield from self._frame(image, captured_s)

    def _is_still(self, motion: MotionGate, picture: av.VideoFrame, captured_s: float) -> bool:
        if picture.format.name != self._pixel_format:
            self._pixel_format = picture.format.name
            motion.restart()
        decision = motion.decide(luma_of(picture), captured_s, watched=self._now.watched)
        if decision.finished:
            self._on_motion(decision.finished)
        return not decision.send

    def _frame(self, image: EncodedImage, captured_s: float) -> Iterator[Frame]:
        self._frame_id += 1
        age_ns = int((time.monotonic() - captured_s) * 1e9)
        yield Frame(
            camera=self._camera.name,
            frame_id=self._frame_id,
            capture_time_ns=time.time_ns() - age_ns,
            captured_s=captured_s,
            image_data=image.data,
            width=image.width,
            height=image.height,
            privacy_masks=self._camera.privacy_masks,
        )


def _with_huffman_tables(source: Source, data: bytes) -> bytes:
    """Insert the standard tables that Motion JPEG may leave out."""
    completed = BitStreamFilterContext("mjpeg2jpeg", source.stream).filter(av.Packet(data))
    return bytes(completed[0])
