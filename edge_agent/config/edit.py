"""Changes to the configuration: cameras, their passwords and the server, all of a change or nothing of it."""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from edge_agent.config.atomic_file import locked, read_text, replace_text
from edge_agent.config.file import check_tables, parse
from edge_agent.config.keys import CAMERA_RULES, GATEWAY_RULES, camera_from
from edge_agent.config.rules import ANYTHING, BadValueError, checked, unknown
from edge_agent.config.secrets import Secrets
from edge_agent.config.toml_edit import Table, with_tables, with_values, without_table
from edge_agent.config.toml_text import parse_toml
from edge_agent.errors import ConfigError, NamesTakenError

# Nothing in it is secret: the umask decides who reads a new configuration.
NEW_FILE_MODE = 0o666


@contextlib.contextmanager
def editing(path: Path) -> Iterator["ConfigEdit"]:
    """Change the configuration and the passwords under the lock; an exception inside leaves both untouched.

    What comes out is checked as a whole before anything is written: no command leaves an invalid file.
    Raises ConfigError.
    """
    with locked(path):
        edit = ConfigEdit(path)
        yield edit
        edit.commit()


class ConfigEdit:
    """One change in the making: text and passwords in memory, until `commit`.

    A table maps keys to TOML values; relative paths in it are meant from the file's directory. The methods
    raise ConfigError for a camera that is there already, or is not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._directory = path.absolute().parent
        self._before = self._text = read_text(path) or ""
        self._names_before = self._cameras().keys()
        self._secrets = Secrets.load(path)

    @property
    def camera_names(self) -> Collection[str]:
        """The names in use."""
        return self._cameras().keys()

    def camera(self, name: str) -> Table:
        """Give the table of a camera that is there."""
        cameras = self._cameras()
        if name not in cameras:
            raise ConfigError(f"{self._path}: {unknown('camera', name, cameras)}")
        table = cameras[name]
        return table if isinstance(table, dict) else {}

    def set_server(self, table: Table) -> None:
        """Set the server as a whole: keys that are not in the table go."""
        before = self._tables().get("server")
        if before is None:
            self._text = with_tables(self._text, (), {"server": table})
        else:
            self._text = with_values(self._text, ("server",), table, before.keys() - table.keys())

    def set_gateway(self, values: Table, unset: Sequence[str] = ()) -> None:
        """Set some keys of the gateway and take others away; raises BadValueError for what may not be."""
        checked(values, GATEWAY_RULES)
        checked(dict.fromkeys(unset), dict.fromkeys(GATEWAY_RULES, ANYTHING))
        before = self._tables().get("gateway")
        if before is None:
            self._text = with_tables(self._text, (), {"gateway": values}) if values else self._text
        else:
            self._text = with_values(self._text, ("gateway",), values, before.keys() & set(unset))

    def add_cameras(self, tables: Mapping[str, Table]) -> None:
        """Add cameras, in order, at the end of the file; NamesTakenError for those that are there."""
        cameras = self._cameras()
        if taken := [name for name in tables if name in cameras]:
            raise NamesTakenError(self._path, taken)
        self._text = with_tables(self._text, ("cameras",), tables)
        # A password that an interrupted change left behind under such a name is not this camera's.
        self._secrets = self._secrets.with_changes(dict.fromkeys(tables))

    def set_camera(self, name: str, values: Table, unset: Sequence[str] = ()) -> None:
        """Set some keys of a camera and take others away; a camera without a user has no password.

        Raises BadValueError for a value that may not be.
        """
        table = self.camera(name)
        checked(values, CAMERA_RULES)
        checked(dict.fromkeys(unset), dict.fromkeys({**CAMERA_RULES, **table}, ANYTHING))
        merged = {key: value for key, value in {**table, **values}.items() if key not in unset}
        try:
            camera_from(name, merged, self._directory)
        except BadValueError as error:
            # What was wrong before is said by commit, with its place in the file.
            if error.key in values:
                raise
        self._text = with_values(self._text, ("cameras", name), values, table.keys() & set(unset))
        if "user" not in merged:
            self.set_password(name, None)

    def remove_camera(self, name: str) -> None:
        """Take a camera away, and its password."""
        self.camera(name)
        self._text = without_table(self._text, ("cameras", name))

    def set_password(self, name: str, password: str | None) -> None:
        """Set a camera's password, or take it away."""
        self._secrets = self._secrets.with_changes({name: password})

    def check(self) -> None:
        """Raise ConfigError, with the place in the file, unless the result is valid as a whole."""
        parse(self._text, self._path)

    def commit(self) -> None:
        """Check the result and write it: a password comes before its camera and goes after it."""
        self.check()
        names = self._cameras().keys()
        self._secrets.only(names | self._names_before).save(self._path)
        if self._text != self._before:
            replace_text(self._path, self._text, new_mode=NEW_FILE_MODE)
        self._secrets.only(names).save(self._path)

    def _tables(self) -> dict[str, dict[str, object]]:
        tables = parse_toml(self._text, self._path)
        check_tables(tables, self._text, self._path)
        return tables

    def _cameras(self) -> dict[str, object]:
        return self._tables().get("cameras", {})
