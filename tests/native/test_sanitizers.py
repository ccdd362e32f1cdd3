"""The sanitizers find nothing, and would find something: see `sanitize.py`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Each of them has to report these, before what they say about the rest counts.
FAULTS = {"tsan": 1, "asan": 3, "ubsan": 5}


@pytest.mark.parametrize("sanitizer", FAULTS)
@pytest.mark.timeout(600)
def test_the_native_code_is_clean(sanitizer: str) -> None:
    """The short form of each command: fewer tasks, the hardest tests only."""
    command = [sys.executable, "-m", "tests.native.sanitize", sanitizer, "--quick"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"{sanitizer}: reports ") == FAULTS[sanitizer]


@pytest.mark.soak
@pytest.mark.parametrize("sanitizer", FAULTS)
def test_the_native_code_is_clean_at_full_length(sanitizer: str) -> None:
    """Each command as it is, with the kernels optimised as they are shipped."""
    done = subprocess.run(["make", sanitizer], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
