"""What the agent does when it is asked over its control socket."""

import contextlib
import logging
import math
from collections.abc import Callable
from typing import Any

from edge_agent.clock import Clock
from edge_agent.config.change import from_data
from edge_agent.config.rules import BadValueError, has_control_character, unknown
from edge_agent.errors import AgentError
from edge_agent.live import LiveConfiguration
from edge_agent.log import DEED
from edge_agent.record import Reading, Record

log = logging.getLogger(__name__)

COMMANDS = dict.fromkeys(("status", "change", "read-again", "report-reading"))
MOST_CHARACTERS = 200
READING_TEXTS = {
    "device": "device_id",
    "unit": "unit",
    "location": "location",
    "status": "status",
    "firmware_version": "firmware_version",
}


class AgentHandler:
    """Status, changes and device readings."""

    def __init__(
        self,
        live: LiveConfiguration,
        take_status: Callable[[], dict[str, Any]],
        on_record: Callable[[Record], None],
    ) -> None:
        """Take what is worked on; readings go to `on_record`."""
        self._live = live
        self._take_status = take_status
        self._on_record = on_record
        self._clock = Clock()

    def status(self) -> dict[str, Any]:
        """Give the agent's status as plain values for JSON."""
        return self._take_status()

    async def obey(self, command: str, request: dict[str, Any], who: str) -> dict[str, Any]:
        """Do what is asked for; raises AgentError or BadValueError."""
        match command:
            case "change":
                change = from_data(request.get("change"))
                await self._live.change(change)
                log.info("%s: %s", who, change, extra={DEED: True})
                return {"done": str(change)}
            case "read-again":
                await self._live.read_again()
                return {"done": "read again"}
            case "report-reading":
                self._on_record(Record("", *self._clock.look(), reading_from(request)))
                return {"done": "taken"}
            case _:
                raise AgentError(unknown("command", command, COMMANDS))


def reading_from(request: dict[str, Any]) -> Reading:
    """Read a device's reading as JSON has it; raises BadValueError."""
    known = {"command", "value", "battery_percent", *READING_TEXTS}
    for key in request:
        if key not in known:
            raise BadValueError(key, unknown("key", key, dict.fromkeys(sorted(known))))
    texts = {name: _text(request, key) for key, name in READING_TEXTS.items() if key in request}
    if not texts.get("device_id"):
        raise BadValueError("device", "found none, expected the device's name")
    battery = request.get("battery_percent")
    return Reading(
        value=_number(request, "value"),
        battery_percent=None if battery is None else _number(request, "battery_percent"),
        **texts,
    )


def _text(request: dict[str, Any], key: str) -> str:
    value = request[key]
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS or has_control_character(value):
        raise BadValueError(
            key, f"expected text of at most {MOST_CHARACTERS} characters, no control characters"
        )
    return value


def _number(request: dict[str, Any], key: str) -> float:
    value = request.get(key)
    with contextlib.suppress(OverflowError):
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    raise BadValueError(key, "expected a finite number")
