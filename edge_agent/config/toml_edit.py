"""Edits of a TOML text that leave everything else in it as a person wrote it: comments, order, spelling.

Each gives the new text, checked against the old one by the parser: exactly the change asked for, or
ConfigError. A table is a mapping of keys to plain TOML values; its path is the keys that lead to it.
"""

import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import reduce
from typing import Any

from edge_agent.config.toml_text import table_lines
from edge_agent.errors import ConfigError

TablePath = tuple[str, ...]
Table = Mapping[str, object]
Data = dict[str, Any]


def with_tables(text: str, parent: TablePath, tables: Mapping[str, Table]) -> str:
    """Add tables at the end of the text, each under its name inside `parent`."""
    import tomlkit

    def added(data: Data) -> None:
        inside = reduce(lambda table, key: table.setdefault(key, {}), parent, data)
        inside.update(tables)

    sections = [tomlkit.dumps(_nested((*parent, name), _plain(table))) for name, table in tables.items()]
    head = text if not text or text.endswith("\n") else text + "\n"
    gap = "\n" if head.strip() and not head.endswith("\n\n") else ""
    appended = head + gap + "\n".join(sections)
    if _parsed(appended) is not None:
        return _verified(text, appended, added)
    # Where the parent is written in braces, nothing can be added to it from outside them.
    inline = {name: tomlkit.inline_table() for name in tables}
    for name, table in tables.items():
        inline[name].update(_plain(table))
    return _verified(text, _set(text, parent, inline), added)


def with_values(text: str, path: TablePath, values: Table, gone: Collection[str] = ()) -> str:
    """Set some keys of a table that is there, and take others away."""

    def changed(data: Data) -> None:
        table = _inside(data, path)
        table.update(values)
        for key in gone:
            del table[key]

    return _verified(text, _set(text, path, _plain(values), gone), changed)


def without_table(text: str, path: TablePath) -> str:
    """Take a table away with the comments among its keys; those after its last key stay."""

    def removed(data: Data) -> None:
        del _inside(data, path[:-1])[path[-1]]

    lines = table_lines(text, path)
    if lines is None:
        return _verified(text, _set(text, path[:-1], {}, path[-1:]), removed)
    kept = text.split("\n")
    del kept[lines.start : lines.stop]
    if not any(line.strip() for line in kept[lines.start :]):
        return _verified(text, "\n".join(kept).rstrip() + "\n", removed)
    if not kept[lines.start].strip() and (lines.start == 0 or not kept[lines.start - 1].strip()):
        del kept[lines.start]
    return _verified(text, "\n".join(kept), removed)


def _set(text: str, path: TablePath, values: Table, gone: Collection[str] = ()) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        table = _inside(document, path)
        for key in gone:
            del table[key]
        # Comments after a table's last key speak of what follows: a new key goes before them.
        body = table.value.body
        trailing = []
        while body and body[-1][0] is None:
            trailing.append(body.pop())
        table.update(values)
        body.extend(reversed(trailing))
        return tomlkit.dumps(document)
    except (TOMLKitError, ValueError, TypeError, AttributeError):
        # Spellings that the library misreads; the check below would refuse what it makes of them.
        return ""


def _verified(before: str, after: str, change: Callable[[Data], None]) -> str:
    expected = tomllib.loads(before)
    change(expected)
    if _without_empty_tables(_parsed(after)) != _without_empty_tables(_listed(expected)):
        raise ConfigError("it is written in a form that no command can change safely: change it in an editor")
    return after


def _parsed(text: str) -> Data | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _without_empty_tables(data: Data | None) -> Data | None:
    """Leave out top tables that are empty: whether one is written down is a matter of spelling."""
    return data and {key: table for key, table in data.items() if table != {}}


def _inside(data: Any, path: TablePath) -> Any:
    return reduce(lambda table, key: table[key], path, data)


def _nested(path: TablePath, table: Table) -> Data:
    return reduce(lambda inside, key: {key: inside}, reversed(path), dict(table))


def _plain(table: Table) -> Data:
    """Spell values as a person would: 5 rather than 5.0."""
    return {
        key: int(value) if isinstance(value, float) and value.is_integer() else _listed(value)
        for key, value in table.items()
    }


def _listed(value: Any) -> Any:
    """Turn the tuples inside a value into the lists that TOML has."""
    if isinstance(value, Mapping):
        return {key: _listed(inside) for key, inside in value.items()}
    return [_listed(inside) for inside in value] if isinstance(value, tuple | list) else value
