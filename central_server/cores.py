"""How many cores this process may really use."""

import math
import os
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")


def usable_cores(root: Path = CGROUP_ROOT, own_groups: Path = Path("/proc/self/cgroup")) -> int:
    """Count the cores that affinity and the control group's quota leave, at least one.

    Reads cgroup v2 (`cpu.max` of the process's group and of every group above it) and v1
    (`cpu.cfs_quota_us`); a quota of one and a half cores counts as two, for a worker that waits
    now and then.
    """
    cores = len(os.sched_getaffinity(0))
    for quota in _quotas(root, own_groups):
        cores = min(cores, math.ceil(quota))
    return max(1, cores)


def _quotas(root: Path, own_groups: Path) -> list[float]:
    quotas: list[float] = []
    for line in _read(own_groups).splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            folder = root / group.lstrip("/")
            for level in (folder, *folder.parents):
                quotas += _quota(*_read(level / "cpu.max").split())
                if level == root:
                    break
        elif "cpu" in controllers.split(","):
            for folder in (root / controllers / group.lstrip("/"), root / "cpu"):
                quotas += _quota(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))
    return quotas


def _quota(limit: str = "", period: str = "") -> list[float]:
    if limit.strip().isdigit() and period.strip().isdigit() and int(period) > 0:
        return [int(limit) / int(period)]
    return []


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
