"""Which pictures of a stream are decoded: all, those that others build on, or keyframes alone. Pure.

Decoding is what a camera costs on the gateway. Pictures that nothing builds on can be left out at any time;
keyframes stand by themselves, but what follows one that was decoded alone builds on what was left out.
"""

from collections import Counter, deque
from collections.abc import Iterator
from enum import IntEnum
from itertools import pairwise
from typing import Final

from edge_agent.config import Decode

HEAD_BYTES: Final = 4096
"""So far into a coded picture its first slice is looked for: parameter sets and messages come before it."""
WINDOW_S: Final = 10.0
"""What a stream sends is judged by so much of it."""
LEAST_SEEN_S: Final = 3.0
MOST_PICTURES: Final = 1024
LONGEST_REORDERING_S: Final = 1.0
"""Times that fall back by more, or leap, begin a new reckoning."""
SEEN_INTERVALS: Final = 3
"""Keyframes are trusted to come regularly after so many intervals."""
H264_SLICES: Final = range(1, 6)
H264_MESSAGES: Final = 6
H264_RECOVERY_POINT: Final = 6
HEVC_SLICES: Final = range(32)
HEVC_LAST_NON_REFERENCE: Final = 14
ANNEX_B: Final = 0
HVCC_LENGTH_AT: Final = 21
AVCC_LENGTH_AT: Final = 4


class PictureKind(IntEnum):
    """What hangs on a coded picture."""

    KEYFRAME = 0
    """It stands by itself, and so does what follows."""
    REFERENCE = 1
    """Others may build on it."""
    OTHER = 2
    """Nothing builds on it."""


class PictureKinds:
    """Reads the kind of a stream's pictures from the headers of their slices."""

    def __init__(self, codec: str, extradata: bytes | None) -> None:
        self._codec = codec
        self._length_bytes = _length_bytes(codec, extradata or b"")
        self._highest_layer = 0

    def kind(self, head: bytes, *, is_keyframe: bool, is_disposable: bool = False) -> PictureKind:
        """Tell the kind by the first HEAD_BYTES of a picture; what cannot be told may be built on."""
        if is_keyframe:
            # FFmpeg calls those so, too, at which a gradual refresh begins: each holds a part of a picture.
            is_part = self._codec == "h264" and self._begins_h264_refresh(head)
            return PictureKind.REFERENCE if is_part else PictureKind.KEYFRAME
        if is_disposable:
            return PictureKind.OTHER
        is_other = False
        if self._codec == "h264":
            is_other = self._is_h264_other(head)
        elif self._codec == "hevc":
            is_other = self._is_hevc_other(head)
        return PictureKind.OTHER if is_other else PictureKind.REFERENCE

    def _is_h264_other(self, head: bytes) -> bool:
        for at in self._units(head):
            if head[at] & 0x1F in H264_SLICES:
                return head[at] & 0x60 == 0  # nal_ref_idc
        return False

    def _begins_h264_refresh(self, head: bytes) -> bool:
        """Tell a recovery point that is whole only some frames later: recovery_frame_cnt is not 0."""
        for at in self._units(head):
            if head[at] & 0x1F in H264_SLICES:
                break
            if head[at] & 0x1F == H264_MESSAGES:
                for kind, payload in _h264_messages(head[at + 1 :]):
                    if kind == H264_RECOVERY_POINT:
                        return payload[:1] < b"\x80"
        return False

    def _is_hevc_other(self, head: bytes) -> bool:
        """Tell a non-reference picture of the highest temporal layer: of others, higher layers may build."""
        for at in self._units(head):
            kind = head[at] >> 1 & 0x3F
            if kind in HEVC_SLICES:
                layer = (head[at + 1] & 7) - 1
                self._highest_layer = max(self._highest_layer, layer)
                is_non_reference = kind <= HEVC_LAST_NON_REFERENCE and kind % 2 == 0
                return is_non_reference and layer == self._highest_layer
        return False

    def _units(self, head: bytes) -> Iterator[int]:
        """Give where NAL units begin, as far as the head goes; two bytes of each are there."""
        if self._length_bytes == ANNEX_B:
            at = head.find(b"\0\0\1") + 3
            while 3 <= at <= len(head) - 2:
                yield at
                at = head.find(b"\0\0\1", at) + 3
            return
        at = self._length_bytes
        while at <= len(head) - 2:
            if not (length := int.from_bytes(head[at - self._length_bytes : at])):
                return
            yield at
            at += length + self._length_bytes


def _h264_messages(unit: bytes) -> Iterator[tuple[int, bytes]]:
    """Give type and payload of the messages in a unit of them."""
    left = unit.replace(b"\0\0\3", b"\0\0")
    while len(left) > 2 and left[0] != 0x80:  # where the unit ends
        numbers = []
        for _ in ("type", "size"):
            after = left.lstrip(b"\xff")
            numbers.append(255 * (len(left) - len(after)) + (after[0] if after else 0))
            left = after[1:]
        yield numbers[0], left[: numbers[1]]
        left = left[numbers[1] :]


def _length_bytes(codec: str, extradata: bytes) -> int:
    """Give the size of the length before each NAL unit, as MP4 and Matroska have it; 0 for start codes."""
    at = {"h264": AVCC_LENGTH_AT, "hevc": HVCC_LENGTH_AT}.get(codec)
    if at is None or len(extradata) <= at or extradata[0] != 1:
        return ANNEX_B
    return (extradata[at] & 3) + 1


class DecodeChoice:
    """Decides for each coded picture, in the order of arrival, whether it is decoded.

    `auto` takes the cheapest of the three whose rate, by what the stream has sent of late, reaches the wanted
    one, and goes back as soon as it does not. From keyframes back to more, the next keyframe is waited for.
    """

    def __init__(self, decode: Decode) -> None:
        self._is_auto = decode == "auto"
        self._least = {"keyframes": PictureKind.KEYFRAME, "reference": PictureKind.REFERENCE}.get(
            decode, PictureKind.OTHER
        )
        self._sent = _Sent()
        self.restart()

    def restart(self) -> None:
        """Begin another connection, or another round of a file."""
        self._sent = _Sent()
        if self._is_auto:
            self._least = PictureKind.OTHER
        self._is_unbroken = True
        self._unbroken_s: float | None = None
        self.waited_s = 0.0
        """For how long more than keyframes has been wanted, and the next keyframe waited for."""

    @property
    def least(self) -> PictureKind:
        """The least kind of picture that is decoded at present."""
        return self._least

    def wants(self, kind: PictureKind, at_s: float, wanted_fps: float) -> bool:
        """Take the next picture; `at_s` is when it came or, of a file, when it is due."""
        self._sent.note(kind, at_s)
        if self._is_auto:
            self._least = self._sent.cheapest(self._least, wanted_fps)
        if kind is PictureKind.KEYFRAME:
            # One that is decoded alone is gone from the decoder before the next picture comes.
            self._is_unbroken = self._least is not PictureKind.KEYFRAME
        elif kind is PictureKind.REFERENCE and self._least is PictureKind.KEYFRAME:
            self._is_unbroken = False
        if self._unbroken_s is None or self._is_unbroken or self._least is PictureKind.KEYFRAME:
            self._unbroken_s = at_s
        self.waited_s = at_s - self._unbroken_s
        if kind is PictureKind.KEYFRAME:
            return True
        return self._is_unbroken and kind <= self._least


class _Sent:
    """What a stream has sent of late."""

    ENOUGH = 0.98
    """Of the wanted rate, for going over to fewer pictures."""
    STILL_ENOUGH = 0.93
    """For staying there."""
    REGULAR = 1.2
    """No interval between keyframes is longer than so many periods of the wanted rate."""
    STILL_REGULAR = 1.6

    def __init__(self) -> None:
        self._pictures: deque[tuple[float, PictureKind]] = deque()
        self._counts: Counter[PictureKind] = Counter()
        self._keyframes_s: deque[float] = deque(maxlen=SEEN_INTERVALS + 1)

    def note(self, kind: PictureKind, at_s: float) -> None:
        if self._pictures and not -LONGEST_REORDERING_S < at_s - self._pictures[-1][0] < WINDOW_S:
            self._pictures.clear()
            self._counts.clear()
            self._keyframes_s.clear()
        self._pictures.append((at_s, kind))
        self._counts[kind] += 1
        while self._pictures[0][0] < at_s - WINDOW_S or len(self._pictures) > MOST_PICTURES:
            _, gone = self._pictures.popleft()
            self._counts[gone] -= 1
        if kind is PictureKind.KEYFRAME:
            self._keyframes_s.append(at_s)

    def cheapest(self, now: PictureKind, wanted_fps: float) -> PictureKind:
        for kind in (PictureKind.KEYFRAME, PictureKind.REFERENCE):
            enough = self.STILL_ENOUGH if now <= kind else self.ENOUGH
            if kind is PictureKind.KEYFRAME and not self._are_keyframes_regular(now, wanted_fps):
                continue
            if self._rate_fps(kind) >= enough * wanted_fps:
                return kind
        return PictureKind.OTHER

    def _rate_fps(self, least: PictureKind) -> float:
        """Give the rate of this kind and what is more; 0 while too little has come."""
        if least is PictureKind.KEYFRAME:
            if len(self._keyframes_s) <= SEEN_INTERVALS:
                return 0.0
            return SEEN_INTERVALS / max(self._keyframes_s[-1] - self._keyframes_s[0], 1e-9)
        length_s = self._pictures[-1][0] - self._pictures[0][0]
        if length_s < LEAST_SEEN_S:
            return 0.0
        share = sum(self._counts[kind] for kind in PictureKind if kind <= least) / len(self._pictures)
        return share * (len(self._pictures) - 1) / length_s

    def _are_keyframes_regular(self, now: PictureKind, wanted_fps: float) -> bool:
        if len(self._keyframes_s) <= SEEN_INTERVALS:
            return False
        times_s = [*self._keyframes_s, self._pictures[-1][0]]
        longest_s = max(after - before for before, after in pairwise(times_s))
        most = self.STILL_REGULAR if now is PictureKind.KEYFRAME else self.REGULAR
        return longest_s * wanted_fps <= most
