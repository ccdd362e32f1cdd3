"""The live table of `edge-agent run --table`."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.live import Live
from rich.table import Table

from edge_agent.result import Result
from edge_agent.state import CameraStatus

# Rates, latencies and what is seen are of this long a while.
SPAN_S = 5.0
COLUMNS = ("camera", "state", "fps", "p50", "p99", "dropped", "sees")
FIGURES = ("fps", "p50", "p99", "dropped")


class CameraRow:
    """What the table says of one camera."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._recent: deque[tuple[float, Result]] = deque(maxlen=1000)

    def add(self, result: Result) -> None:
        """Note a result."""
        self._recent.append((time.monotonic(), result))

    def cells(self) -> tuple[str, str, str, str]:
        """Give frames a second, latency p50 and p99, and what is seen, of the last few seconds."""
        now_s = time.monotonic()
        while self._recent and now_s - self._recent[0][0] > SPAN_S:
            self._recent.popleft()
        answered = [(at_s, result) for at_s, result in self._recent if result.answer.outcome == "detected"]
        if not answered:
            return "0.0", "-", "-", "-"
        latencies = sorted(result.latency_ms for _, result in answered)
        span_s = max(now_s - answered[0][0], 1.0)
        seen = Counter(item.label for item in answered[-1][1].answer.objects)
        return (
            f"{len(answered) / span_s:.1f}",
            f"{percentile(latencies, 0.50):.0f} ms",
            f"{percentile(latencies, 0.99):.0f} ms",
            ", ".join(f"{count} {label}" for label, count in seen.most_common(5)) or "nothing",
        )


def percentile(ascending: list[float], fraction: float) -> float:
    """Give the smallest value that at least this fraction of the values does not exceed."""
    index = max(0, -int(-fraction * len(ascending) // 1) - 1)
    return ascending[index]


class LiveTable:
    """Draws cameras, states and figures on the terminal until closed."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.watch: Callable[[str], tuple[CameraStatus | None, int]] = lambda _: (None, 0)
        self._rows: dict[str, CameraRow] = {}
        self.server_status = "connecting"
        # Lines on stderr, as the log: standard output may carry results.
        self._live = Live(console=Console(stderr=True), get_renderable=self._draw, refresh_per_second=2)

    def __enter__(self) -> "LiveTable":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    @property
    def console(self) -> Console:
        """Where log lines can be printed above the table."""
        return self._live.console

    def show(self, cameras: Iterable[str]) -> None:
        """Show these cameras."""
        self._rows = {name: self._rows.get(name) or CameraRow(name) for name in cameras}

    def add(self, result: Result) -> None:
        """Note a result."""
        if result.camera in self._rows:
            self._rows[result.camera].add(result)

    def _draw(self) -> Table:
        table = Table(title=f"server {self._server}: {self.server_status}", title_justify="left")
        for heading in COLUMNS:
            # One line a camera, whatever its trouble has to say: the log has it in full.
            table.add_column(heading, justify="right" if heading in FIGURES else "left", no_wrap=True)
        for name, row in self._rows.items():
            status, dropped = self.watch(name)
            fps, p50, p99, seen = row.cells()
            table.add_row(name, str(status or "starting"), fps, p50, p99, str(dropped), seen)
        return table
