"""The unit as it is made for an installation."""

from pathlib import Path

import pytest

from edge_agent.errors import AgentError
from edge_agent.service.unit import SHIPPED_PROGRAM, UNIT, folders_needed, shipped, unit_text

COMMAND = "ExecStart={} --config /etc/camera-ai/agent.toml run\n"


def test_the_shipped_unit_is_for_the_place_that_it_names() -> None:
    """Nothing but itself comes of it there."""
    assert unit_text(Path(SHIPPED_PROGRAM), [Path("/opt/camera-ai"), Path("/usr")]) == shipped(UNIT)


def test_another_place_is_put_into_it() -> None:
    """The program's path is all that changes."""
    text = unit_text(Path("/srv/agent/bin/edge-agent"), [Path("/srv/agent")])

    assert COMMAND.format("/srv/agent/bin/edge-agent") in text
    assert len(set(text.splitlines()) ^ set(shipped(UNIT).splitlines())) == 2


def test_what_lies_in_a_home_is_shown_read_only_and_nothing_else_of_the_homes() -> None:
    """The folders once each; what a folder among them holds goes without saying."""
    needs = [Path(path) for path in ("/home/a/venv/bin", "/home/a/venv", "/root/python", "/usr", "/opt/x")]
    lines = unit_text(Path("/home/a/venv/bin/edge-agent"), needs).splitlines()

    assert "ProtectHome=tmpfs" in lines
    assert "ProtectHome=yes" not in lines
    assert [line for line in lines if line.startswith("BindReadOnlyPaths=")] == [
        "BindReadOnlyPaths=/home/a/venv",
        "BindReadOnlyPaths=/root/python",
    ]


@pytest.mark.parametrize(
    "folder", ["/opt/a b", "/opt/100%", "/opt/$HOME", '/opt/"x"', "/opt/a:b", "/opt/a\nb"]
)
def test_a_path_with_a_meaning_for_systemd_is_refused(folder: str) -> None:
    """One line says what is allowed."""
    with pytest.raises(AgentError, match="a service needs a path of letters, digits"):
        unit_text(Path(folder) / "edge-agent", [])


def test_all_that_this_program_is_made_of_is_needed() -> None:
    """The interpreter, the packages and the modules, which an editable install has elsewhere."""
    import camera_ai

    import edge_agent

    needed = folders_needed(Path("/usr/bin/edge-agent"))

    for module in (edge_agent, camera_ai, pytest):
        assert any(Path(module.__file__ or "").is_relative_to(folder) for folder in needed)
