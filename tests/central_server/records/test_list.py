"""`central-server records list`: for people, and for programs."""

import json
import re
import time
from pathlib import Path

from camera_ai import telemetry_pb2
from camera_ai.telemetry_pb2 import CameraStateChange, Dropped, MotionInterval, Reading, Record

from tests.central_server.records.conftest import batch, state


async def test_records_are_listed_in_words(report, start_program, data: Path) -> None:
    """State with reason and what was before, motion, readings and losses; nothing steers the terminal."""
    now_ns = time.time_ns()
    change = CameraStateChange(
        state="stalled", reason="no packet\x1b[31m", previous_state="streaming", previous_ms=1500
    )
    common = {"time_ns": now_ns, "clock_trust": telemetry_pb2.CLOCK_TRUST_GOOD}
    stepped = {"time_ns": now_ns, "clock_trust": telemetry_pb2.CLOCK_TRUST_STEPPED}
    records = [
        Record(sequence=1, camera_id="door", camera_state=change, **common),
        Record(
            sequence=2, camera_id="yard", motion=MotionInterval(duration_ms=2400, peak_share=0.25), **stepped
        ),
        Record(sequence=3, reading=Reading(device_id="fridge", value=4.5, unit="°C"), **common),
        Record(sequence=4, dropped=Dropped(records=7), **common),
    ]
    await report().send(batch(records))
    program = start_program("central-server", "records", "list", "--data", str(data))
    assert program.wait() == 0
    assert [re.sub(r"^\S+Z ", "", line) for line in program.lines] == [
        r"shop/door: stalled: no packet\x1b[31m, after 1.5 s of streaming",
        "shop/yard: motion for 2.4 s, 25.0% of the picture (gateway's clock: stepped)",
        "shop: fridge 4.5 °C",
        "shop: 7 records were lost for want of room",
    ]


async def test_records_are_chosen_by_camera_time_and_number(report, stored) -> None:
    """--camera, --since in either form, --limit."""
    hour_ns = 3600 * 10**9
    now_ns = time.time_ns()
    records = [
        state(1, "door", time_ns=now_ns - 50 * hour_ns),
        state(2, "door"),
        state(3, "yard"),
        state(4, "door"),
    ]
    await report().send(batch(records))

    assert [record["sequence"] for record in stored("--camera", "door")] == [1, 2, 4]
    assert [record["sequence"] for record in stored("--since", "2h")] == [2, 3, 4]
    assert [record["sequence"] for record in stored("--since", "2000-01-01")] == [1, 2, 3, 4]
    assert [record["sequence"] for record in stored("--limit", "2")] == [3, 4]
    assert stored("--camera", "nobody") == []
    # Times that no record can have.
    assert len(stored("--since", "999999d")) == len(stored("--since", "1500-01-01")) == 4
    assert stored("--since", "9999-12-31") == []


async def test_lines_of_json_are_plain(report, start_program, data: Path) -> None:
    """Whatever a gateway says, a line is a line, and nothing in it steers a terminal."""
    text = "a\u2028b\x85c\x9b31md é"
    await report().send(batch([state(1, text=text)], gateway=text))
    program = start_program("central-server", "records", "list", "--json", "--data", str(data))
    assert program.wait() == 0
    (line,) = program.lines
    assert line.isascii()
    record = json.loads(line)
    assert (record["gateway"], record["reason"]) == (text, text)


async def test_what_is_wrong_is_said_in_one_line(report, start_program, data: Path, tmp_path: Path) -> None:
    """No traceback."""
    await report().send(batch([state(1)]))
    for options, said in (
        (["--data", str(tmp_path)], "found no records.db, expected the directory of `serve --data`"),
        (["--data", str(data), "--since", "yesterday"], "--since: found 'yesterday', expected e.g. 15m"),
        ([], "Missing option '--data'"),
    ):
        program = start_program("central-server", "records", "list", *options)
        assert program.wait() != 0
        assert len(program.errors) == 1
        assert said in program.errors[0]
