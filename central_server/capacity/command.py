"""`central-server capacity` at a terminal: progress, the report, and how it ends."""

import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from central_server.capacity import report
from central_server.capacity.measure import CapacityOptions, measure
from central_server.errors import OptionError
from central_server.log import visible

STANDARD_OUTPUT = Path("-")


class Ended(KeyboardInterrupt):
    """A signal that ends the program; what it has started is ended first."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run(options: CapacityOptions, price_per_hour: float | None, json_file: Path | None) -> int:
    """Measure and report.

    Returns:
        The exit code: 0, 1 if not even one camera holds, 128 and the signal's number after a signal.

    Raises:
        ServerError: in one line, what cannot be done.

    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        _check_writable(json_file)
        capacity = measure(options, _tell)
        found = json.dumps(report.to_json(capacity, price_per_hour), indent=2, allow_nan=False)
        if json_file == STANDARD_OUTPUT:
            print(found)  # noqa: T201 - asked for
        else:
            print(report.to_text(capacity, price_per_hour))  # noqa: T201 - what the command is for
            if json_file is not None:
                json_file.write_text(found + "\n")
    except Ended as ended:
        return 128 + ended.number
    return 0 if capacity.cameras else 1


def _tell(line: str) -> None:
    print(visible(line), file=sys.stderr, flush=True)  # noqa: T201 - progress, beside what is asked for


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise Ended(number)


def _check_writable(json_file: Path | None) -> None:
    """Find out before the measure, not after it."""
    if json_file is None or json_file == STANDARD_OUTPUT:
        return
    try:
        json_file.open("a").close()
    except OSError as error:
        raise OptionError(f"--json {json_file}: cannot be written: {error.strerror}") from error
