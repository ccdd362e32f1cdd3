"""Waiting for what cannot be awaited: by looking again, until a deadline."""

import asyncio
import time
from collections.abc import Callable

PERIOD_S = 0.005


async def until(condition: Callable[[], object], what: str, timeout_s: float = 15.0) -> None:
    """Let the event loop run until something holds; fail with `what` when it does not in time."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {timeout_s:g} s: {what}"
        await asyncio.sleep(PERIOD_S)


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = 15.0) -> None:
    """Wait until something holds; fail with `what` when it does not in time."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(PERIOD_S)
