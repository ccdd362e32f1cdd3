"""The cameras at work: each captured by a thread and streamed over the one connection."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from edge_agent.capture.capture import Capture
from edge_agent.client import CameraStream
from edge_agent.config import AgentConfig, CameraConfig, ServerConfig
from edge_agent.connection import Connection
from edge_agent.frame import Frame
from edge_agent.result import Result
from edge_agent.state import CameraState, CameraStatus

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 2.0


class CameraRunner:
    """One camera: its capture thread and its stream to the server."""

    def __init__(
        self,
        camera: CameraConfig,
        password: str | None,
        connection: Connection,
        on_result: Callable[[Result], None],
    ) -> None:
        self.camera = camera
        self.password = password
        self.status = CameraStatus.now(CameraState.CONNECTING)
        self._loop = asyncio.get_running_loop()
        self._captured = self.status
        self._capture = Capture(camera, password, self._on_frame, self._on_status)
        self._stream = CameraStream(
            camera, connection, on_result, self._on_refusal, self._capture.limit_image_bytes
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._capture.start()
        self._task = asyncio.create_task(self._stream.run(), name=f"stream-{self.camera.name}")

    @property
    def dropped(self) -> int:
        """How many frames were not sent or not answered."""
        return self._stream.drops.total()

    async def stop(self) -> None:
        """End both; a library call that hangs is left to its timeout."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._capture.stop, STOP_TIMEOUT_S)
        log.info(
            "camera %s: stopped; not sent or not answered: %s",
            self.camera.name,
            _in_words(self._stream.drops),
        )

    # The capture thread calls these two; everything else happens in the event loop.

    def _on_frame(self, frame: Frame) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed: the agent is ending
            self._loop.call_soon_threadsafe(self._stream.offer, frame)

    def _on_status(self, status: CameraStatus) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._captured_is, status)

    def _captured_is(self, status: CameraStatus) -> None:
        self._captured = status
        self._tell()

    def _on_refusal(self, _reason: str) -> None:
        self._tell()

    def _tell(self) -> None:
        refusal = self._stream.refusal
        status = self.status.then(CameraState.REFUSED, refusal) if refusal else self._captured
        if (status.state, status.reason) != (self.status.state, self.status.reason):
            log.info("camera %s: %s", self.camera.name, status)
        self.status = status


class Agent:
    """All cameras over one connection."""

    def __init__(
        self,
        server: ServerConfig,
        on_result: Callable[[Result], None],
        on_server_status: Callable[[str], None],
    ) -> None:
        self._cameras: dict[str, CameraRunner] = {}
        self._on_result = on_result
        self._connection = Connection(server, lambda: self._cameras, on_server_status)

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
            name
            for name, runner in self._cameras.items()
            if wanted.get(name) != runner.camera or password_of(name) != runner.password
        ]
        await asyncio.gather(*(self._cameras.pop(name).stop() for name in gone))
        for name, camera in wanted.items():
            if name not in self._cameras:
                runner = CameraRunner(camera, password_of(name), self._connection, self._on_result)
                self._cameras[name] = runner
                runner.start()
        self._cameras = {name: self._cameras[name] for name in wanted}

    async def stop(self) -> None:
        """Stop every camera, then the connection."""
        await asyncio.gather(*(runner.stop() for runner in self._cameras.values()))
        await self._connection.close()


def _in_words(drops: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(drops.items()) if count) or "none"
