"""The kernels built once more, in a copy of their sources, with checks that the shipped ones go without."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = Path(__file__).parent
# Speed is not what a checked build is for, and the first of these would build another.
LEFT_OUT = ("test_debug_build.py", "test_liveness.py")
# What a sanitizer says before it ends the program goes to standard error itself, past pytest.
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--capture=sys")


def run_in(copy: Path, environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the copy's kernels before all others."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), **environment},
        capture_output=True,
        text=True,
    )


def build_in(copy: Path, environment: Mapping[str, str], *more_kernels: Path) -> None:
    """Build the kernels, and more of them, in an empty folder.

    Raises:
        RuntimeError: with what the build said, or where the kernels come from instead.

    """
    shutil.copy(ROOT / "setup.py", copy)
    shutil.copytree(ROOT / "proto", copy / "proto")
    built = shutil.ignore_patterns("*.so", "*.c", "*.cpp", "__pycache__")
    shutil.copytree(ROOT / "cython_ext", copy / "cython_ext", ignore=built)
    for kernel in more_kernels:
        shutil.copy(kernel, copy / "cython_ext")
    done = run_in(copy, environment, "setup.py", "build_ext", "--inplace", f"-j{os.cpu_count()}")
    if done.returncode != 0:
        raise RuntimeError(f"the kernels cannot be built:\n{done.stdout}{done.stderr}")


def run_tests(
    copy: Path, environment: Mapping[str, str], *arguments: str, without: Iterable[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the kernels' tests, but for some, or only the files that are named, with the copy's kernels."""
    where = run_in(copy, environment, "-c", "import cython_ext.resize as m; print(m.__file__)")
    if Path(where.stdout.strip() or "/").parent != copy / "cython_ext":
        raise RuntimeError(f"the copy's kernels are not found: {where.stdout}{where.stderr}")
    chosen = [str(TESTS / name) for name in arguments] or [
        str(TESTS),
        *(f"--ignore={TESTS / name}" for name in (*LEFT_OUT, *without)),
    ]
    return run_in(copy, environment, *PYTEST, f"--rootdir={ROOT}", f"--confcutdir={ROOT}", *chosen)
