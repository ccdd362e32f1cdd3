"""Changes of the configuration as plain values: a command makes one, and whoever may write performs it.

They travel as JSON (`to_data`, `from_data`). A password is in no repr and in no error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_agent.config.edit import ConfigEdit, editing
from edge_agent.config.rules import BadValueError, unknown
from edge_agent.config.secrets import check_password

Table = Mapping[str, object]

# A polygon's corner in a camera of a table of cameras.
DEEPEST = 8


@dataclass(frozen=True, slots=True)
class SetServer:
    """Set the server as a whole."""

    table: Table

    def __str__(self) -> str:
        return f"set the server {self.table.get('address', '')}"


@dataclass(frozen=True, slots=True)
class SetGateway:
    """Set some keys of the gateway and take others away."""

    values: Table
    unset: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"set the gateway's {', '.join([*self.values, *self.unset])}"


@dataclass(frozen=True, slots=True)
class AddCameras:
    """Add cameras, in order; all of them or none."""

    tables: Mapping[str, Table]
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        names = list(self.tables)
        return f"add camera {names[0]}" if len(names) == 1 else f"add {len(names)} cameras"


@dataclass(frozen=True, slots=True)
class SetCamera:
    """Set some keys of a camera and take others away; `password` among these is its password."""

    name: str
    values: Table
    unset: tuple[str, ...] = ()
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        changed = [*self.values, *self.unset, *(["password"] if self.password is not None else [])]
        return f"set {', '.join(changed)} of camera {self.name}"


@dataclass(frozen=True, slots=True)
class RemoveCamera:
    """Take a camera away, and its password."""

    name: str

    def __str__(self) -> str:
        return f"remove camera {self.name}"


Change = SetServer | SetGateway | AddCameras | SetCamera | RemoveCamera

KINDS: Mapping[str, type[Change]] = {
    "set-server": SetServer,
    "set-gateway": SetGateway,
    "add-cameras": AddCameras,
    "set-camera": SetCamera,
    "remove-camera": RemoveCamera,
}


def perform(path: Path, change: Change) -> None:
    """Make a change to the configuration's files, all of it or nothing.

    Raises ConfigError; BadValueError for a value that may not be; UsageError for a password that may not.
    """
    with editing(path) as edit:
        _perform(edit, change)


def _perform(edit: ConfigEdit, change: Change) -> None:
    match change:
        case SetServer(table):
            edit.set_server(table)
        case SetGateway(values, unset):
            edit.set_gateway(values, unset)
        case AddCameras(tables, passwords):
            edit.add_cameras(tables)
            for name, password in passwords.items():
                check_password(password, tables.get(name, {}).get("user"))
                edit.set_password(name, password)
        case SetCamera(name, values, unset, password):
            edit.set_camera(name, values, [key for key in unset if key != "password"])
            if "password" in unset:
                edit.set_password(name, None)
            if password is not None:
                check_password(password, edit.camera(name).get("user"))
                edit.set_password(name, password)
        case RemoveCamera(name):
            edit.remove_camera(name)


def to_data(change: Change) -> dict[str, Any]:
    """Write a change as plain values for JSON, its kind under ``change``; a password is among them."""
    kind = next(word for word, made in KINDS.items() if isinstance(change, made))
    return {"change": kind} | {key: getattr(change, key) for key in change.__dataclass_fields__}


def from_data(data: object) -> Change:
    """Read what `to_data` wrote, from whoever; raises BadValueError for what is no change."""
    if not isinstance(data, dict):
        raise BadValueError("change", "found no change, expected a JSON object")
    word = data.get("change")
    if not isinstance(word, str) or word not in KINDS:
        raise BadValueError("change", unknown("change", str(word), KINDS))
    kind = KINDS[word]
    fields = kind.__dataclass_fields__
    for key, value in data.items():
        if key != "change" and (key not in fields or not _fits(key, value) or not _is_plain(value)):
            raise BadValueError(key, f"{word}: not expected here, or not in this form")
    values = {key: data[key] for key in fields if key in data}
    if "unset" in values:
        values["unset"] = tuple(values["unset"])
    try:
        return kind(**values)
    except TypeError:
        raise BadValueError("change", f"{word}: expected {', '.join(fields)}") from None


def _is_plain(value: object, depth: int = DEEPEST) -> bool:
    """Tell whether TOML could hold a value of JSON, which has null, and any depth."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return depth > 0 and all(item is not None and _is_plain(item, depth - 1) for item in inside)


def _fits(key: str, value: object) -> bool:
    match key:
        case "name":
            return isinstance(value, str)
        case "password":
            return value is None or isinstance(value, str)
        case "unset":
            return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)
        case "tables":
            return (
                isinstance(value, dict)
                and bool(value)
                and all(isinstance(item, dict) for item in value.values())
            )
        case "passwords":
            return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
        case _:
            return isinstance(value, dict)
