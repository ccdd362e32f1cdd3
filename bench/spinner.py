"""`python -m bench.spinner SHARE`: uses a share of one core, and disturbs nobody otherwise.

It says `ready`, and begins when a line comes on standard input.
"""

import sys
import time

# Short, so that it disturbs evenly.
PERIOD_S = 0.02


def spin(share: float) -> None:
    """Spin for ever, a part of each period."""
    print("ready", flush=True)
    sys.stdin.readline()
    begun_s, used_before_s = time.monotonic(), time.process_time()
    while True:
        now_s = time.monotonic()
        while time.process_time() - used_before_s < (now_s - begun_s) * share:
            pass
        time.sleep(PERIOD_S)


if __name__ == "__main__":
    spin(float(sys.argv[1]))
