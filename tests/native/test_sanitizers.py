"""The sanitizers find nothing, and would find something: see `sanitize.py`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# How many faults each of them has to report, before what it says about the rest counts.
FAULTS = {"tsan": 1, "asan": 3, "ubsan": 5}


def sanitize(*arguments: str) -> str:
    """Run a sanitizer that has to find the native code clean; gives what it prints."""
    command = [sys.executable, "-m", "tests.native.sanitize", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("sanitizers", ["tsan", "asan+ubsan"])
@pytest.mark.timeout(600)
def test_the_native_code_is_clean(sanitizers: str) -> None:
    """The short form: fewer tasks, the hardest tests only, and one build for the two that can share it."""
    printed = sanitize(sanitizers, "--quick")

    for sanitizer in sanitizers.split("+"):
        assert printed.count(f"{sanitizer}: reports ") == FAULTS[sanitizer]


@pytest.mark.soak
@pytest.mark.parametrize("sanitizer", FAULTS)
def test_the_native_code_is_clean_at_full_length(sanitizer: str) -> None:
    """Each by itself, as its command runs it: with the kernels optimised as they are shipped."""
    printed = sanitize(sanitizer)

    assert printed.count(f"{sanitizer}: reports ") == FAULTS[sanitizer]
