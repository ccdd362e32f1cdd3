"""Turns on the one uplink: fair, few bytes on the way, nothing old."""

import asyncio
import time
from collections import Counter

import pytest

from edge_agent.config import CameraConfig
from edge_agent.frame import Frame
from edge_agent.result import Answer
from edge_agent.uplink.turns import Lane, Uplink
from tests.polling import until

CHANNEL = object()


class Camera:
    """A camera's lane with what goes over it; answers come when the test says so."""

    def __init__(self, uplink: Uplink, name: str = "door", window: int = 2, **wanted: object) -> None:
        self.sent: list[Frame] = []
        self.drops: Counter[str] = Counter()
        config = CameraConfig(name=name, url="rtsp://127.0.0.1/", **wanted)  # type: ignore[arg-type]
        self.lane = Lane(uplink, config, self.sent.append, lambda: None, lambda _: None, self._stale)
        self.lane.window.size = window
        self._next_id = 0
        uplink.join(self.lane)
        uplink.begin(self.lane, CHANNEL, 0.001)

    def _stale(self) -> None:
        self.drops["stale"] += 1

    def offer(self, size_bytes: int = 10_000, age_s: float = 0.0) -> None:
        """Offer the next frame."""
        self._next_id += 1
        now_s = time.monotonic()
        frame = Frame("door", self._next_id, 0, now_s - age_s, bytes(size_bytes), 64, 48)
        if reason := self.lane.offer(frame, now_s):
            self.drops[reason] += 1

    def answer(self) -> None:
        """Answer the oldest frame on the way."""
        frame_id = self.lane.window.in_flight_ids[0]
        self.lane.window.answered(frame_id)
        self.lane.answered(Answer(frame_id, "detected", ()), 10.0)


async def test_until_the_first_answer_one_frame_is_on_its_way() -> None:
    """Of all cameras together: nothing is known of the uplink."""
    uplink = Uplink()
    cameras = [Camera(uplink, f"c{number}") for number in range(4)]
    for camera in cameras:
        camera.offer()
    assert [len(camera.sent) for camera in cameras] == [1, 0, 0, 0]
    cameras[0].answer()
    assert [len(camera.sent) for camera in cameras] == [1, 1, 1, 1]


async def test_turns_are_fair_by_bytes_and_a_watched_camera_has_more_of_them() -> None:
    """A camera of large frames gets no more bytes than one of small ones."""
    uplink = Uplink()
    uplink.set_budget(8000)  # a megabyte a second
    small, large, watched = (Camera(uplink, name, window=100) for name in ("small", "large", "watched"))
    watched.lane.want(10.0, is_watched=True)
    sizes = ((small, 5_000), (large, 20_000), (watched, 5_000))
    deadline_s = time.monotonic() + 10
    while sum(len(camera.sent) for camera, _ in sizes) < 100 and time.monotonic() < deadline_s:
        for camera, size_bytes in sizes:
            if camera.lane.window.waiting is None:
                camera.offer(size_bytes)
            while camera.lane.window.in_flight:
                camera.answer()
        await asyncio.sleep(0.001)

    totals = {size: sum(len(frame.image_data) for frame in camera.sent) for camera, size in sizes[:2]}
    assert totals[5_000] == pytest.approx(totals[20_000], abs=45_000)
    assert len(watched.sent) == pytest.approx(3 * len(small.sent), rel=0.3)


async def test_a_budget_holds_frames_back_and_the_latest_goes_when_it_allows() -> None:
    """What is replaced meanwhile is counted as over budget, not as superseded."""
    uplink = Uplink()
    camera = Camera(uplink, max_kbit=400.0)
    camera.offer(10_000)
    camera.answer()
    for _ in range(3):
        camera.offer(10_000)
    assert (len(camera.sent), camera.drops) == (1, {"over budget": 2})
    await until(lambda: len(camera.sent) == 2, "the next frame is paid for")
    assert camera.sent[-1].frame_id == 4


async def test_a_full_window_supersedes() -> None:
    """That is no matter of any budget."""
    camera = Camera(Uplink(), window=1, max_kbit=1_000_000.0)
    for _ in range(3):
        camera.offer(10)
    assert (len(camera.sent), camera.drops) == (1, {"superseded": 1})


async def test_what_grew_too_old_while_it_waited_is_not_sent() -> None:
    """Nor does it hold up the other cameras."""
    uplink = Uplink()
    old, fresh = Camera(uplink, "old", max_age_ms=100), Camera(uplink, "fresh")
    fresh.offer()
    old.offer(age_s=0.05)
    fresh.offer()
    await until(lambda: old.drops["stale"] == 1, "it is dropped")
    fresh.answer()
    assert (len(old.sent), len(fresh.sent)) == (0, 2)


async def test_a_camera_that_is_never_answered_does_not_hold_up_the_others_for_long() -> None:
    """First another camera's frame shows that the uplink is well; then the silent one counts no more."""
    uplink = Uplink()
    silent, well = Camera(uplink, "silent"), Camera(uplink, "well")
    silent.offer()
    deadline_s = time.monotonic() + 10
    while not well.sent:
        assert time.monotonic() < deadline_s, "none is tried"
        well.offer()
        await asyncio.sleep(0.05)
    well.answer()
    for sent in range(2, 10):
        well.offer()
        assert len(well.sent) == sent
        well.answer()

    assert silent.lane.lose() == 1
    uplink.begin(silent.lane, CHANNEL, 0.001)
    silent.offer()
    well.offer()
    assert (len(silent.sent), len(well.sent)) == (2, 10)


async def test_another_channel_is_begun_with_care() -> None:
    """What was learned of the one before says nothing of it."""
    uplink = Uplink()
    first, second = Camera(uplink, "first"), Camera(uplink, "second")
    first.offer()
    first.answer()
    for camera in (first, second):
        camera.lane.lose()
        uplink.begin(camera.lane, "another", 0.001)
        camera.offer()
    assert (len(first.sent), len(second.sent)) == (2, 0)
    uplink.leave(first.lane)
    assert len(second.sent) == 1
