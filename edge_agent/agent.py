"""The cameras at work: each captured by a thread and streamed over the one connection."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from edge_agent import wire
from edge_agent.camera_runner import CameraRunner
from edge_agent.capture.attempts import Attempts
from edge_agent.config import AgentConfig, ServerConfig
from edge_agent.connection import Connection
from edge_agent.record import Record
from edge_agent.result import Result
from edge_agent.spool.spool import Spool
from edge_agent.spool.uploader import Uploader
from edge_agent.uplink.turns import Uplink
from edge_agent.wish import CameraWish, in_words

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 2.0
# A change waits so long for the cameras that it ends: most have ended then, and the others do by themselves.
CHANGE_PATIENCE_S = 0.5
# How often to see that the server is there, where no camera's stream does.
CONNECTION_PERIOD_S = 2.0


class Agent:
    """All cameras over one connection.

    Attributes:
        facts: what the server told at the start of the latest stream; None before the first.
        uploader: what sends the spool's records, once `upload` was called.

    """

    def __init__(
        self,
        server: ServerConfig,
        on_result: Callable[[Result], None],
        on_server_status: Callable[[str], None],
        on_record: Callable[[Record], None] = lambda _: None,
        gateway: str = "",
        authorities: bytes | None = None,
    ) -> None:
        self.facts: wire.Facts | None = None
        self.uploader: Uploader | None = None
        self._beside: list[asyncio.Task[None]] = []
        self._server = server
        self._on_record = on_record
        # Of the configuration, in its order; those that are disabled too.
        self._cameras: dict[str, CameraRunner] = {}
        self._on_result = on_result
        self._looks: dict[str, int] = {}
        self._rounds = 0
        self._ending: set[asyncio.Task[None]] = set()
        self._uplink = Uplink()
        self._attempts = Attempts()
        self._connection = Connection(
            server,
            lambda: self._cameras,
            on_server_status,
            authorities=authorities,
            gateway=gateway,
            on_wish=self._wished,
        )

    @property
    def cameras(self) -> Mapping[str, CameraRunner]:
        """The cameras by name, in the configuration's order, those that are disabled too."""
        return MappingProxyType(self._cameras)

    def wishes(self, camera: str) -> list[str]:
        """Say in words what the server wishes of a camera."""
        return [in_words(wish) for wish in self._connection.standing_wishes(camera)]

    def use(self, server: ServerConfig, authorities: bytes | None, gateway: str) -> None:
        """Go over to this server; captures go on. Raises ConfigError for authorities that cannot be used."""
        self._connection.use(server, authorities, gateway)
        if server != self._server:
            self._server, self.facts = server, None
        if self.uploader is not None:
            self.uploader.gateway = gateway
        for runner in self._cameras.values():
            runner.hurry()

    async def apply(self, config: AgentConfig, password_of: Callable[[str], str | None]) -> None:
        """Run exactly the enabled cameras of a configuration; those that are as before are not touched."""
        before, self._cameras = self._cameras, {}
        new: list[CameraRunner] = []
        for name, camera in config.cameras.items():
            runner = before.get(name)
            if runner is None or not runner.configure(camera, password_of(name)):
                runner = self._runner(config, name, password_of(name), runner)
                new.append(runner)
            self._cameras[name] = runner
        self._connection.cameras_changed()
        self._uplink.set_budget(config.gateway.max_kbit)
        gone = [runner for name, runner in before.items() if self._cameras.get(name) is not runner]
        for runner in gone:
            runner.stop_soon()
            if runner.camera.name not in self._cameras:
                runner.removed()
        for name, runner in self._cameras.items():
            for wish in self._connection.standing_wishes(name):
                runner.wished(wish)
        for runner in new:
            runner.start()
        await self._end(gone)

    def rounds(self) -> int:
        """Give a number that rises while each camera that is to run is looked after, whatever its state."""
        looks = {name: runner.looks for name, runner in self._cameras.items() if runner.camera.enabled}
        if all(count != self._looks.get(name) for name, count in looks.items()):
            self._looks = looks
            self._rounds += 1
        return self._rounds

    def upload(self, spool: Spool, gateway: str) -> None:
        """Stay connected, and send the spool's records to the server, from now on."""
        self.uploader = Uploader(self._connection, spool, gateway)
        self._beside.append(asyncio.create_task(self.uploader.run(), name="records"))
        self._beside.append(asyncio.create_task(self._stay_connected(), name="connection"))

    async def stop(self) -> None:
        """Stop every camera, then the connection."""
        for runner in self._cameras.values():
            runner.stop_soon()
        await _all_ended(self._cameras.values())
        await asyncio.gather(*self._ending, return_exceptions=True)
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        await self._connection.close()

    def _runner(
        self, config: AgentConfig, name: str, password: str | None, before: CameraRunner | None
    ) -> CameraRunner:
        return CameraRunner(
            config.cameras[name],
            password,
            self._connection,
            self._on_result,
            self._on_record,
            self._told_facts,
            self._uplink,
            self._attempts,
            before,
        )

    async def _stay_connected(self) -> None:
        """Connect again though all cameras are disabled and no record waits: wishes come this way, too."""
        while True:
            await self._connection.channel()
            await asyncio.sleep(CONNECTION_PERIOD_S)

    async def _end(self, runners: list[CameraRunner]) -> None:
        if not runners:
            return
        ending = asyncio.create_task(_all_ended(runners))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        await asyncio.wait([ending], timeout=CHANGE_PATIENCE_S)

    def _wished(self, wish: CameraWish) -> None:
        runner = self._cameras.get(wish.camera)
        if runner is not None:
            log.info("camera %s: the server wishes: %s", wish.camera, in_words(wish))
            runner.wished(wish)

    def _told_facts(self, facts: wire.Facts) -> None:
        self.facts = facts


async def _all_ended(runners: Iterable[CameraRunner]) -> None:
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    await asyncio.gather(*(runner.ended(deadline_s) for runner in runners))
