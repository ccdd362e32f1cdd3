"""The command that reads records: `central-server records list`."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from central_server.errors import OptionError, ServerError

if TYPE_CHECKING:
    from central_server.record import StoredRecord

app = typer.Typer(help="Read what the gateways have reported.")

AGO = re.compile(r"(?P<count>\d{1,6})(?P<unit>[smhd])")
MOST_NS = 2**63 - 1
UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@app.callback()
def callback() -> None:
    """Hold the commands together."""


@app.command("list")
def list_records(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="The server's data directory.", envvar="CAMERA_AI_DATA")
    ],
    camera: Annotated[str | None, typer.Option(metavar="NAME", help="Of this camera only.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Not older: 90s, 15m, 2h, 7d, or a date, or a date with a time."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200_000, help="The newest, at most so many.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Each as a line of JSON.")] = False,
) -> None:
    """List camera states, motion, readings and losses, the newest last."""
    import sqlite3

    from central_server.records.store import FILE_NAME, read_records

    path = data / FILE_NAME
    since_ns = None if since is None else _since_ns(since, datetime.now(UTC))
    try:
        path.open("rb").close()
    except FileNotFoundError:
        raise ServerError(f"{data}: found no {FILE_NAME}, expected the directory of `serve --data`") from None
    except OSError as error:
        raise ServerError(f"{path}: {error.strerror}") from error
    try:
        records = read_records(path, camera=camera, since_ns=since_ns, limit=limit)
    except sqlite3.Error as error:
        raise ServerError(f"{path}: {error}") from error
    for record in records:
        typer.echo(_json(record) if as_json else _line(record))


def _since_ns(text: str, now: datetime) -> int:
    if ago := AGO.fullmatch(text):
        try:
            moment = now - timedelta(seconds=int(ago["count"]) * UNIT_S[ago["unit"]])
        except OverflowError:
            moment = datetime.min.replace(tzinfo=UTC)
    else:
        try:
            # Without a zone it is this machine's time.
            moment = datetime.fromisoformat(text).astimezone()
        except ValueError:
            raise OptionError(
                f"--since: found {text!r}, expected e.g. 15m, 7d, 2026-11-30 or 2026-11-30T08:15"
            ) from None
    # What no record's time can be is as good as its limit.
    return max(-MOST_NS, min(int(moment.timestamp() * 1e9), MOST_NS))


def _time(time_ns: int) -> str:
    moment = datetime.fromtimestamp(time_ns / 1e9, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(record: "StoredRecord") -> str:
    from central_server.wire import record_fields

    fields = record_fields(record.body)
    known = {
        "gateway": record.gateway,
        "camera": record.camera or None,
        "time": _time(record.at_ns),
        "clock": fields.pop("clock"),
        "gateway_time_ns": fields.pop("time_ns"),
        "received": _time(record.received_ns),
        "kind": record.kind,
    }
    identity = {"spool_id": record.spool_id, "sequence": record.sequence}
    # In ASCII: among what gateways say may be what steers a terminal, or ends a line for some readers.
    return json.dumps(known | fields | identity)


def _line(record: "StoredRecord") -> str:
    from central_server.log import visible
    from central_server.wire import record_fields

    fields = record_fields(record.body)
    doubt = "" if fields["clock"] == "good" else f" (gateway's clock: {fields['clock']})"
    where = "/".join(part for part in (record.gateway, record.camera) if part)
    return visible(f"{_time(record.at_ns)} {where or '-'}: {_words(record.kind, fields)}{doubt}")


def _words(kind: str, fields: dict[str, object]) -> str:
    match kind, fields:
        case "camera state", {"state": state, "reason": reason, "previous_state": before, "previous_ms": ms}:
            was = f", after {int(str(ms)) / 1e3:.1f} s of {before}" if before else ""
            return f"{state}{f': {reason}' if reason else ''}{was}"
        case "motion", {"duration_ms": duration_ms, "peak_share": share}:
            return f"motion for {int(str(duration_ms)) / 1e3:.1f} s, {float(str(share)):.1%} of the picture"
        case "reading", {"device_id": device, "value": value, "unit": unit}:
            return f"{device} {float(str(value)):g} {unit}".rstrip()
        case "dropped", {"records": count}:
            return f"{count} records were lost for want of room"
        case _:
            return f"a record of a later version ({kind})"
