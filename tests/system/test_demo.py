"""The demo, as `make demo DURATION=8` runs it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_detects_people_and_ends_by_itself(tmp_path: Path) -> None:
    """Its summary counts people, its exit code is 0, and it leaves no program behind."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "demo.py", "--duration", "8"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "x person" in done.stdout
    assert "'detected':" in done.stdout
    left = [path for path in Path("/proc").glob("[0-9]*/cwd") if _points_to(path, tmp_path)]
    assert left == []


def _points_to(link: Path, target: Path) -> bool:
    try:
        return link.readlink() == target
    except OSError:
        return False


def test_what_pip_cannot_install_is_named_in_one_line(tmp_path: Path) -> None:
    """Without a compiler the set-up says the one line that installs it, and exits with 2."""
    for tool in ("sh", "make", "python3"):
        (tmp_path / tool).symlink_to(Path("/bin/sh") if tool == "sh" else Path(sys.executable))
    done = subprocess.run(
        ["/bin/sh", ROOT / "tools" / "prerequisites.sh", "python3"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "install with: sudo apt-get update && sudo apt-get install -y gcc" in done.stderr
