"""The cameras at work: each captured by a thread and streamed over the one connection."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from edge_agent import wire
from edge_agent.capture.capture import Capture
from edge_agent.client import CameraStream
from edge_agent.config import AgentConfig, CameraConfig, ServerConfig
from edge_agent.connection import Connection
from edge_agent.frame import Frame
from edge_agent.record import ClockTrust, Record, StateChange
from edge_agent.result import Result
from edge_agent.state import CameraStatus
from edge_agent.state_machine import CameraStateMachine
from edge_agent.wanted import Wanted
from edge_agent.wish import CameraWish, FrameRate, Masks, Viewing

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 2.0
STOP_POLL_S = 0.02


class CameraRunner:
    """One camera: its capture thread, its stream to the server, and what is wanted of its frames."""

    def __init__(
        self,
        camera: CameraConfig,
        password: str | None,
        connection: Connection,
        on_result: Callable[[Result], None],
        on_record: Callable[[Record], None],
    ) -> None:
        self.camera = camera
        self.password = password
        self.machine = CameraStateMachine(self._changed)
        self._loop = asyncio.get_running_loop()
        self._on_record = on_record
        self._wanted = Wanted.of(camera)
        self._capture = Capture(camera, password, self._on_frame, self._on_status)
        self._stream = CameraStream(camera, connection, on_result, self.machine.refused, self._facts)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._capture.start()
        self._task = asyncio.create_task(self._stream.run(), name=f"stream-{self.camera.name}")

    @property
    def status(self) -> CameraStatus:
        """How the camera stands."""
        return self.machine.status

    @property
    def dropped(self) -> int:
        """How many frames were not sent or not answered."""
        return self._stream.drops.total()

    def want(self, **changes: Any) -> None:
        """Change what is wanted of the frames from now on: fields of Wanted."""
        self._wanted = replace(self._wanted, **changes)
        self._capture.want(self._wanted)

    def wished(self, wish: CameraWish) -> None:
        """Do as the server wishes; privacy masks are the gateway's own, and no wish touches them."""
        match wish:
            case FrameRate():
                self.want(fps=wish.fps or self.camera.fps)
            case Viewing():
                self.want(watched=wish.watched)
            case Masks():
                self.want(server_masks=wish.polygons)

    def stop_soon(self) -> None:
        """Tell both to end; nothing is delivered any more."""
        self._capture.stop(0.0)
        if self._task is not None:
            self._task.cancel()

    async def ended(self, deadline_s: float) -> None:
        """Wait for both to end; a library call that hangs beyond the deadline is left to its own timeout."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        while not self._capture.stop(0.0) and time.monotonic() < deadline_s:  # noqa: ASYNC110 - it is a thread
            await asyncio.sleep(STOP_POLL_S)
        drops = _in_words(self._stream.drops)
        log.info("camera %s: stopped; not sent or not answered: %s", self.camera.name, drops)

    # The capture thread calls these two; everything else happens in the event loop.

    def _on_frame(self, frame: Frame) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed: the agent is ending
            self._loop.call_soon_threadsafe(self._stream.offer, frame)

    def _on_status(self, status: CameraStatus) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.machine.captured, status)

    def _facts(self, facts: wire.Facts) -> None:
        self.want(limit_bytes=facts.max_image_bytes, input_wh=facts.input_wh)

    def _changed(self, before: CameraStatus, now: CameraStatus) -> None:
        log.info("camera %s: %s", self.camera.name, now)
        lasted_ms = round((now.since_s - before.since_s) * 1e3)
        change = StateChange(now.state, now.reason, before.state, lasted_ms)
        self._on_record(Record(self.camera.name, time.time_ns(), ClockTrust.GOOD, change))


class Agent:
    """All cameras over one connection."""

    def __init__(
        self,
        server: ServerConfig,
        on_result: Callable[[Result], None],
        on_server_status: Callable[[str], None],
        on_record: Callable[[Record], None] = lambda _: None,
        gateway: str = "",
    ) -> None:
        self._on_record = on_record
        self._cameras: dict[str, CameraRunner] = {}
        # Of the configuration, those that are disabled too.
        self._names: tuple[str, ...] = ()
        self._on_result = on_result
        self._connection = Connection(
            server, lambda: self._names, on_server_status, gateway=gateway, on_wish=self._wished
        )

    @property
    def cameras(self) -> list[str]:
        """Names, in the configuration's order."""
        return list(self._cameras)

    def watch(self, name: str) -> tuple[CameraStatus | None, int]:
        """Give a camera's status, and how many of its frames were not sent or not answered.

        The status is None for one that does not run.
        """
        runner = self._cameras.get(name)
        return (runner.status, runner.dropped) if runner else (None, 0)

    async def apply(self, config: AgentConfig, password_of: Callable[[str], str | None]) -> None:
        """Run exactly the enabled cameras of a configuration; those that are as before are not touched."""
        wanted = {name: camera for name, camera in config.cameras.items() if camera.enabled}
        gone = [
            self._cameras.pop(name)
            for name, runner in list(self._cameras.items())
            if wanted.get(name) != runner.camera or password_of(name) != runner.password
        ]
        for runner in gone:
            runner.stop_soon()
        self._names = tuple(config.cameras)
        self._connection.cameras_changed()
        for name, camera in wanted.items():
            if name not in self._cameras:
                runner = CameraRunner(
                    camera, password_of(name), self._connection, self._on_result, self._on_record
                )
                self._cameras[name] = runner
                for wish in self._connection.standing_wishes(name):
                    runner.wished(wish)
                runner.start()
        self._cameras = {name: self._cameras[name] for name in wanted}
        await _all_ended(gone)

    def _wished(self, wish: CameraWish) -> None:
        runner = self._cameras.get(wish.camera)
        if runner is not None:
            log.debug("camera %s: the server wishes %s", wish.camera, wish)
            runner.wished(wish)

    async def stop(self) -> None:
        """Stop every camera, then the connection."""
        for runner in self._cameras.values():
            runner.stop_soon()
        await _all_ended(self._cameras.values())
        await self._connection.close()


async def _all_ended(runners: Iterable[CameraRunner]) -> None:
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    await asyncio.gather(*(runner.ended(deadline_s) for runner in runners))


def _in_words(drops: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(drops.items()) if count) or "none"
