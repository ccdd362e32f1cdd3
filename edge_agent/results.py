"""Results as JSON Lines, written by a thread of their own: a reader that stalls never stalls a camera."""

import contextlib
import json
import logging
import logging.handlers
import os
import queue
import signal
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from edge_agent.errors import AgentError
from edge_agent.result import Result
from edge_agent.thread_names import show_name

log = logging.getLogger(__name__)

# A reader may lag by this many results; what comes on top is dropped and counted.
MAX_WAITING = 10_000
# The results file is turned over at this size; one older file is kept as FILE.1.
MAX_FILE_BYTES = 100 << 20
CLOSE_TIMEOUT_S = 2.0


def to_json(result: Result) -> str:
    """Write a result as one line: camera, frame, times in milliseconds, outcome, objects in pixels."""
    answer = result.answer
    captured = datetime.fromtimestamp(result.capture_time_ns / 1e9, UTC)
    record: dict[str, object] = {
        "camera": result.camera,
        "frame_id": answer.frame_id,
        "capture_time": captured.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "latency_ms": round(result.latency_ms, 1),
        "queue_ms": round(answer.queue_ms, 1),
        "work_ms": round(answer.work_ms, 1),
        "outcome": answer.outcome,
        "width": result.width,
        "height": result.height,
        "objects": [
            {
                "label": item.label,
                "confidence": round(item.confidence, 4),
                "bbox": {"x": item.x, "y": item.y, "width": item.width, "height": item.height},
            }
            for item in answer.objects
        ],
    }
    if answer.detail:
        record["detail"] = answer.detail
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


class ResultWriter:
    """Takes results from the event loop and writes them in a thread; as a context manager it closes itself.

    Attributes:
        dropped: results that were not written, because the reader lagged or writing failed.

    """

    def __init__(self, destination: str) -> None:
        """Open a file, or standard output for ``-``.

        Raises:
            AgentError: the file cannot be opened.

        """
        self.dropped = 0
        self._waiting: queue.Queue[Result | None] = queue.Queue(MAX_WAITING)
        self._handler = _open(destination)
        self._handler.setFormatter(logging.Formatter("%(message)s"))
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)
        self._thread.start()

    def __enter__(self) -> "ResultWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, result: Result) -> None:
        """Take a result; never blocks."""
        try:
            self._waiting.put_nowait(result)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Write what waits, within two seconds, close, and say what was dropped."""
        try:
            self._waiting.put(None, timeout=CLOSE_TIMEOUT_S)
        except queue.Full:
            return
        self._thread.join(CLOSE_TIMEOUT_S)
        if self.dropped:
            log.warning("%d results were not written", self.dropped)

    def _run(self) -> None:
        show_name()
        while (result := self._waiting.get()) is not None:
            record = logging.LogRecord("results", logging.INFO, "", 0, to_json(result), None, None)
            self._failing = False if self._handler.emit_or_fail(record) else self._failed()
        with contextlib.suppress(OSError):  # a disk that is still full: counted and said already
            self._handler.close()

    def _failed(self) -> bool:
        self.dropped += 1
        if not self._failing:
            log.error("results cannot be written: %s", self._handler.failure)
            if isinstance(self._handler.failure, BrokenPipeError):
                # Nobody will ever read a result again: end as other programs in a pipe do.
                os.kill(os.getpid(), signal.SIGTERM)
        return True


class _RaisingHandler(logging.StreamHandler[TextIO]):
    """A log handler that reports failure instead of printing a traceback."""

    failure: BaseException | None = None

    def emit_or_fail(self, record: logging.LogRecord) -> bool:
        self.failure = None
        self.emit(record)
        return self.failure is None

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - logging's name
        self.failure = sys.exc_info()[1]


class _FileHandler(_RaisingHandler, logging.handlers.RotatingFileHandler):
    """The same with a file that is turned over when it is full."""


def _open(destination: str) -> _RaisingHandler:
    if destination == "-":
        return _RaisingHandler(sys.stdout)
    try:
        return _FileHandler(Path(destination), maxBytes=MAX_FILE_BYTES, backupCount=1, encoding="utf-8")
    except OSError as error:
        raise AgentError(f"--results {destination}: {error.strerror}") from error
