"""What the load generator is told and what it gives back: their ranges, and their way between processes."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from central_server.capacity.load import LoadResult, LoadSpec


def test_cameras_are_spread_evenly_over_the_period() -> None:
    """So that no instant has more of them than it must."""
    spec = LoadSpec("127.0.0.1:1", cameras=4, fps=5)

    assert [spec.phase_s(camera) for camera in range(4)] == pytest.approx([0, 0.05, 0.1, 0.15])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cameras": 0}, "cameras: found 0, expected 1 to 10000"),
        ({"cameras": 1, "fps": float("nan")}, "fps: found nan"),
        ({"cameras": 1, "duration_s": 1e9}, "duration_s: found 1e"),
        ({"cameras": 2, "fps_of_camera": (1.0,)}, "fps_of_camera: found 1 rates, expected 2"),
        ({"cameras": 10_000, "duration_s": 3600}, "frames: found"),
        ({"cameras": 1, "window": 0}, "window: found 0"),
    ],
)
def test_a_load_that_cannot_be_is_refused(fields: dict[str, Any], words: str) -> None:
    """By name, figure and range."""
    with pytest.raises(ValueError, match=re.escape(words)):
        LoadSpec("127.0.0.1:1", **fields)


def test_a_spec_and_a_result_survive_their_way_between_processes() -> None:
    """What is written is what is read."""
    spec = LoadSpec(
        "127.0.0.1:1", cameras=2, fps_of_camera=(1.0, 2.5), images=(Path("a b.jpg"),), max_age_ms=0,
        window=3, give_up_ms=12.5,
    )  # fmt: skip
    result = LoadResult(
        cameras=2, camera=np.array([0, 1], np.int32), due_s=np.array([0.0, 0.5]),
        lag_s=np.zeros(2), sent_s=np.array([0.1, np.nan]), answered_s=np.array([0.2, np.nan]),
        outcome=np.array([1, -1], np.int8), errors={1: "UNAVAILABLE: gone"}, gave_up=True,
        loop_lag_s=np.array([0.001, 0.002, 0.0]),
    )  # fmt: skip
    read = LoadResult.from_bytes(result.to_bytes())

    assert LoadSpec.from_json(spec.to_json()) == spec
    assert read.errors == {1: "UNAVAILABLE: gone"}
    assert read.gave_up
    for name in ("camera", "due_s", "lag_s", "sent_s", "answered_s", "outcome", "loop_lag_s"):
        np.testing.assert_array_equal(getattr(read, name), getattr(result, name))
    with pytest.raises(ValueError, match="found 4 bytes"):
        LoadResult.from_bytes(b"junk")


def test_a_result_cut_short_is_an_error_with_its_length() -> None:
    """However much of it has come."""
    none, number = np.zeros(0), np.zeros(1000)
    whole = LoadResult(
        cameras=1, camera=number.astype(np.int32), due_s=number, lag_s=number, sent_s=number,
        answered_s=number, outcome=number.astype(np.int8), loop_lag_s=none,
    ).to_bytes()  # fmt: skip
    for length in (0, 3, 100, len(whole) // 2, len(whole) - 1):
        with pytest.raises(ValueError, match=rf"^found {length} bytes that are no result of a load$"):
            LoadResult.from_bytes(whole[:length])
