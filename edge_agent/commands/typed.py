"""What a person typed on the command line, made into values; what cannot be meant is a UsageError."""

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edge_agent.config.keys import CAMERA_RULES
from edge_agent.config.rules import BadValueError
from edge_agent.config.secrets import LONGEST_PASSWORD, check_password
from edge_agent.config.source_url import Source, parse_source, source_kind, source_path
from edge_agent.errors import UsageError

ARGUMENTS = {
    "url": "URL",
    "name": "NAME",
    "labels": "--label",
    "motion_masks": "--motion-mask",
    "privacy_masks": "--privacy-mask",
    "address": "HOST:PORT",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that stand before the command."""

    config: Path


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a BadValueError inside into a UsageError that names the argument or option."""
    try:
        yield
    except BadValueError as error:
        argument = ARGUMENTS.get(error.key, "--" + error.key.replace("_", "-")) if error.key else ""
        raise UsageError(f"{argument}: {error}" if argument else str(error)) from None


def typed_source(text: str, *, credentials: bool) -> Source:
    """Take apart a typed URL or path; a file has to be there, and becomes absolute."""
    try:
        source = parse_source(text, credentials=credentials)
    except ValueError as error:
        raise UsageError(f"URL: {error}") from None
    if source_kind(source.url) != "file":
        return source
    path = Path(source_path(source.url))
    if not path.is_file():
        # Without a scheme it may be a URL that lacks one, with a password in it: it is not repeated.
        raise UsageError(
            "URL: there is no such file; a URL begins with rtsp://, rtsps://, http:// or https://"
        )
    return Source(source.url if "://" in source.url else str(path.absolute()))


def given(**options: object) -> dict[str, object]:
    """Keep the options that were given, as values of a table."""
    return {key: value for key, value in options.items() if value is not None and value != []}


def typed_polygons(typed: list[str] | None) -> object:
    """Give the polygons of options that were given, each "X,Y X,Y X,Y"; what is none is left for the rule."""
    if not typed:
        return None
    return CAMERA_RULES["privacy_masks"].read(";".join(typed))


def typed_credentials(
    source: Source,
    user: str | None,
    password: str | None,
    password_file: str | None,
    *,
    user_elsewhere: bool = False,
) -> tuple[str | None, str | None]:
    """Give user and password from wherever they were typed; the password is asked for where only a user was.

    A password without a user is refused, unless a user may be known from elsewhere.
    """
    if len(given(option=password, file=password_file, url=source.password)) > 1:
        raise UsageError(
            "the password is given more than once: in the URL, by --password or by --password-file"
        )
    user = source.user if user is None else user
    if password_file is not None:
        password = _from_file(password_file)
    elif source.password is not None:
        password = source.password
    elif password is None and user is not None:
        password = _asked(user)
    if password is not None:
        check_password(password, user if user is not None or not user_elsewhere else "")
    return user, password


def _from_file(name: str) -> str:
    try:
        with contextlib.ExitStack() as stack:
            file = sys.stdin if name == "-" else stack.enter_context(Path(name).open(encoding="utf-8"))
            # One character more than allowed, and a line end: enough to see that there is too much.
            return file.read(LONGEST_PASSWORD + 3).removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise UsageError(f"--password-file: {name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--password-file: {name}: not UTF-8 text") from None


def _asked(user: str) -> str:
    if not sys.stdin.isatty():
        raise UsageError(
            "a user needs a password: give --password-file FILE, or - to read it from standard input"
        )
    from getpass import getpass

    try:
        return getpass(f"Password of {user}: ")
    except EOFError:
        raise UsageError("no password was typed") from None
