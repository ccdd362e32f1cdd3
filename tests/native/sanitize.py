"""The native code under a sanitizer, as `make tsan`, `make asan` and `make ubsan` run it.

First each sanitizer has to report faults made on purpose, compiled with the same flags: one that sees nothing
would find everything clean. `tsan` is the worker pool's stress test in C++; `asan` and `ubsan` run the
kernels' own tests, hard inputs among them, with kernels built for it in a copy of their sources;
`asan+ubsan` is both in one build.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.cython_ext.kernel_copy import ROOT, build_in, run_in, run_tests

NATIVE = Path(__file__).parent
# The stress test takes seconds.
HANGS_S = 300
# What a quick run keeps: the hardest inputs, the bytes from outside, and the threads.
QUICK_TESTS = (
    "test_hard_inputs.py",
    "test_messages.py",
    "test_worker_pool.py",
    "test_worker_pool_lifetime.py",
)

TSAN_FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-fsanitize=thread", "-pthread")
KERNEL_FLAGS = {
    "asan": "-g -fsanitize=address -fno-omit-frame-pointer",
    # Overflow of signed integers is only at fault without -fwrapv, which Python's own flags bring along.
    "ubsan": "-g -fsanitize=undefined,float-cast-overflow -fno-sanitize-recover=all -fno-wrapv",
}
# Both at once take one build, and one run of the tests.
BOTH = "+".join(KERNEL_FLAGS)
# A call of `faulty`, and what the sanitizer says to it.
FAULTS = {
    "asan": {
        "read_past_the_end(np.ones(4, np.float32))": "heap-buffer-overflow",
        "write_past_the_end(np.ones(4096, np.float32))": "heap-buffer-overflow",
        "read_what_is_freed(3)": "heap-use-after-free",
    },
    "ubsan": {
        "shift_too_far(1, 40)": "shift exponent 40 is too large",
        "add_too_much(2**31 - 1, 1)": "signed integer overflow",
        "cast_out_of_range(3e9)": "outside the range of representable values",
        "cast_out_of_range(float('nan'))": "outside the range of representable values",
        "read_misaligned(np.zeros(64, np.uint8), 1)": "misaligned address",
    },
}


def say(text: str) -> None:
    """Print at once: the next step may take a minute."""
    print(text, flush=True)


def require(holds: bool, what: str, done: subprocess.CompletedProcess[str]) -> None:
    """End with what was printed unless all is well."""
    if not holds:
        raise SystemExit(f"{what} (exit status {done.returncode}):\n{done.stdout}{done.stderr}")


def turn_off_random_addresses() -> None:
    """Begin anew without them where that is allowed: with some, a sanitizer finds no room for its shadow."""
    command = ["setarch", platform.machine(), "--addr-no-randomize"]
    already = int(Path("/proc/self/personality").read_text(), 16) & 0x0040000
    if already or not shutil.which("setarch"):
        return
    if subprocess.run([*command, "true"], capture_output=True).returncode == 0:
        os.execvp("setarch", [*command, *sys.orig_argv])  # noqa: S606


def build_stress(folder: Path, *flags: str) -> Path:
    """Compile the pool's stress test for ThreadSanitizer."""
    program = folder / ("pool_stress" + "".join(flags))
    source = NATIVE / "pool_stress.cpp"
    command = [os.environ.get("CXX", "g++"), *TSAN_FLAGS, *flags, f"-I{ROOT / 'cython_ext'}"]
    done = subprocess.run([*command, str(source), "-o", str(program)], capture_output=True, text=True)
    require(done.returncode == 0, "the stress test cannot be built", done)
    return program


def check_pool(folder: Path, quick: bool) -> None:
    """Run the pool's stress test; without its memory order it has to be reported."""

    def run(program: Path, tasks: int, starts: int, seed: int) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [program, str(tasks), str(starts), str(seed)],
                env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"},
                capture_output=True,
                text=True,
                timeout=HANGS_S,
            )
        except subprocess.TimeoutExpired:
            raise SystemExit(f"tsan: the worker pool hangs: not over within {HANGS_S} s") from None

    weakened = run(build_stress(folder, "-DWEAKENED"), 50_000, 100, 1)
    seen = weakened.returncode != 0 and "ThreadSanitizer: data race" in weakened.stderr
    require(seen, "tsan does not see that the pool without its memory order is at fault", weakened)
    say("tsan: reports the pool without its memory order")
    program = build_stress(folder)
    for seed in range(1 if quick else 4):
        done = run(program, *((60_000, 500) if quick else (200_000, 2_000)), seed)
        require(done.returncode == 0, "tsan: the worker pool is at fault", done)
        say(f"tsan: {done.stdout.strip()}")


def library(name: str) -> str:
    """Give the path of one of the compiler's libraries."""
    compiler = os.environ.get("CC", "gcc")
    return subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip()


def check_faults(sanitizer: str, folder: Path, environment: dict[str, str]) -> None:
    """Commit the faults that a sanitizer has to report."""
    for call, report in FAULTS[sanitizer].items():
        imports = "import numpy as np; from cython_ext.faulty import *"
        done = run_in(folder, environment, "-c", f"{imports}; print({call})")
        seen = done.returncode != 0 and report in done.stderr
        require(seen, f"{sanitizer} does not report {call} as {report!r}", done)
        say(f"{sanitizer}: reports {call}")


def check_kernels(sanitizers: str, folder: Path, quick: bool) -> None:
    """Run the kernels' tests with kernels that are watched, by one sanitizer or by both."""
    watching = sanitizers.split("+")
    # As they are shipped, but for the watching; unoptimised they are built in a quarter of the time.
    speed = "-O0" if quick else "-O3"
    flags = " ".join([*(KERNEL_FLAGS[sanitizer] for sanitizer in watching), speed, "-UNDEBUG"])
    if len(watching) > 1:
        # With ASan's library before all others, the type of the C++ library's own exceptions looks wrong.
        flags += " -fno-sanitize=vptr"
    build_in(folder, {"KERNEL_CFLAGS": flags}, NATIVE / "faulty.pyx")
    environment = {"PYTHONMALLOC": "malloc"}
    if "asan" in watching:
        # Python itself is not built for it; and without the second, its first C++ exception would end it.
        environment["LD_PRELOAD"] = f"{library('libasan.so')} {library('libstdc++.so')}"
        # What the interpreter keeps to its end is no leak.
        environment["ASAN_OPTIONS"] = "detect_leaks=0"
    for sanitizer in watching:
        check_faults(sanitizer, folder, environment)
    done = run_tests(folder, environment, *(QUICK_TESTS if quick else ()))
    require(done.returncode == 0, f"{sanitizers}: a kernel is at fault", done)
    say(f"{sanitizers}: {done.stdout.strip().splitlines()[-1]}")


def main() -> None:
    """Run one sanitizer; ends with 0 when it found nothing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sanitizer", choices=["tsan", *KERNEL_FLAGS, BOTH])
    parser.add_argument("--quick", action="store_true", help="fewer tasks, the hardest tests only")
    options = parser.parse_args()
    turn_off_random_addresses()
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"{options.sanitizer}-") as folder:
        if options.sanitizer == "tsan":
            check_pool(Path(folder), options.quick)
        else:
            check_kernels(options.sanitizer, Path(folder), options.quick)
    say(f"{options.sanitizer}: clean, {time.monotonic() - begun_s:.0f} s")


if __name__ == "__main__":
    main()
