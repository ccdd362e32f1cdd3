"""How a command changes the configuration: by the running agent, else in the files themselves."""

import contextlib
from pathlib import Path

from edge_agent.config.change import Change, perform, to_data
from edge_agent.config.places import places_of
from edge_agent.errors import AgentError, NotAllowedError


def make(config_path: Path, change: Change) -> None:
    """Make a change: when this returns it is in effect in the running agent, or in the files where none runs.

    Raises:
        AgentError: it cannot be made: nothing has changed.
        BadValueError: likewise, for a value.

    """
    from edge_agent.control.client import ask, who_may
    from edge_agent.control.protocol import NoAccessError, NoAgentError

    try:
        ask(config_path, {"command": "change", "change": to_data(change)})
    except (NoAgentError, NoAccessError, NotAllowedError) as refused:
        # The file may be this user's all the same; an agent that runs sees the change there.
        try:
            perform(config_path, change)
        except NotAllowedError as error:
            if isinstance(refused, NoAgentError):
                raise
            places = places_of(config_path)
            raise AgentError(f"{error}; nor by the agent at {places.socket}: {who_may(places)}") from None
        if isinstance(refused, NotAllowedError):
            error_there = ""
            # It would see the change by itself, a little later.
            with contextlib.suppress(AgentError):
                ask(config_path, {"command": "read-again"})
                error_there = ask(config_path, {"command": "status"})["configuration"]["error"]
            if error_there:
                raise AgentError(
                    f"it is written, and not in effect: the running agent: {error_there}"
                ) from None
