"""Where a camera's stream comes from: URLs with or without a password in them, devices and files.

A user and password may stand in a network URL as `scheme://user:password@host…`, the password either
percent-encoded once or exactly as it is, whatever it contains. Three rules take such a URL apart:

1. The credentials end at the last `@` that a host follows, so `@ : / ? #` in a password need no encoding.
   An `@` in the path or query is told from that by what stands where the URL standard sees the host: an IP
   address, localhost, or a dotted name with a port is believed to be the host, and the `@` left in the path.
   Where that is not so, write the `@` of a path as %40.
2. The user ends at the first `:`.
3. In each of the two, `%` with two hexadecimal digits is decoded, once, where that gives UTF-8; any other `%`
   stands for itself. A password that really contains such a triplet is written with %25, or given separately.
"""

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from edge_agent.config import CameraConfig
from edge_agent.config.address import is_loopback, split_host_port
from edge_agent.config.rules import has_control_character

SourceKind = Literal["rtsp", "http", "device", "file"]

NETWORK_SCHEMES: dict[str, SourceKind] = {"rtsp": "rtsp", "rtsps": "rtsp", "http": "http", "https": "http"}
SCHEMES = (*NETWORK_SCHEMES, "v4l2", "file")
LONGEST_URL = 4096
HIDDEN = "***"

SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}")
AUTHORITY_END = re.compile(r"[/?#]")
HOST_FOLLOWS = re.compile(r"(\[[^\]/?#@]*\]|[A-Za-z0-9._-]+)(:[^/?#@]*)?(?=[/?#]|$)")
DEVICE_PATH = re.compile(r"/dev/(video[0-9]+|v4l/.+)")
ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True, slots=True)
class Source:
    """A source as it was typed, taken apart: the URL without credentials, and the credentials."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)


def parse_source(text: str, *, credentials: bool = True) -> Source:
    """Take apart what a person typed: a network URL, a device or a file.

    With `credentials=False` a network URL is to hold none. A path may be relative: it is kept as it is.
    Raises ValueError with what is wrong; its text never repeats a part that may be a password.
    """
    if len(text) > LONGEST_URL:
        raise ValueError(f"longer than {LONGEST_URL} characters")
    if has_control_character(text):
        raise ValueError("the URL holds a control character")
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Source(_local_path(text))
    scheme = scheme.lower()
    if scheme in NETWORK_SCHEMES:
        return _parse_network(scheme, rest, credentials=credentials)
    if scheme not in SCHEMES:
        # Anything else before :// may be a password that went astray.
        found = f"unknown scheme {scheme}://" if SCHEME.fullmatch(scheme) else "unknown scheme"
        known = ", ".join(f"{known}://" for known in SCHEMES)
        raise ValueError(f"{found}: expected {known} or the path of a device or file")
    if not rest.startswith("/"):
        raise ValueError(f"{scheme}:// is followed by an absolute path, like {scheme}:///dev/video0")
    return Source(f"{scheme}://{rest}")


def source_kind(url: str) -> SourceKind:
    """Tell what kind of source a URL without credentials is."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        return "device" if DEVICE_PATH.fullmatch(url) else "file"
    return NETWORK_SCHEMES.get(scheme) or ("device" if scheme == "v4l2" else "file")


def source_path(url: str) -> str:
    """Give the path of a device or file source; file:// is decoded, as the standard wants it."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    return unquote(rest) if scheme == "file" else rest


def source_url(camera: CameraConfig, password: str | None) -> str:
    """Give what opens the camera: its URL with percent-encoded credentials, or the path of a device or file.

    It holds the password: hand it to the capture library and to nothing else.
    """
    if source_kind(camera.url) in ("device", "file"):
        return source_path(camera.url)
    return _with_userinfo(camera, None if password is None else quote(password, safe=""))


def redacted(camera: CameraConfig, password: str | None = None) -> str:
    """Give the camera's source for people and logs: with its user, and *** for a password that is set."""
    return camera.url if camera.user is None else _with_userinfo(camera, None if password is None else HIDDEN)


def anchored(url: str, directory: Path) -> str:
    """Make the relative path of a file absolute, from `directory`; leave any other source alone."""
    return url if "://" in url else str(directory / url)


def _local_path(text: str) -> str:
    if not text:
        raise ValueError("the URL is empty")
    return text


def _parse_network(scheme: str, rest: str, *, credentials: bool) -> Source:
    form = f"expected {scheme}://[USER:PASSWORD@]HOST[:PORT][/PATH]"
    userinfo, after = _split_userinfo(rest) if credentials else (None, rest)
    end = AUTHORITY_END.search(after)
    authority = after[: end.start()] if end else after
    if "@" in authority:
        raise ValueError("the URL holds a user or password: they stand apart, the password in its own file")
    if not authority or authority.startswith(":"):
        raise ValueError(f"URL without host: {form}")
    try:
        split_host_port(authority)
    except ValueError as error:
        raise ValueError(f"{error}; {form}") from None
    if " " in after:
        raise ValueError("the URL holds a space: write it as %20")
    user, password = _split_user(userinfo)
    return Source(f"{scheme}://{after}", user, password)


def _split_userinfo(rest: str) -> tuple[str | None, str]:
    """Part the credentials from host and path, by the first rule above."""
    end = AUTHORITY_END.search(rest)
    authority_end = end.start() if end else len(rest)
    at = rest.rfind("@", 0, authority_end)
    if "@" in rest[authority_end:] and not _is_surely_host(rest[at + 1 : authority_end]):
        at = _last_at_before_host(rest, otherwise=at)
    return (None, rest) if at < 0 else (rest[:at], rest[at + 1 :])


def _last_at_before_host(rest: str, otherwise: int) -> int:
    at = rest.rfind("@")
    while at >= 0:
        user = rest[:at].partition(":")[0]
        if HOST_FOLLOWS.match(rest, at + 1) and not AUTHORITY_END.search(user):
            return at
        at = rest.rfind("@", 0, at)
    return otherwise


def _is_surely_host(authority: str) -> bool:
    try:
        host, port = split_host_port(authority)
    except ValueError:
        return False
    return is_loopback(host) or _is_ip_address(host) or ("." in host and port is not None)


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _split_user(userinfo: str | None) -> tuple[str | None, str | None]:
    if userinfo is None:
        return None, None
    user, colon, password = userinfo.partition(":")
    user, password = decoded_once(user), decoded_once(password)
    if not user:
        raise ValueError("the URL has a password but no user before it")
    if has_control_character(user) or has_control_character(password):
        raise ValueError("the user or password holds a control character")
    return user, password if colon else None


def decoded_once(text: str) -> str:
    """Decode percent-encoding by the third rule above."""

    def decoded(match: re.Match[str]) -> str:
        try:
            return bytes.fromhex(match.group().replace("%", "")).decode()
        except UnicodeDecodeError:
            return match.group()

    return ESCAPES.sub(decoded, text)


def _with_userinfo(camera: CameraConfig, password: str | None) -> str:
    if camera.user is None:
        return camera.url
    userinfo = quote(camera.user, safe="") + ("" if password is None else f":{password}")
    return camera.url.replace("://", f"://{userinfo}@", 1)
