"""What became of processes that others have started."""

import psutil


def has_ended(process: psutil.Process) -> bool:
    """Whether it has ended; nobody may have asked yet how."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
