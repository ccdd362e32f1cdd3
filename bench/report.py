"""Figures as a table in the terminal and as JSON."""

import os
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

Figure = float | int | str


@dataclass
class Report:
    """A table of figures: one row for each thing that was measured."""

    title: str
    columns: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    rows: list[tuple[Figure, ...]] = field(default_factory=list)

    def add(self, *cells: Figure) -> None:
        """Add a row."""
        if len(cells) != len(self.columns):
            raise ValueError(f"found {len(cells)} cells, expected {len(self.columns)}: {self.columns}")
        self.rows.append(cells)

    def print(self) -> None:
        """Print the table and its notes."""
        table = Table(title=self.title, title_justify="left")
        for column in self.columns:
            table.add_column(column)
        for row in self.rows:
            table.add_row(*(f"{cell:,.3g}" if isinstance(cell, float) else str(cell) for cell in row))
        console = Console()
        console.print(table)
        for note in self.notes:
            console.print(f"- {note}", highlight=False)

    def to_json(self) -> dict[str, object]:
        """Give the figures for a file."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "notes": self.notes, "rows": rows}


def percentile(values: list[float], fraction: float) -> float:
    """Give the smallest value that at least this fraction of the values does not exceed."""
    ascending = sorted(values)
    return ascending[max(0, -int(-fraction * len(ascending) // 1) - 1)]


def cores_and_load() -> dict[str, Figure]:
    """Say what the machine had to give: usable cores, and the load of the last minute."""
    return {"cores": len(os.sched_getaffinity(0)), "load_1min": round(os.getloadavg()[0], 2)}
