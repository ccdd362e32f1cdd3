"""What is wished of which gateway's cameras, and who is to be told: pure, for one thread.

Wishes are kept in memory and end with the server. The latest of each kind counts, here as on the way to an
agent: an agent that reads slowly is told the present state, not its history, and nothing grows.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from central_server.wish import Wish

# Cameras of which something is wished; more are refused.
MAX_CAMERAS = 10_000

Kind = type[Wish]


class WishError(Exception):
    """A wish that cannot be kept; the text is for the operator."""


@dataclass(eq=False, slots=True)
class Watcher:
    """An agent that listens: who it is, and what it has not been told yet."""

    gateway: str
    agent_version: str
    cameras: frozenset[str]
    peer: str
    wake: Callable[[], None]
    """Called when there is something to tell."""
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    since_s: float = field(default_factory=time.monotonic)
    _untold: dict[tuple[str, Kind], Wish] = field(default_factory=dict)

    def tell(self, camera: str, wish: Wish) -> None:
        """Note what is to be told; it takes the place of an earlier one of its kind."""
        self._untold[camera, type(wish)] = wish
        self.wake()

    def next_untold(self) -> tuple[str, Wish] | None:
        """Take out what is to be told next; None for nothing."""
        for (camera, kind), wish in self._untold.items():
            del self._untold[camera, kind]
            return camera, wish
        return None


class Wishes:
    """The wishes that stand, by gateway and camera, and the agents that watch."""

    def __init__(self, max_cameras: int = MAX_CAMERAS) -> None:
        self._max_cameras = max_cameras
        self._standing: dict[tuple[str, str], dict[Kind, Wish]] = {}
        self._watchers: dict[Watcher, None] = {}

    @property
    def watchers(self) -> tuple[Watcher, ...]:
        """Who watches, in the order of coming."""
        return tuple(self._watchers)

    def enter(self, watcher: Watcher) -> None:
        """Let an agent listen: it is to be told all that stands for its cameras."""
        self._watchers[watcher] = None
        for camera in sorted(watcher.cameras):
            for wish in self._standing.get((watcher.gateway, camera), {}).values():
                watcher.tell(camera, wish)

    def leave(self, watcher: Watcher) -> None:
        """Forget an agent that has gone."""
        self._watchers.pop(watcher, None)

    def standing(self) -> Iterator[tuple[str, str, Wish]]:
        """Give gateway, camera and wish of all that stand."""
        for (gateway, camera), wishes in self._standing.items():
            for wish in wishes.values():
                yield gateway, camera, wish

    def wish(self, gateway: str | None, camera: str, wish: Wish) -> tuple[str, int]:
        """Let a wish stand, or end the one of its kind, and tell it to the agents that watch.

        Args:
            gateway: the gateway's name; None for the only one that watches and has this camera.
            camera: the camera's name on its gateway.
            wish: what is wished.

        Returns:
            The gateway's name, and how many agents are told now.

        Raises:
            WishError: no gateway or several, a camera that the gateway does not have, or too many wishes.

        """
        gateway = self._only_gateway(camera) if gateway is None else gateway
        of_gateway = [watcher for watcher in self._watchers if watcher.gateway == gateway]
        told = [watcher for watcher in of_gateway if camera in watcher.cameras]
        if of_gateway and not told and wish.stands:
            known = _listed(sorted(name for watcher in of_gateway for name in watcher.cameras))
            raise WishError(f"gateway {gateway!r} has no camera {camera!r}; it has {known}")
        self._keep(gateway, camera, wish)
        for watcher in told:
            watcher.tell(camera, wish)
        return gateway, len(told)

    def _only_gateway(self, camera: str) -> str:
        names = sorted({watcher.gateway for watcher in self._watchers if camera in watcher.cameras})
        if not names:
            raise WishError(f"no agent that watches has a camera {camera!r}: name its gateway")
        if len(names) > 1:
            raise WishError(f"camera {camera!r} is on several gateways, name one: {_listed(names)}")
        return names[0]

    def _keep(self, gateway: str, camera: str, wish: Wish) -> None:
        key = gateway, camera
        if not wish.stands:
            wishes = self._standing.get(key, {})
            wishes.pop(type(wish), None)
            if not wishes:
                self._standing.pop(key, None)
            return
        if key not in self._standing and len(self._standing) >= self._max_cameras:
            raise WishError(f"wishes for {self._max_cameras} cameras stand already: end some first")
        self._standing.setdefault(key, {})[type(wish)] = wish


def _listed(names: Iterable[str], most: int = 10) -> str:
    quoted = [repr(name) for name in names]
    return ", ".join(quoted[:most]) + (", …" if len(quoted) > most else "") if quoted else "none"
