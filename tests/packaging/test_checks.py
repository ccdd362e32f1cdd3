"""The static checks, as tests."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
KERNELS = [f"cython_ext.{path.stem}" for path in sorted((ROOT / "cython_ext").glob("*.pyx"))]


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("mypy",),
        ("stubtest", "--mypy-config-file", "pyproject.toml", *KERNELS),
        ("lint-imports",),
    ],
    ids=lambda command: " ".join(command[:2]),
)
@pytest.mark.timeout(300)
def test_a_check_is_clean(command: tuple[str, ...]) -> None:
    """Each of `make check`'s commands finds nothing."""
    done = subprocess.run([BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_under_bench_asserts_in_a_test() -> None:
    """Time is shown by `python -m bench`: no test is collected there, and only tests/bench imports it."""
    bench_tests = [path for path in (ROOT / "bench").rglob("*.py") if path.name.startswith("test_")]
    importers = []
    for path in set((ROOT / "tests").rglob("*.py")) - set((ROOT / "tests" / "bench").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            importers += [str(path) for name in names if name.split(".")[0] == "bench"]

    assert bench_tests == importers == []


def test_no_file_has_outgrown_its_noun() -> None:
    """A source file stays under about 400 lines."""
    sources = [
        path
        for folder in ("cython_ext", "edge_agent", "central_server", "bench", "tools", "tests")
        for ending in ("*.py", "*.pyx")
        for path in (ROOT / folder).rglob(ending)
    ]
    long = {
        str(path.relative_to(ROOT)): n for path in sources if (n := len(path.read_text().splitlines())) > 420
    }

    assert long == {}
