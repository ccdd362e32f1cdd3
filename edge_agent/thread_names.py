"""Names of threads, as the system shows them: before 3.14, Python keeps the names it is given to itself."""

import contextlib
import threading
from pathlib import Path

MOST_BYTES = 15
"""What the system keeps of a name."""


def show_name(thread: threading.Thread | None = None) -> None:
    """Show a thread's name to the system, cut to what it keeps; of one that runs, by default this one."""
    thread = thread or threading.current_thread()
    name = thread.name.encode()[:MOST_BYTES]
    # Only for people who look: a thread that has ended, or a /proc that is read-only, is no harm.
    with contextlib.suppress(OSError):
        Path(f"/proc/self/task/{thread.native_id}/comm").write_bytes(name)
