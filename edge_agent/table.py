"""The agent's status on a terminal: the live table of `edge-agent run --table`, and `edge-agent status`."""

from collections.abc import Callable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

COLUMNS = ("camera", "state", "for", "fps", "p50", "p99", "dropped", "kbit/s", "MB/day", "sends", "sees")
FIGURES = frozenset(COLUMNS[2:9])
# Where there is room for the reasons of what was dropped.
WIDE = 160
# What a narrower terminal goes without.
DISPENSABLE = ((130, frozenset({"sends", "MB/day"})), (95, frozenset({"sees", "p99", "kbit/s"})))

Status = dict[str, Any]


class LiveTable:
    """Draws the status on the terminal, twice a second, until closed."""

    def __init__(self) -> None:
        self.take: Callable[[], Status] | None = None
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

    def _draw(self) -> RenderableType:
        return drawn(self.take(), self._live.console.width) if self.take is not None else ""


def drawn(status: Status, width: int) -> RenderableType:
    """Draw a status: lines for agent, server and records, a row a camera, a line for each trouble.

    `width` is the terminal's, in characters.
    """
    left_out = frozenset().union(*(columns for least, columns in DISPENSABLE if width < least))
    shown = [column for column in COLUMNS if column not in left_out]
    # As text: a name or a reason in square brackets is no style.
    lines: list[RenderableType] = [Text(line) for line in _lines(status)]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in shown:
        # One line a camera, whatever its trouble has to say: its reason stands below the table.
        table.add_column(heading, justify="right" if heading in FIGURES else "left", no_wrap=True)
    for camera in status["cameras"]:
        row = dict(zip(COLUMNS, cells(camera), strict=True))
        if width >= WIDE and camera["dropped"]:
            row["dropped"] = ", ".join(f"{count} {reason}" for reason, count in camera["dropped"].items())
        table.add_row(*(Text(row[column]) for column in shown))
    problems = [Text(f"! {problem}") for problem in status["problems"]]
    return Group(*lines, table, *problems)


def cells(camera: Status) -> list[str]:
    """Give a camera's row."""
    latency = camera["latency_ms"]
    figures = camera["fps"] if camera["state"] != "disabled" else None
    return [
        camera["name"],
        camera["state"],
        duration(camera["for_s"]),
        _or_dash(figures, "{:.1f}"),
        _or_dash(latency["p50"], "{:.0f} ms"),
        _or_dash(latency["p99"], "{:.0f} ms"),
        str(sum(camera["dropped"].values())),
        _or_dash(camera["kbit_s"], "{:.0f}"),
        _or_dash(camera["mb_day"], "{:.0f}"),
        _sends(camera),
        ", ".join(f"{count} {label}" for label, count in camera["sees"].items()) or "-",
    ]


def duration(seconds: float) -> str:
    """Write a length of time in its two largest units."""
    whole = int(seconds)
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if whole >= length:
            count, rest = divmod(whole, length)
            smaller = {"d": ("h", 3600), "h": ("min", 60), "min": ("s", 1)}[unit]
            return f"{count} {unit} {rest // smaller[1]} {smaller[0]}"
    return f"{whole} s"


def _lines(status: Status) -> list[str]:
    agent, server, uplink, spool = (status[part] for part in ("agent", "server", "uplink", "spool"))
    how = "connected" if server["connected"] else f"not connected: {server['reason']}"
    told = ", ".join(word for word in (server["detector"], server["version"]) if word and server["connected"])
    server_line = f"server {server['address']}: {how}, for {duration(server['for_s'])}"
    budget = "" if uplink["max_kbit"] is None else f" of at most {uplink['max_kbit']:g}"
    lines = [
        f"gateway {agent['gateway']}: edge-agent {agent['version']}, up {duration(agent['for_s'])}",
        f"{server_line} ({told})" if told else server_line,
        f"frames: {uplink['kbit_s']:.0f}{budget} kbit/s, {uplink['mb_day']:.0f} MB a day",
    ]
    if spool is not None:
        figures = (f"{spool[key]} {key}" for key in ("waiting", "uploaded", "dropped", "refused"))
        lines.append(f"records: {', '.join(figures)}")
    lines.append(f"configuration: {status['configuration']['path']}")
    return lines


def _sends(camera: Status) -> str:
    """Say what is decoded, what the motion gate has held back, and what the server wishes."""
    words, capture, motion = [camera["decode"]], camera["capture"], camera["motion"]
    if skipped := capture.get("frames_skipped", 0):
        words[0] += f" ({skipped / max(capture['packets'], 1):.0%} not decoded)"
    if motion["gate"] == "on":
        words.append("motion" if motion["still_share"] is None else f"{motion['still_share']:.0%} still")
    # An agent of before has none of them to tell.
    words += (f"server wishes {wish}" for wish in camera.get("wishes", ()))
    return ", ".join(words)


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
