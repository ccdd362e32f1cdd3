"""An open camera, device or file: its compressed pictures as they arrive, each within its timeout."""

import errno
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final, Self, TypeAlias, cast

import av
from av.container import InputContainer
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from edge_agent.capture.assembly import DELIMITERS, PictureAssembler
from edge_agent.capture.body import HttpBody
from edge_agent.capture.decoding import HEAD_BYTES, PictureKind, PictureKinds
from edge_agent.capture.errors import CaptureError
from edge_agent.capture.loss import LossLog
from edge_agent.config import CameraConfig, Transport
from edge_agent.config.source_url import SourceKind, source_kind
from edge_agent.state import CameraState

VideoPacket: TypeAlias = "av.Packet[VideoStream]"

CLOSED: Final = frozenset({errno.EIO, errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ENODEV})
REST_S: Final = 0.2
"""A socket holds what comes in this time, and a frame is so much older at most."""
WAITED_S: Final = 0.002
INTRA_ONLY: Final = frozenset({"mjpeg", "rawvideo"})


@dataclass(frozen=True, slots=True)
class CodedPicture:
    """A compressed picture as it arrived; `packet.size` is 0 once, at the end of a file."""

    packet: VideoPacket
    arrived_s: float
    """time.monotonic()"""


class Source:
    """An open camera, device or file; use it as a context manager, in one thread.

    Its repr, and that of what PyAV holds inside, may contain the password: neither is to be printed.
    """

    def __init__(
        self, container: InputContainer, stream: VideoStream, camera: CameraConfig, body: HttpBody | None
    ) -> None:
        self.kind: SourceKind = source_kind(camera.url)
        self.decoder: VideoCodecContext = stream.codec_context
        # One thread: frame threads delay pictures, and a gateway's cores are shared by many cameras.
        self.decoder.thread_type = "NONE"
        self.decoder.thread_count = 1
        self.stream = stream
        self.may_rest = False
        """Whether what comes may wait a moment to be read: few of its pictures are decoded."""
        self._kinds = PictureKinds(self.codec, self.decoder.extradata)
        self.transport = rtp_transport(camera).upper() if self.kind == "rtsp" else None
        self._container = container
        self._packets = cast("Generator[VideoPacket]", container.demux(stream))
        self._body = body
        self._losses = LossLog()
        self._assembler: PictureAssembler | None = None
        if self.kind == "rtsp" and self.codec in DELIMITERS:
            self._assembler = PictureAssembler(self.codec, self.decoder.extradata)
        self._read_timeout_s = camera.read_timeout_s
        self._opened_s = time.monotonic()
        self._seconds_per_tick = float(stream.time_base) if stream.time_base else None

    @property
    def codec(self) -> str:
        """FFmpeg's name: h264, hevc, mjpeg, rawvideo and others."""
        return str(self.decoder.codec.name)

    @property
    def is_intra_only(self) -> bool:
        """Every picture stands by itself, so that one may be left out before it is decoded."""
        return self.codec in INTRA_ONLY

    def picture_kind(self, packet: VideoPacket) -> PictureKind:
        """Tell what hangs on a coded picture; to be asked once for each, in the order of arrival."""
        head = bytes(memoryview(packet)[:HEAD_BYTES])
        return self._kinds.kind(head, is_keyframe=packet.is_keyframe, is_disposable=packet.is_disposable)

    def presentation_s(self, pts: int | None) -> float | None:
        """Give a presentation time in seconds; None where the source has none that means anything."""
        if pts is None or self._seconds_per_tick is None or self.kind == "http":
            return None  # multipart MJPEG carries no times: FFmpeg counts 25 a second, whatever comes
        return pts * self._seconds_per_tick

    def pictures(self) -> Iterator[CodedPicture]:
        """Read the compressed pictures of the first video stream as they arrive.

        Ends with a file; a camera or device that ends, stalls or fails raises CaptureError.
        """
        any_came = False
        whole_s = time.monotonic()
        had_to_wait = False
        while True:
            if had_to_wait and self.may_rest and self.kind == "rtsp":
                # All that has come is read at once afterwards, for a fraction of what each by itself costs.
                time.sleep(REST_S)
            asked_s = time.monotonic()
            if self._body:
                self._body.expect_picture(self._read_timeout_s)
            packet = self._next(any_came=any_came)
            arrived_s = time.monotonic()
            if packet is None:
                return
            had_to_wait = arrived_s - asked_s > WAITED_S
            if self.kind != "file" and arrived_s - asked_s >= self._read_timeout_s:
                # Interrupted by the timeout, FFmpeg hands out the picture that its parser still held.
                raise self._stalled(any_came=True)
            any_came = True
            after_loss = self._losses.any_since_last_asked()
            if self._assembler is None:
                yield CodedPicture(packet, arrived_s)
                continue
            for picture in self._assembler.push(bytes(packet), packet.pts, after_loss=after_loss):
                whole_s = arrived_s
                yield CodedPicture(picture, arrived_s)
            if arrived_s - whole_s >= 2 * self._read_timeout_s:
                longest_s = 2 * self._read_timeout_s
                raise CaptureError(
                    f"packets come, but no whole picture for {longest_s:g} s", CameraState.STALLED
                )

    def __enter__(self) -> Self:
        self._losses.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._packets.close()  # merely dropped, PyAV's generator would leave its read buffer behind
        self._container.close()
        if self._body:
            self._body.close()
        self._losses.__exit__()

    def _next(self, *, any_came: bool) -> "VideoPacket | None":
        try:
            packet = next(self._packets, None)
        except (av.error.ExitError, TimeoutError):
            problem = self._stalled(any_came=any_came)
        except (av.error.FFmpegError, OSError) as error:
            problem = self._ended() if error.errno in CLOSED else CaptureError(f"reading: {error.strerror}")
        else:
            if self.kind == "file" or (packet is not None and packet.size > 0):
                return packet
            problem = self._ended()
        raise problem  # outside the handler: the library's exception holds the URL with the password

    def _ended(self) -> CaptureError:
        return CaptureError(
            "the device ended" if self.kind == "device" else "the camera closed the connection"
        )

    def _stalled(self, *, any_came: bool) -> CaptureError:
        if any_came:
            return CaptureError(f"no packet for {self._read_timeout_s:g} s", CameraState.STALLED)
        waited_s = time.monotonic() - self._opened_s
        after = "PLAY" if self.kind == "rtsp" else "it was opened"
        return CaptureError(f"no packet within {waited_s:.0f} s after {after}")


def rtp_transport(camera: CameraConfig) -> Transport:
    """Tell what carries an RTSP camera's video: under TLS that is always its own connection."""
    return "tcp" if camera.url.startswith("rtsps:") else camera.transport
