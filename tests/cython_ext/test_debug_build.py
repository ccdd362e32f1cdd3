"""The kernels once more, compiled with bounds checks: an index out of range fails, instead of reading on."""

from pathlib import Path

import pytest

from tests.cython_ext.kernel_copy import build_in, run_tests

# The build of all kernels and the run of their tests count as one test.
pytestmark = pytest.mark.timeout(400)
# Simulated work indexes nothing, and the pool only its lists, which the sanitizers watch.
NO_ARRAYS = ("test_simulated.py", "test_worker_pool.py", "test_worker_pool_lifetime.py")


@pytest.fixture(scope="module")
def checked_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the kernels with CYTHON_DEBUG=1 from a copy of their sources; gives what to import from."""
    copy = tmp_path_factory.mktemp("checked")
    build_in(copy, {"CYTHON_DEBUG": "1"})
    return copy


def test_the_kernels_pass_their_tests_with_bounds_checks(checked_build: Path) -> None:
    """The tests of all kernels that index arrays, with those of the checked build."""
    done = run_tests(checked_build, {}, without=NO_ARRAYS)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_checked_build_has_its_checks(checked_build: Path) -> None:
    """Each kernel that indexes can raise; its C code lies apart, or the usual build would take it."""
    generated = list((checked_build / "build" / "debug-c" / "cython_ext").glob("*.c*"))
    checked = {path.stem for path in generated if "__Pyx_RaiseBufferIndexError(" in path.read_text()}

    assert {"boxes", "motion", "motion_light", "nms", "resize"} <= checked
    assert not [path for path in (checked_build / "cython_ext").iterdir() if path.suffix in {".c", ".cpp"}]
