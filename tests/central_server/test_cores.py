"""How many cores may be used, by affinity and by control groups as the kernel writes them."""

import os
from pathlib import Path

import pytest

from central_server.cores import usable_cores

ALL = len(os.sched_getaffinity(0))


def control_groups(folder: Path, own: str, files: dict[str, str]) -> tuple[Path, Path]:
    """Write a control group tree and what /proc says of the process's own groups."""
    root = folder / "cgroup"
    root.mkdir()
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    own_groups = folder / "own"
    own_groups.write_text(own)
    return root, own_groups


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scheduler allow sixteen cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))


@pytest.mark.usefixtures("many_cores")
@pytest.mark.parametrize(
    ("limit", "cores"),
    [
        ("max 100000", 16),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("1000 100000", 1),
        ("6400000 100000", 16),
        ("300000 50000", 6),
        ("", 16),
        ("nonsense", 16),
        ("200000 0", 16),
    ],
)
def test_the_quota_of_the_own_group(tmp_path: Path, limit: str, cores: int) -> None:
    """Cgroup v2: a quota counts as the cores that it is worth, rounded up; what cannot be read, as none."""
    files = {"system.slice/server.service/cpu.max": limit}

    assert usable_cores(*control_groups(tmp_path, "0::/system.slice/server.service\n", files)) == cores


@pytest.mark.usefixtures("many_cores")
def test_the_quota_of_a_group_above(tmp_path: Path) -> None:
    """The tightest limit on the way up counts."""
    files = {"cpu.max": "800000 100000", "pod/cpu.max": "300000 100000", "pod/a/cpu.max": "max 100000"}

    assert usable_cores(*control_groups(tmp_path, "0::/pod/a\n", files)) == 3


@pytest.mark.usefixtures("many_cores")
def test_inside_a_container(tmp_path: Path) -> None:
    """In a namespace of its own the process is in the root group, which carries the container's limit."""
    assert usable_cores(*control_groups(tmp_path, "0::/\n", {"cpu.max": "400000 100000"})) == 4


@pytest.mark.usefixtures("many_cores")
@pytest.mark.parametrize("folder", ["cpu,cpuacct/docker/abc", "cpu"])
def test_the_first_version_of_control_groups(tmp_path: Path, folder: str) -> None:
    """Cgroup v1: the quota is in two files, under the controllers' names or mounted over the root."""
    files = {f"{folder}/cpu.cfs_quota_us": "250000\n", f"{folder}/cpu.cfs_period_us": "100000\n"}
    own = "12:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n"

    assert usable_cores(*control_groups(tmp_path, own, files)) == 3


@pytest.mark.usefixtures("many_cores")
def test_the_first_version_without_a_quota(tmp_path: Path) -> None:
    """Minus one means none."""
    files = {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}

    assert usable_cores(*control_groups(tmp_path, "4:cpu:/\n", files)) == 16


def test_without_control_groups_affinity_counts(tmp_path: Path) -> None:
    """Where there is nothing to read, the cores are those that the scheduler allows."""
    assert usable_cores(tmp_path / "none", tmp_path / "none") == ALL


def test_affinity_is_respected(tmp_path: Path) -> None:
    """A process that is bound to one core has one."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores(tmp_path / "none", tmp_path / "none") == 1
    finally:
        os.sched_setaffinity(0, before)


def test_this_machine() -> None:
    """The real files can be read."""
    assert 1 <= usable_cores() <= ALL
