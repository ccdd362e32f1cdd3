"""The agent's rounds over its cameras, by which the watchdog is fed."""

from collections.abc import AsyncIterator
from types import MappingProxyType

import pytest

from edge_agent.agent import Agent
from edge_agent.config import AgentConfig, CameraConfig, ServerConfig
from tests.polling import until

# Nobody listens there: the cameras are down, and so is the server.
NOWHERE = "127.0.0.1:1"


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    """Run an agent with two cameras that are down and one that is disabled."""
    server = ServerConfig(address=NOWHERE)
    cameras = {name: CameraConfig(name=name, url=f"rtsp://{NOWHERE}/") for name in ("door", "yard")}
    cameras["off"] = CameraConfig(name="off", url=f"rtsp://{NOWHERE}/", enabled=False)
    agent = Agent(server, lambda _: None, lambda _: None)
    await agent.apply(AgentConfig(server=server, cameras=MappingProxyType(cameras)), lambda _: None)
    yield agent
    await agent.stop()


async def test_cameras_that_are_down_are_looked_after(agent: Agent) -> None:
    """Round after round: no camera's state starves the watchdog."""
    first = agent.rounds()

    await until(lambda: agent.rounds() >= first + 3, "three more rounds")


async def test_a_camera_that_is_away_is_a_warning_in_the_log(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    """So that whoever asks the journal for warnings is told of it."""

    def warned() -> set[str]:
        records = [*caplog.get_records("setup"), *caplog.records]
        return {
            record.getMessage().partition(": TCP")[0] for record in records if record.levelname == "WARNING"
        }

    await until(lambda: {"camera door: offline", "camera yard: offline"} <= warned(), "both are told")


async def test_a_camera_that_nobody_looks_after_ends_the_rounds(agent: Agent) -> None:
    """Although the loop goes on, and the other camera is looked after."""
    await until(agent.rounds, "a round")
    look = agent.cameras["door"]._next_look
    assert look is not None
    look.cancel()
    agent.rounds()
    rounds, others = agent.rounds(), agent.cameras["yard"].looks

    await until(lambda: agent.cameras["yard"].looks >= others + 3, "looks after the other camera")

    assert agent.rounds() == rounds
