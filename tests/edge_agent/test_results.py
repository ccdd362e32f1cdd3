"""Results as JSON Lines."""

import json
import logging
import os
import threading
from pathlib import Path

import pytest

from edge_agent import results
from edge_agent.errors import AgentError
from edge_agent.result import Answer, Object, Result
from edge_agent.results import ResultWriter, to_json


def result(frame_id: int = 1) -> Result:
    objects = (Object("person", 0.87654321, 10, -2, 30, 40),)
    answer = Answer(frame_id, "detected", objects, queue_ms=1.26, work_ms=30.04)
    return Result("höf", 1_790_000_000_123_456_789, 768, 576, 45.678, answer)


def test_a_line_holds_what_was_promised() -> None:
    """Camera, frame, capture time, latency, outcome and objects; times in milliseconds, boxes in pixels."""
    expected = {
        "camera": "höf",
        "frame_id": 1,
        "capture_time": "2026-09-21T14:13:20.123Z",
        "latency_ms": 45.7,
        "queue_ms": 1.3,
        "work_ms": 30.0,
        "outcome": "detected",
        "width": 768,
        "height": 576,
        "objects": [
            {"label": "person", "confidence": 0.8765, "bbox": {"x": 10, "y": -2, "width": 30, "height": 40}}
        ],
    }

    assert json.loads(to_json(result())) == expected
    assert "\n" not in to_json(result())


def test_lines_go_to_the_file_in_order_and_after_what_is_there(tmp_path: Path) -> None:
    """The file is appended to, and complete once the writer is closed."""
    path = tmp_path / "results.jsonl"
    path.write_text("before\n")
    with ResultWriter(str(path)) as writer:
        for frame_id in range(500):
            writer.write(result(frame_id))

    lines = path.read_text().splitlines()
    assert lines[0] == "before"
    assert [json.loads(line)["frame_id"] for line in lines[1:]] == list(range(500))


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its size the file is turned over, and one older file is kept."""
    monkeypatch.setattr(results, "MAX_FILE_BYTES", 10_000)
    with ResultWriter(str(tmp_path / "r.jsonl")) as writer:
        for frame_id in range(300):
            writer.write(result(frame_id))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.jsonl", "r.jsonl.1"]
    assert all(path.stat().st_size <= 10_000 for path in tmp_path.iterdir())
    assert json.loads((tmp_path / "r.jsonl").read_text().splitlines()[-1])["frame_id"] == 299


def test_a_file_that_cannot_be_opened_is_one_clear_error(tmp_path: Path) -> None:
    """The error names the option, the path and the reason."""
    with pytest.raises(AgentError, match=r"^--results .*/no/r\.jsonl: No such file or directory$"):
        ResultWriter(str(tmp_path / "no" / "r.jsonl"))


def test_a_full_disk_drops_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be written is counted; the log has one line, not one for each result."""
    with caplog.at_level(logging.ERROR), ResultWriter("/dev/full") as writer:
        for frame_id in range(50):
            writer.write(result(frame_id))

    assert writer.dropped == 50
    assert [record.getMessage() for record in caplog.records] == [
        "results cannot be written: [Errno 28] No space left on device"
    ]


def test_a_reader_that_stalls_costs_results_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nobody reading, write() never blocks, memory is bounded, and what was dropped is counted."""
    monkeypatch.setattr(results, "MAX_WAITING", 100)
    monkeypatch.setattr(results, "CLOSE_TIMEOUT_S", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    before = threading.active_count()
    writer = ResultWriter(str(pipe))
    for frame_id in range(2000):
        writer.write(result(frame_id))
    assert writer.dropped > 0
    assert threading.active_count() <= before + 1

    os.set_blocking(reader, True)
    drained = threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(reader, 65536), b"")])
    drained.start()
    monkeypatch.setattr(results, "CLOSE_TIMEOUT_S", 5.0)
    writer.close()
    drained.join(5.0)
    os.close(reader)
    assert not drained.is_alive()
