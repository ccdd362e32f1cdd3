"""The service's files as this installation needs them: the unit with its program's path, the user's file."""

import re
import site
import sys
from collections.abc import Iterable
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from edge_agent.errors import AgentError

UNIT = "edge-agent.service"
USER = "camera-ai-agent"
USER_FILE = "camera-ai-agent.conf"
PROGRAM = "edge-agent"
# The path in the file as it is shipped.
SHIPPED_PROGRAM = "/opt/camera-ai/bin/edge-agent"
# What the service does not see: homes, by ProtectHome, and temporary files, by PrivateTmp.
HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
TEMPORARY = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108
HIDDEN = (*HOMES, *TEMPORARY)
# Nothing that systemd's lines give a meaning of its own.
PLAIN_PATH = re.compile(r"[\w/.,@+~-]+")


def shipped(name: str) -> str:
    """Give the text of one of the files in systemd/."""
    return (files("edge_agent.systemd") / name).read_text()


def unit_text(program: Path, needs: Iterable[Path]) -> str:
    """Give the unit for a program.

    Args:
        program: the absolute path of `edge-agent`.
        needs: the folders that it is made of, interpreter and packages included. Those in somebody's home,
            or among temporary files, which the service does not see, are shown to it, read-only, and of these
            places nothing else.

    Raises:
        AgentError: a service cannot be told such a path.

    """
    shown = _shown(needs)
    for path in (program, *shown):
        if not PLAIN_PATH.fullmatch(str(path)):
            raise AgentError(
                f"{path}: a service needs a path of letters, digits and /._-+,@~; install elsewhere"
            )
    text = shipped(UNIT).replace(f"ExecStart={SHIPPED_PROGRAM} ", f"ExecStart={program} ")
    if shown:
        homes = "tmpfs" if any(_is_in(HOMES, path) for path in shown) else "yes"
        lines = [f"ProtectHome={homes}", *(f"BindReadOnlyPaths={path}" for path in shown)]
        text = text.replace("ProtectHome=yes", "\n".join(lines))
    return text


def is_temporary(program: Path) -> bool:
    """Tell whether a program is where files go away by themselves."""
    return _is_in(TEMPORARY, program)


def installed_program(called_as: str) -> Path:
    """Find the program's absolute path, by the path it was called as, or beside its interpreter."""
    for candidate in (Path(called_as), Path(sys.executable).with_name(PROGRAM)):
        if candidate.name == PROGRAM and candidate.is_file():
            # A link in somebody's home leads to where the program is; one elsewhere may be there to be moved.
            absolute = candidate.absolute()
            return absolute.resolve() if _is_in(HOMES, absolute) else absolute
    raise AgentError(f"{PROGRAM} is not installed as a program: pip install 'camera-ai[edge]'")


def folders_needed(program: Path) -> list[Path]:
    """Give the folders that hold this program, its interpreter, its packages and its own modules."""
    specs = [find_spec(name) for name in ("edge_agent", "edge_agent.systemd", "camera_ai", "cython_ext")]
    packages = [Path(path) for spec in specs if spec for path in spec.submodule_search_locations or ()]
    prefixes = [Path(sys.prefix), Path(sys.base_prefix)]
    installed = [Path(path) for path in (*site.getsitepackages(), site.getusersitepackages())]
    found = [program.parent, *prefixes, *installed, *packages]
    return [path for path in found if path.is_dir()]


def _shown(needs: Iterable[Path]) -> list[Path]:
    """Choose the folders that the service does not see, without those that lie in one of the others."""
    hidden = {path for need in needs for path in (need.absolute(), need.resolve()) if _is_in(HIDDEN, path)}
    return sorted(path for path in hidden if not any(parent in hidden for parent in path.parents))


def _is_in(folders: Iterable[Path], path: Path) -> bool:
    return any(folder in path.parents for folder in folders)
