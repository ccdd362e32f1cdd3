"""A load on a server that the bench has started."""

from typing import Any

from bench.programs import Started
from central_server.capacity.load import LoadError, LoadResult, LoadSpec, run_load

# A connection is lost a little before its process has ended.
MOMENT_S = 1.0


def offer(server: Started, cameras: int, **load: Any) -> LoadResult:
    """Run a load on a server, which has to be there after it: one that crashed has no figures.

    Args:
        server: it says its address.
        cameras: how many.
        load: what else a `LoadSpec` takes.

    Raises:
        LoadError: the load could not be run.
        RuntimeError: the server has ended; with the last that it said.

    """
    try:
        result = run_load(LoadSpec(server.said, cameras, **load))
    except LoadError:
        # If there is no server any more, that is the reason.
        server.check(MOMENT_S)
        raise
    server.check(MOMENT_S if result.errors else 0)
    return result
