"""One thread for all that touches the configuration's files: a mount that hangs stops nothing else."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from edge_agent.errors import ConfigError
from edge_agent.thread_names import show_name

P = ParamSpec("P")
R = TypeVar("R")

MOST_WAITING = 16


class FileThread:
    """Does work in order, one piece after the other, in a daemon thread: the agent's end waits for none."""

    def __init__(self) -> None:
        self._work: queue.Queue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = queue.Queue(
            MOST_WAITING
        )
        self._thread = threading.Thread(target=self._run, name="configuration", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
        """Do this in the thread and give what it gives, or raise what it raises.

        Whoever no longer waits has cancelled it, unless it has begun. Raises ConfigError when too much waits.
        """
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        try:
            self._work.put_nowait((lambda: work(*arguments, **options), future))
        except queue.Full:
            raise ConfigError("the configuration's files have not answered for long") from None
        return await future

    def close(self) -> None:
        """End once the work is done; nobody waits for it."""
        try:
            self._work.put_nowait(None)
        except queue.Full:
            return

    def _run(self) -> None:
        show_name()
        while (piece := self._work.get()) is not None:
            work, future = piece
            if future.cancelled():
                continue
            try:
                value = work()
            except Exception as error:  # noqa: BLE001 - whoever waits for it gets it
                _settle(future, _failed, error)
            else:
                _settle(future, _done, value)


def _settle(
    future: "asyncio.Future[Any]", how: Callable[["asyncio.Future[Any]", Any], None], value: object
) -> None:
    try:
        future.get_loop().call_soon_threadsafe(how, future, value)
    except RuntimeError:  # the loop has closed: the agent has ended
        return


def _done(future: "asyncio.Future[Any]", value: object) -> None:
    if not future.done():
        future.set_result(value)


def _failed(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
