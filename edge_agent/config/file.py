"""The configuration file: where it is, and how it is read and checked.

[server]
address = "192.0.2.1:50051"
ca = "central.pem"

[gateway]
name = "shop-7"

[cameras.door]
url = "rtsp://192.0.2.20/stream1"
user = "viewer"
fps = 5
"""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from edge_agent.config import AgentConfig, CameraConfig, GatewayConfig, ServerConfig
from edge_agent.config.atomic_file import read_text
from edge_agent.config.keys import camera_from, gateway_from, server_from
from edge_agent.config.rules import BadValueError, bare, shown, unknown
from edge_agent.config.secrets import Secrets
from edge_agent.config.toml_text import parse_toml, position_of
from edge_agent.errors import ConfigError

SYSTEM_PATH = Path("/etc/camera-ai/agent.toml")
TABLES: Mapping[str, None] = {"server": None, "gateway": None, "cameras": None}


def default_path() -> Path:
    """Give the configuration file that is used where none is named: root's for root, else the user's own."""
    if os.geteuid() == 0:
        return SYSTEM_PATH
    home = os.environ.get("XDG_CONFIG_HOME", "")
    # The standard has a relative path in this variable ignored.
    return (Path(home) if home.startswith("/") else Path.home() / ".config") / "camera-ai" / "agent.toml"


def load(path: Path) -> AgentConfig:
    """Read and check a configuration; a missing file is an empty one.

    Raises ConfigError with file, line and column.
    """
    text = read_text(path)
    return AgentConfig(server=None, cameras={}) if text is None else parse(text, path)


def load_camera(path: Path, name: str) -> tuple[CameraConfig, str | None]:
    """Read one camera and its password; raises ConfigError, for a name that is not there as well."""
    cameras = load(path).cameras
    if name not in cameras:
        raise ConfigError(f"{path}: {unknown('camera', name, cameras)}")
    return cameras[name], Secrets.load(path).password(name)


def load_to_run(path: Path, *, may_be_empty: bool = False) -> tuple[AgentConfig, Secrets]:
    """Read what `run` needs, with a server and at least one camera; ConfigError says how to begin.

    An agent that runs already may be left without a camera: `may_be_empty`.
    """
    config = load(path)
    if config.server is None:
        missing = "no configuration here" if not path.exists() else "no central server is set"
        raise ConfigError(f"{path}: {missing}; begin with `edge-agent set-server HOST:PORT`")
    if not config.cameras and not may_be_empty:
        raise ConfigError(f"{path}: no camera yet; add one with `edge-agent add-camera NAME URL`")
    return config, Secrets.load(path)


def parse(text: str, path: Path) -> AgentConfig:
    """Check the text of a configuration; relative paths in it are meant from the directory of `path`.

    Raises ConfigError with file, line and column.
    """
    document = parse_toml(text, path)
    check_tables(document, text, path)
    directory = path.absolute().parent
    server = _server(document.get("server"), text, path, directory)
    cameras = {
        name: _camera(name, table, text, path, directory)
        for name, table in document.get("cameras", {}).items()
    }
    gateway = _gateway(document.get("gateway", {}), text, path)
    return AgentConfig(server=server, cameras=MappingProxyType(cameras), gateway=gateway)


def check_tables(document: Mapping[str, object], text: str, path: Path) -> None:
    """Raise ConfigError for anything at the top of the file but the tables it may have."""
    for table, content in document.items():
        if table not in TABLES:
            raise _at(path, text, (table,), unknown("table", table, TABLES))
        if not isinstance(content, dict):
            raise _at(path, text, (table,), f"{table}: found {shown(content)}, expected a table")


def _server(table: dict[str, object] | None, text: str, path: Path, directory: Path) -> ServerConfig | None:
    if table is None:
        return None
    try:
        return server_from(table, directory)
    except BadValueError as error:
        raise _at(path, text, ("server", error.key), f"{_dotted('server', error.key)}: {error}") from None


def _gateway(table: dict[str, object], text: str, path: Path) -> GatewayConfig:
    try:
        return gateway_from(table)
    except BadValueError as error:
        raise _at(path, text, ("gateway", error.key), f"{_dotted('gateway', error.key)}: {error}") from None


def _camera(name: str, table: object, text: str, path: Path, directory: Path) -> CameraConfig:
    where = ("cameras", name)
    if not isinstance(table, dict):
        raise _at(path, text, where, f"{_dotted(*where)}: found {shown(table)}, expected a table")
    try:
        return camera_from(name, table, directory)
    except BadValueError as error:
        if error.key == "name":
            raise _at(path, text, where, f"a camera's name: {error}") from None
        raise _at(path, text, (*where, error.key), f"{_dotted(*where, error.key)}: {error}") from None


def _at(path: Path, text: str, key_path: tuple[str, ...], problem: str) -> ConfigError:
    line, column = position_of(text, key_path)
    return ConfigError(f"{path}:{line}:{column}: {problem}")


def _dotted(*keys: str) -> str:
    return ".".join(bare(key) for key in keys if key)
