"""TOML as text with lines: errors with their position, and where a key stands, which the parser forgets."""

import re
import tomllib
from pathlib import Path
from typing import Any

from edge_agent.errors import ConfigError

Position = tuple[int, int]
"""Line and column, both from 1."""

ASSIGNMENT = re.compile(r"\s*([^\s=#][^=#]*?)\s*=")

SYNTAX_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """Parse TOML; ConfigError names file, line and column of a syntax error, and repeats no value."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = str(error)
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    match = SYNTAX_POSITION.search(problem)
    lines = text.split("\n")
    line, column = (match[1], match[2]) if match and match[1] else (len(lines), len(lines[-1]) + 1)
    raise ConfigError(f"{path}:{line}:{column}: not TOML: {SYNTAX_POSITION.sub('', problem)}")


def position_of(text: str, key_path: tuple[str, ...]) -> Position:
    """Find a key, or the nearest table around it, in text that has been parsed; 1:1 where all fail.

    Line by line, each header and each key read by the parser itself. What only looks like one, in a string
    of many lines, can shift an answer, and nothing but an error's position depends on it.
    """
    best: tuple[int, Position] = (0, (1, 1))
    for path, position in _keys(text):
        if path == key_path[: len(path)] and len(path) > best[0]:
            best = (len(path), position)
    return best[1]


def table_lines(text: str, key_path: tuple[str, ...]) -> range | None:
    r"""Find the lines (from 0, parted by \n) of a table with a header of its own, from it to its last key.

    Comments and blank lines after the last key are left out: they speak of what follows.
    """
    lines = text.split("\n")
    headers = [(row, _header_path(line)) for row, line in enumerate(lines)]
    headers = [(row, path) for row, path in headers if path is not None]
    for index, (row, path) in enumerate(headers):
        if path == key_path:
            end = headers[index + 1][0] if index + 1 < len(headers) else len(lines)
            while end > row + 1 and not _says_something(lines[end - 1]):
                end -= 1
            return range(row, end)
    return None


def _keys(text: str) -> list[tuple[tuple[str, ...], Position]]:
    found = []
    table: tuple[str, ...] = ()
    for row, line in enumerate(text.split("\n"), start=1):
        header = _header_path(line)
        if header is not None:
            table = header
            found.append((table, (row, _indent(line) + 1)))
        elif (match := ASSIGNMENT.match(line)) and (path := _parsed_path(f"{match[1]} = 0")):
            found.append((table + path, (row, _indent(line) + 1)))
    return found


def _header_path(line: str) -> tuple[str, ...] | None:
    stripped = line.strip()
    if not stripped.startswith("["):
        return None
    return _parsed_path(stripped)


def _parsed_path(line: str) -> tuple[str, ...] | None:
    """Read one header, or one key with a value of 0, as the path it names."""
    try:
        inside: object = tomllib.loads(line)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    path: list[str] = []
    while isinstance(inside, dict | list) and inside:
        if isinstance(inside, list):
            inside = inside[0]
            continue
        key = next(iter(inside))
        path.append(key)
        inside = inside[key]
    return tuple(path) or None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _says_something(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith("#")
