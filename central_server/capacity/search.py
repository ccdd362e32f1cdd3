"""Which number of cameras to try next, and what the runs so far say."""

from collections.abc import Mapping, Sequence

# Of each number of cameras: did it hold, run by run.
Runs = Mapping[int, Sequence[bool]]

# Two runs of three decide.
VOTES = 2
# Among very many cameras the last one does not matter: two in a hundred do.
RESOLUTION = 50


def next_cameras(runs: Runs, most: int) -> int | None:
    """Say how many cameras to try next; None when the answer is certain.

    The number is doubled until one does not hold, then the gap between the largest that held and the
    smallest above it that did not is halved. Both ends of what is left are repeated until two runs of each
    agree; if that overturns an end, the search goes on from there, so that one hiccup of the machine neither
    makes nor spoils the answer.

    Args:
        runs: what was tried so far.
        most: no more than these are tried.

    """
    for cameras, held in runs.items():
        if 2 * sum(held) == len(held) > 0:
            return cameras
    low = largest_held(runs)
    high = smallest_not_held(runs)
    if high is None and low < most:
        return min(max(1, 2 * low), most)
    if high is not None and high - low > max(1, low // RESOLUTION):
        return (low + high) // 2
    for end, verdict in ((low, True), (high, False)):
        if end and runs[end].count(verdict) < VOTES:
            return end
    return None


def largest_held(runs: Runs) -> int:
    """Give the largest number of cameras that held in most of its runs, 0 for none."""
    return max((cameras for cameras, held in runs.items() if 2 * sum(held) > len(held)), default=0)


def smallest_not_held(runs: Runs) -> int | None:
    """Give the smallest number above `largest_held` that did not hold in most of its runs."""
    low = largest_held(runs)
    failed = (cameras for cameras, held in runs.items() if cameras > low and 2 * sum(held) < len(held))
    return min(failed, default=None)


def is_confirmed(runs: Runs, cameras: int) -> bool:
    """Whether two runs of a number of cameras held."""
    return cameras in runs and sum(runs[cameras]) >= VOTES
