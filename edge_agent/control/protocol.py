"""What goes over the control socket: one JSON object a line; one request a connection, and its answers.

Asked `{"command": "status"}`, the agent answers its status as one object; with `"watch": true` one a
second, until the connection is closed. Asked `{"command": "change", "change": …}`, it answers
`{"done": TEXT}` when the change is in effect; asked `{"command": "read-again"}`, when it has read its
files; asked `{"command": "report-reading", "device": NAME, "value": NUMBER}`, when it has taken the reading
for the server. What cannot be done is `{"error": TEXT, "kind": WORD}`.
"""

from pathlib import Path
from typing import Any

from edge_agent.config.rules import BadValueError
from edge_agent.errors import AgentError, ConfigError, NamesTakenError, NotAllowedError, UsageError

MAX_REQUEST_BYTES = 1 << 20
MAX_ANSWER_BYTES = 4 << 20
NO_AGENT_EXIT_CODE = 4

KINDS: dict[str, type[AgentError]] = {
    "usage": UsageError,
    "not allowed": NotAllowedError,
    "configuration": ConfigError,
    "agent": AgentError,
}


class NoAgentError(AgentError):
    """No agent of this configuration listens."""

    exit_code = NO_AGENT_EXIT_CODE


class NoAccessError(AgentError):
    """An agent may run, but its socket is not for this user."""


def error_data(error: Exception) -> dict[str, Any]:
    """Write an error for the way back; what is not expected is told by its type alone."""
    match error:
        case BadValueError():
            return {"error": str(error), "kind": "value", "key": error.key}
        case NamesTakenError():
            return {"error": str(error), "kind": "names", "path": str(error.path), "names": list(error.names)}
        case AgentError():
            kind = next(word for word, made in KINDS.items() if isinstance(error, made))
            return {"error": str(error), "kind": kind}
        case _:
            return {"error": f"internal error: {type(error).__name__}", "kind": "agent"}


def error_from(data: dict[str, Any]) -> Exception:
    """Read what `error_data` wrote: the error as it would have been raised here."""
    text, kind = str(data["error"]), data.get("kind")
    if kind == "value":
        return BadValueError(str(data.get("key", "")), text)
    if kind == "names" and data.get("names"):
        return NamesTakenError(Path(str(data.get("path"))), [str(name) for name in data["names"]])
    return KINDS.get(str(kind), AgentError)(text)
