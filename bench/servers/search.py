"""The search for a capacity: the most cameras that a server holds, by runs that may differ."""

from collections import defaultdict

# Of so many runs that many have to hold.
RUNS = 3
NEEDED = 2


class Search:
    """Asks for one run after the other, and knows the capacity when enough of them have been told.

    A level holds when `needed` of `runs` runs do; what is decided sooner is not run again. The search
    begins between `low`, which is thought to hold, and `high`, which is thought not to; it believes
    neither before it has judged it in this search, and moves on in steps that double where it was
    mistaken. So it ends with two judged neighbours: `capacity` holds, and one more does not.
    """

    def __init__(self, low: int, high: int, *, runs: int = RUNS, needed: int = NEEDED) -> None:
        if not 0 <= low < high:
            raise ValueError(f"found a search between {low} and {high}, expected 0 <= low < high")
        self._low, self._high = low, high
        self._runs, self._needed = runs, needed
        self._step_up = self._step_down = 1
        self._told: defaultdict[int, list[bool]] = defaultdict(list)

    @property
    def next_level(self) -> int | None:
        """The level to be run next; None when the capacity is known."""
        if self._high - self._low > 1:
            return (self._low + self._high) // 2
        if self.holds(self._low) is None:
            return self._low
        if self.holds(self._high) is None:
            return self._high
        return None

    @property
    def capacity(self) -> int:
        """The highest level that holds."""
        if self.next_level is not None:
            raise ValueError("the search has not ended")
        return self._low

    def holds(self, level: int) -> bool | None:
        """Judge a level by its runs; None as long as they do not decide it. No cameras always hold."""
        told = self._told[level]
        if level == 0 or sum(told) >= self._needed:
            return True
        if len(told) - sum(told) > self._runs - self._needed:
            return False
        return None

    def tell(self, level: int, held: bool) -> None:
        """Tell what became of a run."""
        self._told[level].append(held)
        verdict = self.holds(level)
        if verdict is True:
            self._low = level
            if self._high <= level:
                self._high = level + self._step_up
                self._step_up *= 2
        elif verdict is False:
            self._high = level
            if self._low >= level:
                self._low = max(0, level - self._step_down)
                self._step_down *= 2


def bracket(levels: dict[int, bool]) -> tuple[int, int]:
    """Take from single runs where a search may begin: below the first level that does not hold.

    Args:
        levels: cameras, and whether a run with so many held.

    Returns:
        The highest level that holds below it (0 without any), and that level (beyond all, one more).

    """
    ascending = sorted(levels)
    fails = next((level for level in ascending if not levels[level]), max(ascending, default=0) + 1)
    return max((level for level in ascending if level < fails), default=0), fails
