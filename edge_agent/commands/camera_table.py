"""A table of cameras to import: a CSV file with the columns name and url, and any option by its name."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edge_agent.commands.typed import typed_source
from edge_agent.config.atomic_file import read_text
from edge_agent.config.keys import CAMERA_RULES, camera_from
from edge_agent.config.rules import BadValueError, unknown
from edge_agent.config.secrets import check_password
from edge_agent.errors import ConfigError, UsageError

COLUMNS: Mapping[str, None] = dict.fromkeys(("name", *CAMERA_RULES, "password"))


@dataclass(frozen=True, slots=True)
class TableRow:
    """One camera of the table, checked; `line` is where its row begins."""

    line: int
    name: str
    values: Mapping[str, object]
    password: str | None = field(repr=False)


def read_table(path: Path) -> tuple[list[TableRow], dict[int, str]]:
    """Read and check every row: the good ones, and what is wrong in each bad one by the line it begins in.

    Raises ConfigError when the file cannot be read or its columns are not known.
    """
    text = read_text(path, may_wait=True)
    if text is None:
        raise ConfigError(f"{path}: there is no such file")
    try:
        rows = list(_rows(text))
    except csv.Error as error:
        raise ConfigError(f"{path}: not CSV: {error}") from None
    if not rows:
        raise ConfigError(f"{path}: empty, expected a first line with the columns name and url")
    (header_line, header), *body = rows
    try:
        columns = _columns(header)
    except BadValueError as error:
        raise ConfigError(f"{path}:{header_line}: {error}") from None
    good: list[TableRow] = []
    bad: dict[int, str] = {}
    lines_by_name: dict[str, int] = {}
    for line, cells in body:
        try:
            row = _row(line, columns, cells)
        except BadValueError as error:
            bad[line] = f"{error.key}: {error}" if error.key else str(error)
        except UsageError as error:
            bad[line] = str(error)
        else:
            first = lines_by_name.setdefault(row.name, line)
            if first == line:
                good.append(row)
            else:
                bad[line] = f"name: {row.name} is used in line {first} already"
    return good, bad


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Give the rows that are not blank, each with the line it begins in."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield line, cells
        line = reader.line_num + 1


def _columns(header: Sequence[str]) -> list[str]:
    columns = []
    for cell in header:
        column = cell.strip().lower().replace("-", "_")
        column = "labels" if column == "label" else column
        if column not in COLUMNS:
            raise BadValueError("", unknown("column", cell.strip(), COLUMNS))
        if column in columns:
            raise BadValueError("", f"the column {column} is there twice")
        columns.append(column)
    for needed in ("name", "url"):
        if needed not in columns:
            raise BadValueError("", f"the column {needed} is missing")
    return columns


def _row(line: int, columns: Sequence[str], cells: Sequence[str]) -> TableRow:
    if len(cells) > len(columns):
        raise BadValueError("", f"found {len(cells)} cells, expected at most {len(columns)}")
    given = {column: cell for column, cell in zip(columns, cells, strict=False) if cell.strip()}
    for needed in ("name", "url"):
        if needed not in given:
            raise BadValueError(needed, "missing")
    name, password = given.pop("name").strip(), given.pop("password", None)
    values = {key: CAMERA_RULES[key].read(cell.strip()) for key, cell in given.items()}
    source = typed_source(given["url"].strip(), credentials="user" not in values)
    if password is not None and source.password is not None:
        raise BadValueError("password", "given twice, in the URL as well")
    password = source.password if password is None else password
    values |= {"url": source.url} | ({} if source.user is None else {"user": source.user})
    camera_from(name, values, Path.cwd())
    if password is not None:
        check_password(password, values.get("user"))
    return TableRow(line, name, values, password)
