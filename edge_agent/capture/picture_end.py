"""Which RTP packet is a picture's last, told before the next picture begins. Pure.

FFmpeg hands out the payloads of RTP packets without the marker that ends a picture, and its parser knows the
end only when the next picture begins: every picture would be late by the time between two, 100 ms at 10 fps.
What can be seen is that a payload is shorter than the full ones, so that a slice ends with it, and how many
slices the camera's pictures have.
"""

from collections.abc import Iterator
from dataclasses import dataclass

START_CODE = b"\0\0\0\1"
AGREED_KEYFRAMES = 3
AGREED_OTHERS = 8
H264_SLICES = range(1, 6)
H264_IDR = 5
HEVC_SLICES = range(32)
HEVC_KEYFRAMES = range(16, 22)


@dataclass(slots=True)
class Picture:
    """What has come of a picture so far."""

    pts: int | None
    payloads: int = 0
    slices: int = 0
    is_keyframe: bool = False
    guessed_at: int = 0
    """The payload that looked like the last one first; 0 while none did."""
    is_told: bool = False
    is_whole: bool = True
    """No payload of it is known to be lost."""


@dataclass(slots=True)
class Habit:
    """What a camera's pictures of one kind look like."""

    slices: int = 0
    agreed: int = 0
    """How many pictures in a row looked complete exactly where they were."""
    broken: int = 0
    """How often a picture was otherwise; the more, the longer a habit must hold to be believed."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The beginning of a coded slice."""

    is_first: bool
    """Of its picture: in both codecs the slice's header begins with a bit for that."""
    is_keyframe: bool


class PictureEnd:
    """Learns a camera's habits from whole pictures, then tells ends at once, of keyframes and others apart.

    A guess that turns out wrong is the last one: from then on no end is told early.
    """

    def __init__(self, codec: str) -> None:
        self.was_wrong = False
        self.picture = Picture(None)
        """The one whose payloads come now."""
        self._slice_at = hevc_slice if codec == "hevc" else h264_slice
        self._habits = {True: Habit(), False: Habit()}
        # The largest payloads so far, of those that begin a NAL unit (FFmpeg adds its start code) and others.
        self._full_bytes = {True: 0, False: 0}

    def goes_on(self, payload: bytes, pts: int | None) -> bool:
        """Take the next payload if it is the usual one, a full part of a slice that has begun; else do not.

        Nothing ends with it and nothing is learned from it: most of a large picture costs no more than this.
        """
        picture = self.picture
        if (
            len(payload) != self._full_bytes[False]
            or pts != picture.pts
            or pts is None
            or picture.is_told
            or START_CODE in payload
        ):
            return False
        picture.payloads += 1
        return True

    def ends(self, payload: bytes, pts: int | None, *, after_loss: bool = False) -> bool:
        """Take the next payload, as FFmpeg depacketizes it; True when its picture ends with it."""
        # What was lost may have belonged to the picture so far.
        self.picture.is_whole &= not after_loss
        begins_nal = payload.startswith(START_CODE)
        slices = [self._slice_at(payload, at) for at in nal_units(payload)]
        opens = begins_nal and opens_picture(slices)
        if pts != self.picture.pts or pts is None or (self.picture.is_told and opens):
            self._learn(self.picture)
            self.picture = Picture(pts, is_whole=opens or pts is None)
        elif self.picture.is_told:
            self.was_wrong = True
        picture = self.picture
        picture.payloads += 1
        picture.slices += sum(found is not None for found in slices)
        picture.is_keyframe |= any(found.is_keyframe for found in slices if found)
        return self._may_end(picture, len(payload), begins_nal=begins_nal)

    def _may_end(self, picture: Picture, size_bytes: int, *, begins_nal: bool) -> bool:
        """Tell whether a picture may be complete with a payload of this size, and is to be believed so."""
        if size_bytes >= self._full_bytes[begins_nal]:
            self._full_bytes[begins_nal] = size_bytes
            return False
        if picture.slices and picture.slices == self._habits[picture.is_keyframe].slices:
            return self._guess(picture)
        return False

    def _guess(self, picture: Picture) -> bool:
        """Note that a picture looks complete; True when that is to be believed."""
        picture.guessed_at = picture.guessed_at or picture.payloads
        is_barred = self.was_wrong or picture.is_told or picture.pts is None
        if is_barred or not self._is_known(is_keyframe=picture.is_keyframe):
            return False
        picture.is_told = True
        return True

    def _is_known(self, *, is_keyframe: bool) -> bool:
        """Tell whether a habit is to be believed.

        Keyframes come seldom: those with as many slices as the others are believed with them.
        """
        others, habit = self._habits[False], self._habits[is_keyframe]
        others_known = others.agreed >= AGREED_OTHERS * (1 + others.broken)
        if not is_keyframe or (habit.broken == 0 and habit.slices == others.slices and others_known):
            return others_known
        return habit.agreed >= AGREED_KEYFRAMES * (1 + habit.broken)

    def _learn(self, picture: Picture) -> None:
        """Compare a picture that is complete with the habit of its kind."""
        if picture.slices == 0 or not picture.is_whole:
            return
        habit = self._habits[picture.is_keyframe]
        if habit.slices == 0:
            habit.slices = picture.slices
        elif picture.slices != habit.slices or 0 < picture.guessed_at < picture.payloads:
            habit.slices, habit.agreed = picture.slices, 0
            habit.broken += 1
        elif picture.guessed_at:
            habit.agreed += 1


def nal_units(payload: bytes) -> Iterator[int]:
    """Give where the NAL units begin that begin in a payload; at least three bytes are there."""
    at = payload.find(START_CODE) + len(START_CODE)
    while len(START_CODE) <= at <= len(payload) - 3:
        yield at
        at = payload.find(START_CODE, at) + len(START_CODE)


def h264_slice(payload: bytes, at: int) -> Slice | None:
    """Read the NAL unit at a position; None when it is no slice."""
    kind = payload[at] & 0x1F
    return Slice(payload[at + 1] >= 0x80, kind == H264_IDR) if kind in H264_SLICES else None


def hevc_slice(payload: bytes, at: int) -> Slice | None:
    """Read the NAL unit at a position; None when it is no slice."""
    kind = (payload[at] >> 1) & 0x3F
    return Slice(payload[at + 2] >= 0x80, kind in HEVC_KEYFRAMES) if kind in HEVC_SLICES else None


def opens_picture(units: list[Slice | None]) -> bool:
    """Tell whether NAL units open another picture, whatever its time: no slice, or a picture's first."""
    return not units or units[0] is None or units[0].is_first
