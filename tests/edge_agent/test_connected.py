"""A gateway is connected, or says that it is not, whatever its cameras do."""

from pathlib import Path

from edge_agent.agent import Agent
from edge_agent.config import ServerConfig
from edge_agent.spool.spool import Spool
from tests.conftest import StartServer
from tests.polling import until


async def test_without_a_camera_or_record_the_server_is_found_again(
    start_server: StartServer, tmp_path: Path
) -> None:
    """All cameras may be disabled: its wishes, and whether it is there, are known all the same."""
    server = start_server("--detector", "simulated:1")
    statuses: list[str] = []
    spool = Spool.open(tmp_path / "spool.db", 1 << 20)
    agent = Agent(ServerConfig(address=server.address), lambda _: None, statuses.append)
    agent.upload(spool, "gateway")
    await until(lambda: statuses == ["connected"], "the server")
    server.kill()
    await until(lambda: statuses[-1].startswith("not connected"), "the loss is noticed")
    start_server("--detector", "simulated:1", listen=server.address)
    await until(lambda: statuses[-1] == "connected", "the server again", 30.0)
    await agent.stop()
    spool.close()
