"""The keys of the configuration's tables, and how a checked table becomes the values of config.py."""

import re
from collections.abc import Mapping
from pathlib import Path

from edge_agent.config import CameraConfig, GatewayConfig, ServerConfig
from edge_agent.config.address import channel_security, check_server_address
from edge_agent.config.rules import (
    BadValueError,
    Rule,
    checked,
    choice,
    flag,
    number,
    polygons,
    shown,
    text,
    whole,
    words,
)
from edge_agent.config.source_url import anchored, parse_source, source_kind

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAME_EXPECTED = "1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit"


def _accept_url(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return parse_source(value, credentials=False).url


def _accept_address(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return check_server_address(value)


# They travel in the metadata of a call, of which gRPC takes 8 kB.
MOST_LABEL_BYTES = 4096
MOST_POLYGONS = 32
MOST_POINTS = 64
KBIT = number(1, 10_000_000)

CAMERA_RULES: Mapping[str, Rule] = {
    "url": Rule("text: a URL, or the path of a device or file", _accept_url, str, secret=True),
    "user": text("a user", longest=256),
    "fps": number(0.1, 60),
    "max_width": whole(16, 16384),
    "jpeg_quality": whole(1, 100),
    "transport": choice("tcp", "udp"),
    "labels": words("labels", longest=64, most_bytes=MOST_LABEL_BYTES),
    "min_score": number(0, 1),
    "max_age_ms": whole(10, 60_000),
    "decode": choice("auto", "all", "reference", "keyframes"),
    "motion": choice("off", "on"),
    "motion_sensitivity": whole(1, 100),
    "motion_masks": polygons(MOST_POLYGONS, MOST_POINTS),
    "privacy_masks": polygons(MOST_POLYGONS, MOST_POINTS),
    "max_kbit": KBIT,
    "loop": flag(),
    "connect_timeout_s": number(0.1, 300),
    "read_timeout_s": number(0.1, 300),
    "enabled": flag(),
}

SERVER_RULES: Mapping[str, Rule] = {
    "address": Rule("text: HOST:PORT", _accept_address, str),
    "ca": text("the path of a PEM file", longest=4096),
    "tls": flag(),
    "insecure": flag(),
}

GATEWAY_RULES: Mapping[str, Rule] = {
    "name": text("a name", longest=64),
    "max_kbit": KBIT,
    "spool_mb": whole(1, 100_000),
}


def camera_from(name: str, table: Mapping[str, object], directory: Path) -> CameraConfig:
    """Make a camera of its table; raises BadValueError. A file's relative path is meant from `directory`."""
    if not NAME.fullmatch(name):
        raise BadValueError("name", f"found {shown(name)}, expected {NAME_EXPECTED}")
    if "password" in table:
        raise BadValueError(
            "password", f"has no place here: `edge-agent set-camera {name} --user USER` asks for it"
        )
    values = checked(table, CAMERA_RULES)
    if "url" not in values:
        raise BadValueError("", "url is missing")
    camera = CameraConfig(name=name, **values | {"url": anchored(values["url"], directory)})
    if camera.user is not None and source_kind(camera.url) in ("device", "file"):
        raise BadValueError("user", "a device or a file has no user")
    return camera


def gateway_from(table: Mapping[str, object]) -> GatewayConfig:
    """Make the gateway of its table; raises BadValueError."""
    return GatewayConfig(**checked(table, GATEWAY_RULES))


def server_from(table: Mapping[str, object], directory: Path) -> ServerConfig:
    """Make the server of its table; raises BadValueError. A relative `ca` is meant from `directory`."""
    values = checked(table, SERVER_RULES)
    if "address" not in values:
        raise BadValueError("", "address is missing")
    if "ca" in values:
        values["ca"] = str(directory / values["ca"])
    server = ServerConfig(**values)
    try:
        channel_security(server)
    except ValueError as error:
        raise BadValueError("", str(error)) from None
    return server
