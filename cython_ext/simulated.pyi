"""Work that is only time; docstrings in full in `simulated.pyx`."""

# Cython adds these to a compiled module.
__pyx_capi__: dict[str, object]
__test__: dict[str, str]

MAX_MS: int

def spin_cpu(ms: float) -> int:
    """Use `ms` milliseconds of the calling thread's processor time, 0 to 60,000; return the ns used."""

def spin_wall(ms: float) -> int:
    """Be busy until `ms` milliseconds have passed, 0 to 60,000; return the ns passed."""
