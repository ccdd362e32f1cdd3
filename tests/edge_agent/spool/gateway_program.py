"""A gateway without cameras, as a process: puts records without end and uploads them.

Usage: gateway_program.py SPOOL HOST:PORT FIRST RATE. Prints the number of the last record that the disk has,
again and again. With a rate of 0 it puts none, and ends when all that waited is uploaded.
"""

import asyncio
import sys
from pathlib import Path

from edge_agent.config import ServerConfig
from edge_agent.connection import Connection
from edge_agent.spool.spool import Spool
from edge_agent.spool.uploader import Uploader
from tests.edge_agent.spool import spools


async def main(path: Path, address: str, number: int, rate: int) -> None:
    """Put and upload."""
    spool = Spool.open(path, spools.MAX_BYTES)
    connection = Connection(ServerConfig(address=address), list, lambda _: None)
    uploading = asyncio.create_task(Uploader(connection, spool, "shop").run())
    if not rate:
        await asyncio.sleep(0.5)
        while spool.status().waiting:  # noqa: ASYNC110 - another thread tells
            await asyncio.sleep(0.05)
    while rate:
        for _ in range(max(1, rate // 20)):
            spool.put(spools.record(number, camera=("door", "yard")[number % 2]))
            number += 1
        before = number - 1
        await asyncio.sleep(0.05)
        if not spool.status().in_memory:
            print(before, flush=True)
    uploading.cancel()
    await asyncio.gather(uploading, return_exceptions=True)
    await connection.close()
    spool.close()


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
