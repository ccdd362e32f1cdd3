"""What the camera sees, live: one task paces the clip, and everybody who watches sees the same picture."""

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from collections.abc import Generator, Iterator

from edge_agent.rtsp.clip import AccessUnit, Clip, ClipError
from edge_agent.rtsp.counts import CameraCounts
from edge_agent.rtsp.faults import Faults
from edge_agent.rtsp.rtp import CLOCK_HZ, RtpNumbering
from edge_agent.rtsp.viewer import Viewer

_LATE_S = 1.0
"""Held up for longer than this, the camera goes on from where it is; it does not hurry to catch up."""

_log = logging.getLogger(__name__)


class Broadcast:
    """Plays the clip while somebody watches, from its beginning for the first who comes.

    With `loop` for ever; otherwise to its end, where everybody's stream ends.
    """

    def __init__(self, clip: Clip, *, loop: bool, faults: Faults, counts: CameraCounts) -> None:
        self.description = clip.description
        self.counts = counts
        self._clip = clip
        self._loop = loop
        self._faults = faults
        self._viewers: set[Viewer] = set()
        self._playing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbering = RtpNumbering()
        self._zero_timestamp = secrets.randbits(32)
        self._zero_s = time.monotonic()

    @property
    def viewers(self) -> int:
        """How many watch now."""
        return len(self._viewers)

    def join(self, viewer: Viewer) -> None:
        """Show it the pictures that come, from the next keyframe on."""
        self._viewers.add(viewer)
        if self._playing is None or self._playing.done():
            self._playing = asyncio.create_task(self._play())
            self._tasks.add(self._playing)
            self._playing.add_done_callback(self._tasks.discard)

    def leave(self, viewer: Viewer) -> None:
        """Show it nothing more; with the last one the clip stops."""
        self._viewers.discard(viewer)
        if not self._viewers and self._playing is not None:
            self._playing.cancel()
            self._playing = None

    async def close(self) -> None:
        """Stop playing."""
        self._viewers.clear()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _play(self) -> None:
        try:
            # Reading happens here, on the loop: a packet comes from the page cache within microseconds.
            with contextlib.closing(self._units()) as units:
                await self._show(units)
        except ClipError as error:
            _log.error("%s", error)
        leaving = tuple(self._viewers)
        self._viewers.clear()
        for viewer in leaving:
            viewer.say_goodbye(self._numbering.goodbye())

    def _units(self) -> Generator[AccessUnit]:
        other = self._faults.switch_to
        if other is None:
            yield from self._clip.play(loop=self._loop)
            return
        end_s = 0.0
        for unit in itertools.islice(self._clip.play(loop=True), self._faults.switch_after_frames):
            end_s = max(end_s, unit.presentation_s + unit.duration_s)
            yield unit
        yield from Clip(other, self._faults.parameter_sets).play(loop=self._loop, start_s=end_s)

    async def _show(self, units: Iterator[AccessUnit]) -> None:
        origin_s: float | None = None
        restarts = (0, self._faults.timestamps_restart_after_frames)
        zero = self._zero_timestamp + int((time.monotonic() - self._zero_s) * CLOCK_HZ)
        for number, unit in enumerate(units):
            now_s = time.monotonic()
            if origin_s is None:
                origin_s = now_s - unit.decode_s
            early_s = origin_s + unit.decode_s - now_s
            if early_s < -_LATE_S:
                origin_s -= early_s
            await asyncio.sleep(max(0.0, early_s))
            ticks = round(unit.presentation_s * CLOCK_HZ)
            if restarts[1] is not None and number in restarts:
                zero = -ticks
            self._send(unit, (zero + ticks) & 0xFFFFFFFF)

    def _send(self, unit: AccessUnit, timestamp: int) -> None:
        # A keyframe is the newest picture of all so far: with B-frames others would report a wrong instant.
        report = self._numbering.sender_report(timestamp, time.time()) if unit.is_keyframe else None
        packets = self._numbering.stamp(unit.packets, timestamp)
        self.counts.frames += 1
        for viewer in tuple(self._viewers):
            viewer.show(packets, report)
