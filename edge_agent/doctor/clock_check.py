"""Whether the gateway's clock can be right: after the release, and kept by the network's time."""

import ctypes
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from edge_agent.clock import RELEASED_NS
from edge_agent.doctor.finding import Finding, note, ok, problem

SUBJECT = "clock"
UNSYNCHRONISED = 0x40
TIME_ERROR = 5
# A struct timex is smaller on every kernel; its status is the fifth word of a C long after modes.
TIMEX_BYTES = 512
SYNC = "sudo timedatectl set-ntp true, or see that the gateway reaches a time server (UDP port 123)"


def check_clock() -> Iterator[Finding]:
    """Look at the clock."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    if time.time_ns() < RELEASED_NS:
        yield problem(
            SUBJECT,
            f"stands at {now}, before this version was made: certificates and records cannot be right",
            f"set it; {SYNC}",
        )
        return
    synchronised = is_synchronised()
    if synchronised is False:
        yield note(SUBJECT, f"{now}; the kernel is not told that it follows the network's time", SYNC)
    else:
        kept = "kept by the network's time" if synchronised else "whether it is kept cannot be told"
        yield ok(SUBJECT, f"{now}; {kept}")


def is_synchronised() -> bool | None:
    """Ask the kernel (adjtimex(2)) whether somebody keeps its clock; None where it does not say."""
    timex = (ctypes.c_long * (TIMEX_BYTES // ctypes.sizeof(ctypes.c_long)))()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError):
        return None
    if state < 0:
        return None
    # modes (int, padded), offset, freq, maxerror, esterror, status (int)
    status = ctypes.c_int.from_buffer(timex, 5 * ctypes.sizeof(ctypes.c_long)).value
    return state != TIME_ERROR and not status & UNSYNCHRONISED
