"""What a long measure is doing, while it does it."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Steps:
    """Shows the step that runs: one line that changes on a terminal, a line a step elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        self._progress = Progress(*columns, console=self._console, transient=True)
        self._task = self._progress.add_task("starting")
        self._begun_s = time.monotonic()
        self._count = 0

    def __enter__(self) -> "Steps":
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    @property
    def length_s(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._begun_s

    def begin(self, what: str) -> None:
        """Say that a step begins."""
        self._count += 1
        if self._console.is_terminal:
            self._progress.update(self._task, description=f"{self._count}. {what}")
        else:
            print(f"{self.length_s:7.1f} s  {self._count}. {what}", file=sys.stderr, flush=True)

    def note(self, figure: str) -> None:
        """Say what a step has shown; it stays."""
        self._progress.console.print(f"           {figure}", highlight=False, markup=False, soft_wrap=True)
