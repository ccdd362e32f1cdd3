"""The kernels on arm64, the processor of most gateways: cross-built, and their tests emulated."""

import platform
import re

import pytest

from tests.cross.arm64 import ROOT, Arm64, CannotCrossError

TESTS = "tests/cython_ext"
# They build kernels of their own, measure time, or need what is not worth its emulation: FFmpeg, a model.
LEFT_OUT = ("test_debug_build.py", "test_liveness.py", "test_decode_ssd.py")
# A program that is started is this machine's to run, and it cannot.
STARTS_A_PROGRAM = "test_worker_pool_lifetime.py::test_a_program_ends_while_its_workers_wait_and_work"
# All sizes from 1 to 4096, one after the other: three minutes.
EVERY_SIZE = "test_letterbox.py::test_a_known_rectangle_comes_back_for_every_frame_size"
# The examples of a run of its own.
MORE_EXAMPLES = "40"


@pytest.fixture(scope="module")
def arm64() -> Arm64:
    """Give the kernels built for arm64, in build/, where they are kept."""
    if platform.machine() == "aarch64":
        pytest.skip("this machine is arm64 itself: its kernels are tested anyway")
    try:
        built = Arm64(ROOT / "build" / "arm64")
        built.prepare()
    except CannotCrossError as reason:
        pytest.skip(str(reason))
    built.build()
    return built


@pytest.mark.timeout(900)
def test_the_kernels_pass_their_tests_on_arm64(arm64: Arm64) -> None:
    """With few examples of each generated test, and without those that take minutes in an emulator."""
    passed = _passed(arm64, "-x", f"--deselect={TESTS}/{EVERY_SIZE}", timeout_s=800.0)

    assert passed > 300


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_kernels_pass_their_tests_on_arm64_with_more_examples(
    arm64: Arm64, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sizes, and five times as many examples."""
    monkeypatch.setenv("EXAMPLES", MORE_EXAMPLES)

    assert _passed(arm64, timeout_s=3500.0) > 300


def test_every_kernel_is_the_one_that_was_built(arm64: Arm64) -> None:
    """Each is arm64's, and found before any other."""
    names = sorted(path.stem for path in (ROOT / "cython_ext").glob("*.pyx"))
    program = "import importlib, platform, sys\n" + "".join(
        f"print(platform.machine(), importlib.import_module('cython_ext.{name}').__file__)\n"
        for name in names
    )

    done = arm64.python("-c", program, timeout_s=100.0)

    built = {name: str(arm64.copy / "cython_ext" / f"{name}.") for name in names}
    lines = done.stdout.splitlines()
    assert len(lines) == len(names), done.stderr
    for name, line in zip(names, lines, strict=True):
        assert line.startswith(f"aarch64 {built[name]}"), line


def _passed(arm64: Arm64, *options: str, timeout_s: float) -> int:
    """Run the kernels' tests; gives how many have passed, none having failed."""
    pytest_options = ["-q", "-p", "no:cacheprovider", "-p", "tests.cross.few_examples", "--timeout=600"]
    pytest_options += [f"--rootdir={ROOT}", f"--config-file={ROOT / 'pyproject.toml'}"]
    chosen = [str(ROOT / TESTS), *(f"--ignore={ROOT / TESTS / name}" for name in LEFT_OUT)]
    chosen.append(f"--deselect={TESTS}/{STARTS_A_PROGRAM}")
    done = arm64.python("-m", "pytest", *pytest_options, *options, *chosen, timeout_s=timeout_s)
    print(done.stdout[-300:])
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    counts = re.search(r"(\d+) passed", done.stdout)
    assert counts is not None
    return int(counts[1])
