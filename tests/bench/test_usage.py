"""What a program and its processes use, seen from outside."""

import sys

import pytest

from bench.programs import Started

MEGABYTE = 1 << 20

CHILD = """
import threading, time
kept = bytearray(b"x" * (60 << 20))
while time.process_time() < 0.3:
    pass
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print("ready", flush=True)
child.wait()
"""


def test_a_program_is_counted_with_the_processes_that_it_started() -> None:
    with Started(r"(ready)", sys.executable, "-c", PARENT) as started:
        usage = started.usage
        processor_s = usage.processor_s()
        resident, peak = usage.resident_bytes(), usage.peak_bytes()
        proportional, once = usage.proportional_bytes(), usage.once_bytes()
        threads, descriptors = usage.threads(), usage.descriptors()
        started.kill()

    assert 0.3 <= processor_s < 30
    assert 60 * MEGABYTE < resident < 200 * MEGABYTE
    assert peak >= resident
    assert 60 * MEGABYTE < proportional < once < resident
    assert threads == 3
    # Standard input, output and error of both, and the pipe between them.
    assert 7 <= descriptors < 20


def test_processor_time_is_finer_than_a_tick() -> None:
    """What a process used is told in nanoseconds: no two looks at one that works are equal."""
    with Started(r"(ready)", sys.executable, "-c", "print('ready', flush=True)\nwhile True: pass") as started:
        looks = {started.processor_s() for _ in range(200)}
        started.kill()

    assert len(looks) > 20


def test_a_program_that_cannot_start_tells_why() -> None:
    with pytest.raises(RuntimeError, match="no such thing"):
        Started(r"(ready)", sys.executable, "-c", "raise SystemExit('no such thing')")
