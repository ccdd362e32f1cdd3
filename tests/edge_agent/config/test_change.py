"""Changes as values: what they do to the files, and what may come over a socket in their place."""

import json
from pathlib import Path

import pytest

from edge_agent.config.change import (
    AddCameras,
    Change,
    RemoveCamera,
    SetCamera,
    SetGateway,
    SetServer,
    from_data,
    perform,
    to_data,
)
from edge_agent.config.file import load
from edge_agent.config.rules import BadValueError
from edge_agent.config.secrets import Secrets
from edge_agent.errors import AgentError, NamesTakenError

DEEP = json.loads("[" * 900 + "]" * 900)
CHANGES: list[Change] = [
    SetServer({"address": "127.0.0.1:1"}),
    SetGateway({"max_kbit": 500.0, "name": "shop-7"}, ("spool_mb",)),
    AddCameras({"door": {"url": "rtsp://h/s", "user": "u", "fps": 5.0}}, {"door": "canary"}),
    SetCamera("door", {"privacy_masks": [[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]]}, ("fps",), "canary"),
    RemoveCamera("door"),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_what_travels_arrives(change: Change) -> None:
    """Through JSON and back it is the same; no password stands in what is logged of it."""
    assert from_data(json.loads(json.dumps(to_data(change)))) == change
    assert "canary" not in repr(change) + str(change)


def test_each_change_is_made(tmp_path: Path) -> None:
    """Server, gateway and cameras, in this order, in files that were not there."""
    path = tmp_path / "agent.toml"
    for change in CHANGES[:4]:
        perform(path, change)

    config = load(path)
    assert config.server is not None
    assert config.server.address == "127.0.0.1:1"
    assert (config.gateway.name, config.gateway.max_kbit) == ("shop-7", 500.0)
    assert config.cameras["door"].fps == 10.0
    assert config.cameras["door"].privacy_masks == (((0.0, 0.0), (1.0, 0.0), (1.0, 1.0)),)
    assert Secrets.load(path).password("door") == "canary"

    perform(path, SetCamera("door", {}, ("password",)))
    assert Secrets.load(path).password("door") is None
    perform(path, SetGateway({}, ("max_kbit",)))
    perform(path, RemoveCamera("door"))
    assert load(path).gateway.max_kbit is None
    assert not load(path).cameras


@pytest.mark.parametrize(
    "change",
    [
        AddCameras({"yard": {"url": "rtsp://h/s"}, "door": {"url": "rtsp://h/s"}}),
        AddCameras({"yard": {"url": "rtsp://h/s"}}, {"yard": "canary"}),
        SetCamera("door", {}, (), "two\nlines"),
        SetCamera("nowhere", {"fps": 3}),
        SetCamera("door", {"fps": "many"}),
        SetCamera("door", {"fps": 3}, ("frames\n<2>made up",)),
        SetGateway({"spool_mb": 0}),
        SetGateway({}, ("cameras",)),
        SetServer({"address": "central:1"}),
        RemoveCamera("nowhere"),
    ],
    ids=str,
)
def test_what_may_not_be_changes_nothing(tmp_path: Path, change: Change) -> None:
    """All of a change or nothing of it, the passwords included, and no password in the error."""
    path = tmp_path / "agent.toml"
    perform(path, AddCameras({"door": {"url": "rtsp://h/s"}}))
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}

    with pytest.raises((AgentError, BadValueError)) as raised:
        perform(path, change)

    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert "canary" not in str(raised.value)


def test_names_that_are_taken_are_all_told(tmp_path: Path) -> None:
    """For whoever knows the lines that they came from."""
    path = tmp_path / "agent.toml"
    tables = {name: {"url": "rtsp://h/s"} for name in ("a", "b", "c")}
    perform(path, AddCameras({name: tables[name] for name in "ac"}))

    with pytest.raises(NamesTakenError, match="there is a camera a already") as raised:
        perform(path, AddCameras(tables))

    assert raised.value.names == ("a", "c")


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "set-camera",
        {},
        {"change": 5},
        {"change": "set-everything"},
        {"change": "remove-camera"},
        {"change": "remove-camera", "name": ["door"]},
        {"change": "set-camera", "name": "door", "values": "fps"},
        {"change": "set-camera", "name": "door", "values": {}, "unset": "fps"},
        {"change": "set-camera", "name": "door", "values": {}, "password": 7},
        {"change": "set-camera", "name": "door", "values": {}, "else": 1},
        {"change": "set-server", "table": {"address": None}},
        {"change": "add-cameras", "tables": {"door": {"url": DEEP}}},
        {"change": "add-cameras", "tables": {}},
        {"change": "add-cameras", "tables": {"door": []}},
        {"change": "add-cameras", "tables": {"door": {}}, "passwords": {"door": None}},
    ],
    ids=lambda data: str(data)[:80],
)
def test_what_is_no_change_is_refused(data: object) -> None:
    """Whatever somebody sends."""
    with pytest.raises(BadValueError):
        from_data(data)
