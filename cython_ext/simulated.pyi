"""Work that is only time; docstrings in full in `simulated.pyx`."""

MAX_MS: int

def spin_cpu(ms: float) -> int:
    """Use `ms` milliseconds of the calling thread's processor time, 0 to 60,000; return the ns used."""

def spin_wall(ms: float) -> int:
    """Be busy until `ms` milliseconds have passed, 0 to 60,000; return the ns passed."""
