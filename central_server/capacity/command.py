"""`central-server capacity` at a terminal: progress, the report, and how it ends."""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from central_server.capacity import report
from central_server.capacity.measure import CapacityOptions, measure
from central_server.errors import OptionError, ServerError
from central_server.log import visible

STANDARD_OUTPUT = Path("-")


class Ended(KeyboardInterrupt):
    """A signal that ends the program; what it has started is ended first."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class JsonFile:
    """A file that stays as it is until all is there to be written: that is put beside it, and takes its name.

    What is no regular file, a device or a pipe, is written directly.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_replaced = path.is_file() or not path.exists()
        self._target = path.resolve() if self._is_replaced else path
        self._part = path
        if self._is_replaced:
            self._part = self._target.with_name(f".{self._target.name}.{os.getpid()}")

    def __enter__(self) -> "JsonFile":
        """Find out that it can be written, before the measure and not after it.

        Raises:
            OptionError: it cannot.

        """
        try:
            if self._path.exists():
                self._path.open("a").close()
            if self._is_replaced:
                self._part.touch()
        except OSError as error:
            raise OptionError(f"--json {self._path}: cannot be written: {error.strerror}") from error
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing beside it."""
        if self._is_replaced:
            with contextlib.suppress(OSError):
                self._part.unlink()

    def write(self, text: str) -> None:
        """Write it whole, or leave it as it was.

        Raises:
            ServerError: it cannot be written, the disk is full, for example.

        """
        try:
            self._part.write_text(text)
            if self._is_replaced:
                self._part.replace(self._target)
        except OSError as error:
            raise ServerError(f"--json {self._path}: cannot be written: {error.strerror}") from error


def run(options: CapacityOptions, price_per_hour: float | None, json_file: Path | None) -> int:
    """Measure and report.

    Returns:
        The exit code: 0, 1 if not even one camera holds, 128 and the signal's number after a signal.

    Raises:
        ServerError: in one line, what cannot be done.

    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Who started it with nohup wants it to outlive the terminal.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    to_output = json_file == STANDARD_OUTPUT
    kept = JsonFile(json_file) if json_file is not None and not to_output else contextlib.nullcontext()
    try:
        with kept as file:
            capacity = measure(options, _tell)
            found = json.dumps(report.to_json(capacity, price_per_hour), indent=2, allow_nan=False)
            # One of both is what the command is for.
            print(found if to_output else report.to_text(capacity, price_per_hour))  # noqa: T201
            if file is not None:
                file.write(found + "\n")
    except Ended as ended:
        return 128 + ended.number
    return 0 if capacity.cameras else 1


def _tell(line: str) -> None:
    print(visible(line), file=sys.stderr, flush=True)  # noqa: T201 - progress, beside what is asked for


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise Ended(number)
