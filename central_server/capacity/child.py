"""A process that ends with the one that started it, however that one ends.

`python -m central_server.capacity.child ARGUMENTS` is `central-server ARGUMENTS` as such a child.
"""

import ctypes
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have Linux end this process gently when the thread that started it is gone; elsewhere do nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM))


if __name__ == "__main__":
    end_with_parent()
    runpy.run_module("central_server", run_name="__main__", alter_sys=True)
