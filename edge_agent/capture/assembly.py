"""Putting an RTP stream's payloads together to pictures, each as soon as its last payload is there."""

from types import MappingProxyType
from typing import Final

import av

from edge_agent.capture.errors import CaptureError
from edge_agent.capture.picture_end import Picture, PictureEnd

DELIMITERS: Final = MappingProxyType({"h264": b"\0\0\0\1\x09\xf0", "hevc": b"\0\0\0\1\x46\x01\x50"})
"""The access unit delimiter of each codec: what FFmpeg's parser takes for the end of the picture before."""
LARGEST_PICTURE_BYTES: Final = 32 << 20


class PictureAssembler:
    """FFmpeg's parser, told early where a picture ends, and told of losses.

    The parser finds pictures and keyframes in the payloads as it always does. Where PictureEnd knows that a
    picture is complete, a delimiter is put behind it, and the parser gives the picture at once instead of
    when the next one begins. A picture with a hole is marked corrupt, and so is every one after it up to a
    keyframe without: decoders notice only some of that.
    """

    def __init__(self, codec: str, extradata: bytes | None) -> None:
        self._delimiter = DELIMITERS[codec]
        self._end = PictureEnd(codec)
        self._parser = av.CodecContext.create(codec, "r")
        if extradata:
            self._parser.extradata = extradata
        self._payloads: list[bytes] = []
        self._held_bytes = 0
        self._is_broken = False
        """Something was lost since the last whole keyframe."""

    def push(
        self, payload: bytes, pts: int | None, *, after_loss: bool = False
    ) -> "list[av.Packet[av.VideoStream]]":
        """Take the payload of an RTP packet; gives the pictures that are complete with it."""
        if not after_loss and self._end.goes_on(payload, pts):
            self._hold(payload)
            return []
        before, was_wrong = self._end.picture, self._end.was_wrong
        is_last = self._end.ends(payload, pts, after_loss=after_loss)
        self._hold(payload)
        self._is_broken |= self._end.was_wrong and not was_wrong
        pictures = []
        if self._end.picture is not before:
            # What the parser holds belongs to the picture before.
            pictures += self._parsed(before)
            self._is_broken |= not before.is_whole
        if is_last:
            self._payloads.append(self._delimiter)
            pictures += self._parsed(self._end.picture)
        return pictures

    def _hold(self, payload: bytes) -> None:
        self._payloads.append(payload)
        self._held_bytes += len(payload)
        if self._held_bytes > LARGEST_PICTURE_BYTES:
            raise CaptureError(f"no end of a picture within {LARGEST_PICTURE_BYTES >> 20} MiB")

    def _parsed(self, picture: Picture) -> "list[av.Packet[av.VideoStream]]":
        packets = self._parser.parse(b"".join(self._payloads))
        self._payloads.clear()
        for packet in packets:
            packet.pts = picture.pts
            if packet.is_keyframe:
                self._is_broken = False
            self._is_broken |= not picture.is_whole
            packet.is_corrupt = self._is_broken
            self._held_bytes = 0
        return packets
