"""Counting a JPEG's markers."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cython_ext.jpeg_markers import count_markers
from tests.pictures import jpeg

SCAN = 0xDA


@given(st.lists(st.sampled_from([0x00, 0xFE, 0xFF, SCAN]), max_size=60).map(bytes))
@example(b"")
@example(b"\xff")
@example(b"\xda")
@example(b"\xff\xda")
@example(b"\xff\xff\xda\xff")
@example(b"\xff\xda\xff\xda")
@example(b"\xda\xff")
def test_each_place_counts_once(data: bytes) -> None:
    """As `bytes.count` has it."""
    assert count_markers(data, SCAN) == data.count(b"\xff\xda")


def test_a_picture_has_one_scan() -> None:
    """And one start."""
    assert count_markers(jpeg(), SCAN) == 1
    assert count_markers(jpeg(), 0xD8) == 1


@pytest.mark.parametrize("marker", [0x00, 0xFF, -1, 256])
def test_a_code_that_no_marker_has(marker: int) -> None:
    """Zero is a stuffed byte, 0xFF a fill byte."""
    with pytest.raises(ValueError, match="expected 0x01 to 0xFE"):
        count_markers(b"", marker)


@pytest.mark.parametrize("data", [None, "text", bytearray(b"\xff\xda")])
def test_a_file_is_bytes(data: Any) -> None:
    """Nothing else."""
    with pytest.raises(TypeError):
        count_markers(data, SCAN)
