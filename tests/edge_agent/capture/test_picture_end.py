"""Where a picture ends, told from RTP payloads before the next one begins."""

import random
from collections.abc import Callable, Iterable, Iterator

import pytest

from edge_agent.capture.picture_end import AGREED_OTHERS, START_CODE, PictureEnd

FULL_BYTES = 1386
GOP = 10

Payload = tuple[bytes, int]
Fragment = Callable[[bytes], list[bytes]]
"""How a camera cuts a NAL unit; the first piece wears FFmpeg's start code."""


def full_fragments(nal: bytes) -> list[bytes]:
    """Cut as nearly every camera does: full packets, then the rest."""
    first, *others = [nal[at : at + FULL_BYTES] for at in range(0, len(nal), FULL_BYTES)]
    return [START_CODE + first, *others]


def even_fragments(nal: bytes) -> list[bytes]:
    """Cut into pieces of equal length."""
    pieces = -(-len(nal) // FULL_BYTES)
    length = -(-len(nal) // pieces)
    first, *others = [nal[at : at + length] for at in range(0, len(nal), length)]
    return [START_CODE + first, *others]


class Camera:
    """Makes payloads of pictures with slices of random size; only a slice's first bytes mean anything."""

    def __init__(self, codec: str, fragments: Fragment = full_fragments, seed: int = 1) -> None:
        self._codec = codec
        self._fragments = fragments
        self._chance = random.Random(seed)

    def nal(self, *, is_first: bool, is_keyframe: bool, size: int | None = None) -> bytes:
        size = size or self._chance.randrange(200, 9000) * (4 if is_keyframe else 1)
        bit = 0x80 if is_first else 0x40
        if self._codec == "h264":
            head = bytes([0x65 if is_keyframe else 0x41, bit, 1])
        else:
            head = bytes([(19 if is_keyframe else 1) << 1, 1, bit])
        return head + b"\x55" * (size - 3)

    def picture(self, number: int, slices: int, pts: int | None = None) -> list[Payload]:
        is_keyframe = number % GOP == 0
        payloads = []
        if is_keyframe:
            payloads.append(
                START_CODE + (b"\x67\x42\x00" if self._codec == "h264" else b"\x42\x01\x01") + b"sps"
            )
        for place in range(slices):
            payloads += self._fragments(self.nal(is_first=place == 0, is_keyframe=is_keyframe))
        return [(payload, number * 9000 if pts is None else pts) for payload in payloads]

    def stream(self, pictures: int, slices: Callable[[int], int] = lambda _: 1) -> Iterator[list[Payload]]:
        for number in range(pictures):
            yield self.picture(number, slices(number))


def told(end: PictureEnd, pictures: Iterable[list[Payload]]) -> list[bool]:
    """For each picture: was its end told, exactly with its last payload? A wrong end fails the test."""
    right = []
    for payloads in pictures:
        answers = [end.ends(payload, pts) for payload, pts in payloads]
        assert not any(answers[:-1]), "an end was told before the last payload"
        right.append(answers[-1])
    return right


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("slices", [1, 2, 4])
def test_ends_are_told_once_habits_are_known(codec: str, slices: int) -> None:
    """After a few keyframes and a dozen others nearly every end is told at once, with any count of slices."""
    end = PictureEnd(codec)
    answers = told(end, Camera(codec).stream(300, lambda _: slices))

    assert not any(answers[: min(AGREED_OTHERS, GOP)])
    assert sum(answers[50:]) > 240
    assert not end.was_wrong


def test_a_full_last_payload_is_not_told() -> None:
    """A slice that ends with a full payload cannot be seen to end: the picture waits for the next one."""
    camera = Camera("h264")
    end = PictureEnd("h264")
    told(end, camera.stream(100))
    full = full_fragments(camera.nal(is_first=True, is_keyframe=False, size=3 * FULL_BYTES))

    assert told(end, [[(payload, 1_000_000) for payload in full]]) == [False]
    assert told(end, [camera.picture(101, 1)]) == [True]


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_keyframes_may_have_more_slices(codec: str) -> None:
    """Both kinds of picture have their own habit."""
    answers = told(PictureEnd(codec), Camera(codec).stream(300, lambda number: 4 if number % GOP == 0 else 1))

    assert sum(answers[60:]) > 230


@pytest.mark.parametrize("seed", range(5))
def test_a_camera_that_cuts_evenly_is_left_alone(seed: int) -> None:
    """Where pieces before the last are shorter than others, no end is told, and so none wrongly."""
    end = PictureEnd("h264")

    assert not any(told(end, Camera("h264", even_fragments, seed).stream(300)))
    assert not end.was_wrong


@pytest.mark.parametrize("seed", range(5))
def test_a_camera_with_changing_slices_is_left_alone(seed: int) -> None:
    """A number of slices that changes all the time is no habit."""
    chance = random.Random(seed)
    end = PictureEnd("h264")
    answers = told(end, Camera("h264").stream(300, lambda _: chance.choice([1, 2, 3, 5])))

    assert not any(answers)
    assert not end.was_wrong


def test_a_wrong_end_is_the_last_one() -> None:
    """A camera that breaks its habit is told wrong once; then every picture waits for the next."""
    camera = Camera("h264")
    end = PictureEnd("h264")
    told(end, camera.stream(100))
    broken = [end.ends(payload, pts) for payload, pts in camera.picture(101, 2)]

    assert any(broken[:-1])
    assert end.was_wrong
    assert not any(told(end, camera.stream(100)))


def test_pictures_of_the_same_time_are_told_apart() -> None:
    """A picture that begins after an end that was told is another one, even with the same timestamp."""
    camera = Camera("hevc")
    end = PictureEnd("hevc")
    told(end, camera.stream(100))
    pair = camera.picture(101, 1) + camera.picture(102, 1, pts=101 * 9000)

    answers = [end.ends(payload, pts) for payload, pts in pair]
    assert not end.was_wrong
    assert answers[-1]


def test_no_timestamps_no_ends() -> None:
    """Pictures that cannot be told apart are never learnt from."""
    end = PictureEnd("h264")

    assert not any(
        end.ends(payload, None) for picture in Camera("h264").stream(100) for payload, _ in picture
    )


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_noise_breaks_nothing(codec: str) -> None:
    """Empty payloads, lone start codes and random bytes are taken like any other."""
    chance = random.Random(9)
    end = PictureEnd(codec)
    for number in range(3000):
        noise = chance.randbytes(chance.randrange(0, 40))
        end.ends(chance.choice([b"", START_CODE, START_CODE + noise, noise, noise + START_CODE]), number // 3)
