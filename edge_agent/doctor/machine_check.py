"""Whether the gateway itself has room: disk, memory, processor time, and whether it is too hot."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from edge_agent.config import GatewayConfig
from edge_agent.doctor.finding import Finding, note, ok, problem

SUBJECT = "gateway"
CGROUP = Path("/sys/fs/cgroup")
SPARE_DISK_MB = 50
LEAST_INODES_SHARE = 0.02
LEAST_MEMORY_MB = 64
LOOK_S = 1.0
BUSY_SHARE = 0.9
HOT_C = 80.0


def check_disk(state: Path, gateway: GatewayConfig) -> Iterator[Finding]:
    """Tell whether the records that may have to wait would fit."""
    place = next(path for path in (state, *state.parents) if path.exists())
    found = os.statvfs(place)
    free_mb = found.f_bavail * found.f_frsize / 1e6
    wanted_mb = gateway.spool_mb + SPARE_DISK_MB
    if found.f_flag & os.ST_RDONLY:
        yield problem(SUBJECT, f"{place}: mounted read-only", f"sudo mount -o remount,rw {_mount_of(place)}")
    elif free_mb < wanted_mb:
        yield problem(
            SUBJECT,
            f"{place}: {free_mb:.0f} MB free, expected {wanted_mb} MB: {gateway.spool_mb} MB are for records",
            "make room (sudo journalctl --vacuum-size=50M), or edge-agent set-gateway --spool-mb less",
        )
    else:
        yield ok(SUBJECT, f"{place}: {free_mb:.0f} MB free")
    # Some file systems count no inodes.
    if found.f_files and found.f_favail < LEAST_INODES_SHARE * found.f_files:
        yield problem(
            SUBJECT, f"{place}: {found.f_favail} inodes free", "remove small files: no new one fits"
        )


def check_memory() -> Iterator[Finding]:
    """Tell how much memory is left, in the container's own bounds where there are any."""
    available_mb = _meminfo_mb("MemAvailable")
    limit, used = _number(CGROUP / "memory.max"), _number(CGROUP / "memory.current")
    if limit is not None and used is not None:
        reclaimable = _stat(CGROUP / "memory.stat").get("inactive_file", 0)
        available_mb = min(available_mb, (limit - used + reclaimable) / 1e6)
    if available_mb < LEAST_MEMORY_MB:
        yield problem(
            SUBJECT, f"{available_mb:.0f} MB of memory left", "fewer or smaller cameras; see what else runs"
        )
    else:
        yield ok(SUBJECT, f"{available_mb:.0f} MB of memory left")


def check_processor() -> Iterator[Finding]:
    """Tell how busy the cores are that this machine has, over a second."""
    cores = len(os.sched_getaffinity(0))
    busy = _busy_share(LOOK_S)
    quota = _quota_cores()
    bound = f", of which this group may use {quota:g}" if quota is not None and quota < cores else ""
    if busy > BUSY_SHARE:
        yield note(
            SUBJECT,
            f"processor {busy:.0%} busy ({cores} cores{bound}): frames may be late",
            "edge-agent set-camera NAME --fps less, --max-width less or --decode keyframes",
        )
    else:
        yield ok(SUBJECT, f"processor {busy:.0%} busy ({cores} cores{bound})")


def check_heat() -> Iterator[Finding]:
    """Tell whether the machine slows itself down for heat, where it says so."""
    temperatures = []
    for zone in Path("/sys/class/thermal").glob("thermal_zone*/temp"):
        millidegrees = _number(zone)
        if millidegrees is not None and 0 < millidegrees < 150_000:
            temperatures.append(millidegrees / 1e3)
    if not temperatures:
        return
    if max(temperatures) >= HOT_C:
        yield note(SUBJECT, f"{max(temperatures):.0f} °C: it may slow itself down", "let more air to it")
    else:
        yield ok(SUBJECT, f"{max(temperatures):.0f} °C")
    for cpu in Path("/sys/devices/system/cpu").glob("cpu0/cpufreq"):
        allowed, most = _number(cpu / "scaling_max_freq"), _number(cpu / "cpuinfo_max_freq")
        if allowed and most and allowed < 0.9 * most:
            yield note(SUBJECT, f"its cores are held at {allowed / 1e6:.1f} of {most / 1e6:.1f} GHz")


def _busy_share(span_s: float) -> float:
    before = _ticks()
    time.sleep(span_s)
    idle, total = (after - then for after, then in zip(_ticks(), before, strict=True))
    return 1.0 - idle / total if total > 0 else 0.0


def _ticks() -> tuple[int, int]:
    """Give the idle and all ticks of the cores that this process may use, since the machine began."""
    own = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    idle = total = 0
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        name, *fields = line.split()
        if name in own:
            figures = [int(field) for field in fields[:8]]
            idle += figures[3] + figures[4]
            total += sum(figures)
    return idle, total


def _quota_cores() -> float | None:
    try:
        quota, period = (CGROUP / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return int(quota) / int(period) if quota.isdecimal() else None


def _meminfo_mb(key: str) -> float:
    return _stat(Path("/proc/meminfo")).get(key, 0) * 1024 / 1e6


def _stat(path: Path) -> dict[str, int]:
    """Read lines of a word and a number."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    pairs = (line.replace(":", " ").split() for line in lines)
    return {words[0]: int(words[1]) for words in pairs if len(words) >= 2 and words[1].isdecimal()}


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _mount_of(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.is_mount())
