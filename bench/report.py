"""Figures as a table in the terminal and as JSON."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from central_server.cores import usable_cores

# How wide a table may be that does not go to a terminal.
FILE_COLUMNS = 120

Figure = float | int | str
Side = Literal[">=", "<="]


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that has to reach something: a bound from below (`>=`) or from above (`<=`).

    `spread` is the least and the most of the single figures whose median is `figure`.
    """

    what: str
    figure: float
    side: Side
    bound: float
    spread: tuple[float, float] | None = None

    @property
    def holds(self) -> bool:
        """Whether the figure reaches it; NaN never does."""
        return self.figure >= self.bound if self.side == ">=" else self.figure <= self.bound

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ({self.spread[0]:,.3g} to {self.spread[1]:,.3g})"
        verdict = "holds" if self.holds else "falls short"
        return f"{self.what}: {self.figure:,.3g}{spread}, wanted {self.side} {self.bound:,.3g}: {verdict}"


@dataclass
class Report:
    """A table of figures: one row for each thing that was measured.

    `targets` are printed under the table; `runs`, the single runs that it comes from, are in the JSON only.
    """

    title: str
    columns: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    rows: list[tuple[Figure, ...]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)

    def add(self, *cells: Figure) -> None:
        """Add a row."""
        if len(cells) != len(self.columns):
            raise ValueError(f"found {len(cells)} cells, expected {len(self.columns)}: {self.columns}")
        self.rows.append(cells)

    def print(self) -> None:
        """Print the table, its notes and its targets."""
        table = Table(title=self.title, title_justify="left")
        for column in self.columns:
            table.add_column(column)
        for row in self.rows:
            table.add_row(*map(in_words, row))
        console = Console()
        if not console.is_terminal:
            console.width = FILE_COLUMNS
        console.print(table)
        for note in self.notes:
            console.print(f"- {note}", highlight=False, markup=False)
        for target in self.targets:
            console.print(f"* {target}", highlight=False, markup=False)

    def to_json(self) -> dict[str, Any]:
        """Give the figures for a file."""
        report: dict[str, Any] = {
            "title": self.title,
            "notes": self.notes,
            "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
        }
        if self.targets:
            report["targets"] = [{**asdict(target), "holds": target.holds} for target in self.targets]
        if self.runs:
            report["runs"] = self.runs
        finite: dict[str, Any] = _finite(report)
        return finite


def _finite(value: Any) -> Any:
    """Put null where JSON has no number."""
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def in_words(cell: Figure) -> str:
    """Write a figure with three digits, and all of those before the point."""
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:,.3g}"


def spread(values: Sequence[float]) -> str:
    """Write the least and the most of some figures."""
    return f"{in_words(float(np.min(values)))} to {in_words(float(np.max(values)))}"


def ratio(what: str, ours: Sequence[float], theirs: Sequence[float], side: Side, bound: float) -> Target:
    """Give the ratio of two medians as a target; the ratios of the single rounds are its spread."""
    median = float(np.median(ours) / np.median(theirs)) if np.median(theirs) else float("nan")
    rounds = [float(mine / other) for mine, other in zip(ours, theirs, strict=True) if other]
    return Target(what, median, side, bound, (min(rounds), max(rounds)) if rounds else None)


def cores_and_load() -> dict[str, Figure]:
    """Say what the machine had to give: usable cores, and the load of the last minute."""
    return {"cores": usable_cores(), "load_1min": round(os.getloadavg()[0], 2)}
