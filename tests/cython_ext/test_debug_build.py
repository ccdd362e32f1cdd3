"""The kernels once more, compiled with bounds checks: an index out of range fails, instead of reading on."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = Path(__file__).parent
# Speed is not what a checked build is for, and this file would build another.
LEFT_OUT = ("test_debug_build.py", "test_liveness.py")


@pytest.fixture(scope="module")
def checked_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the kernels with CYTHON_DEBUG=1 from a copy of their sources; gives what to import from."""
    copy = tmp_path_factory.mktemp("checked")
    shutil.copy(ROOT / "setup.py", copy)
    shutil.copytree(ROOT / "proto", copy / "proto")
    built = shutil.ignore_patterns("*.so", "*.c", "*.cpp", "__pycache__")
    shutil.copytree(ROOT / "cython_ext", copy / "cython_ext", ignore=built)
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace", f"-j{os.cpu_count()}"],
        cwd=copy,
        env={**os.environ, "CYTHON_DEBUG": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return copy


def run_checked(checked_build: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the checked kernels before all others."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=checked_build,
        env={**os.environ, "PYTHONPATH": str(checked_build)},
        capture_output=True,
        text=True,
    )


def test_the_kernels_pass_their_tests_with_bounds_checks(checked_build: Path) -> None:
    """All tests of this directory, with the kernels of the checked build."""
    where = run_checked(checked_build, "-c", "import cython_ext.resize as m; print(m.__file__)")
    assert Path(where.stdout.strip()).parent == checked_build / "cython_ext", where.stderr

    options = ["-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", f"--confcutdir={ROOT}"]
    left_out = [f"--ignore={TESTS / name}" for name in LEFT_OUT]
    done = run_checked(checked_build, "-m", "pytest", str(TESTS), *options, *left_out)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_checked_build_has_its_checks(checked_build: Path) -> None:
    """Each kernel that indexes can raise; its C code lies apart, or the usual build would take it."""
    generated = list((checked_build / "build" / "debug-c" / "cython_ext").glob("*.c*"))
    checked = {path.stem for path in generated if "__Pyx_RaiseBufferIndexError(" in path.read_text()}

    assert {"boxes", "nms", "resize"} <= checked
    assert not [path for path in (checked_build / "cython_ext").iterdir() if path.suffix in {".c", ".cpp"}]
