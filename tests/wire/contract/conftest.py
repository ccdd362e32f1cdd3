"""The servers that keep the contract, and the client that knows nothing else.

A test takes `server` and `client` and runs once for each kind of server in SERVERS. A server may
answer one frame at a time: tests keep one in flight wherever the number of answers with objects matters.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import footage, pictures
from tests.conftest import ServerProgram
from tests.wire.contract.published import Client, Messages
from tests.wire.reference import ReferenceProgram

MAX_IMAGE_BYTES = 200_000
MAX_STREAMS = 12

StartAnyServer = Callable[..., ServerProgram | ReferenceProgram]


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs, and what is known of it beforehand."""

    address: str
    pid: int
    detector: str
    max_image_bytes: int = MAX_IMAGE_BYTES
    max_streams: int = MAX_STREAMS

    @property
    def looks_at_pixels(self) -> bool:
        """False for one that answers the published object to any bytes."""
        return not self.detector.startswith("simulated:")


def running(start: StartAnyServer, detector: str, *options: str) -> Iterator[Server]:
    """Run a server, whoever made it: both have these options."""
    program = start(
        f"--detector={detector}",
        f"--max-image-bytes={MAX_IMAGE_BYTES}",
        f"--max-streams={MAX_STREAMS}",
        # How fast the machine is today is no part of the contract.
        "--max-age-ms=60000",
        *options,
    )
    try:
        yield Server(program.address, program.process.pid, detector)
    finally:
        program.kill()


# What a detector sees does not depend on the mode: simulated work tells the synchronous one from the other.
SERVERS = {
    "central server, simulated": lambda: running(ServerProgram, "simulated:2"),
    "central server, coco-ssd": lambda: running(ServerProgram, "coco-ssd"),
    "reference, simulated": lambda: running(ReferenceProgram, "simulated:2"),
    "reference, coco-ssd": lambda: running(ReferenceProgram, "coco-ssd"),
    "synchronous reference, simulated": lambda: running(ReferenceProgram, "simulated:2", "--mode=sync"),
}


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Run each kind of server once."""
    yield from SERVERS[request.param]()


@pytest.fixture(scope="session")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Messages:
    """Compile the published messages."""
    return Messages(tmp_path_factory.mktemp("published"))


@pytest.fixture
async def client(server: Server, messages: Messages) -> AsyncIterator[Client]:
    """Give a client of its own to each test."""
    client = Client(server.address, messages)
    yield client
    await client.channel.close()


@pytest.fixture(scope="session")
def street(walkers: Path) -> bytes:
    """Give the picture of seven people and two parked cars, as a JPEG."""
    return pictures.encode(footage.frame(walkers, 300), quality=90)
