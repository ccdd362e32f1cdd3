"""More frames than can be worked on: nobody is forgotten for the sake of others. Counts, not times."""

import asyncio
from typing import Any

from tests.conftest import ServerProgram
from tests.wire.freshness.conftest import Call, Client, Connect

DETECTED = "OUTCOME_DETECTED"


async def send_in_step(calls: list[Call], until_detected: int, **fields: Any) -> list[int]:
    """Send one frame of each call, always in the same order, again and again; gives the frames detected."""
    while sum(call.count()[DETECTED] for call in calls) < until_detected:
        for call in calls:
            await call.send(**fields)
        await asyncio.sleep(0.002)
    return [call.count()[DETECTED] for call in calls]


async def test_whoever_always_comes_second_is_served_as_often(
    quick_server: ServerProgram, connect: Connect
) -> None:
    """Of two cameras in step the second one's deadline is always the later; it is served the same."""
    client = connect(quick_server)
    first, second = await send_in_step([client.call(), client.call()], until_detected=100)

    assert abs(first - second) <= 3


async def test_equal_streams_are_served_equally(quick_server: ServerProgram, connect: Connect) -> None:
    """Eight cameras at several times what one worker can do get the same number of frames each."""
    client = connect(quick_server)
    detected = await send_in_step([client.call() for _ in range(8)], until_detected=240, max_age_ms=5000)

    assert max(detected) - min(detected) <= 3


async def test_clients_of_their_own_are_served_equally(quick_server: ServerProgram, connect: Connect) -> None:
    """The same for cameras on connections of their own."""
    clients = [connect(quick_server) for _ in range(4)]
    detected = await send_in_step([client.call() for client in clients], until_detected=160)

    assert max(detected) - min(detected) <= 3


class Flood:
    """Calls that send without a pause."""

    def __init__(self, client: Client, count: int, **fields: Any) -> None:
        self.calls = [client.call() for _ in range(count)]
        self._tasks = [asyncio.create_task(self._send(call, fields)) for call in self.calls]

    @staticmethod
    async def _send(call: Call, fields: dict[str, Any]) -> None:
        while True:
            await call.send(**fields)
            await asyncio.sleep(0.001)

    async def end(self) -> None:
        """Send no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_a_slow_stream_is_not_starved_by_greedy_ones(
    quick_server: ServerProgram, connect: Connect
) -> None:
    """A camera that sends one frame after the other loses none to floods that claim a greater hurry."""
    client = connect(quick_server)
    flood = Flood(client, 4, max_age_ms=40)
    slow = client.call()
    for _ in range(30):
        await slow.ask(max_age_ms=10_000)
    await flood.end()

    assert slow.count() == {DETECTED: 30}
    # Each of them had its turns meanwhile, and none had more than one for each of the slow one's.
    for call in flood.calls:
        assert 20 <= call.count()[DETECTED] <= 45
