"""What the central server wishes, as plain frozen values, and which of its wishes stand."""

from collections.abc import Iterable
from dataclasses import dataclass

from edge_agent.config import Polygon


@dataclass(frozen=True, slots=True)
class Drain:
    """The server is going away."""

    reason: str
    grace_ms: int


@dataclass(frozen=True, slots=True)
class FrameRate:
    """Send this camera at so many frames a second; 0 leaves the rate to the gateway."""

    camera: str
    fps: float = 0.0


@dataclass(frozen=True, slots=True)
class Viewing:
    """Someone is watching this camera, or nobody is any more."""

    camera: str
    watched: bool = False


@dataclass(frozen=True, slots=True)
class Masks:
    """The regions to ignore for motion in this camera's pictures, beside the gateway's own; all of them."""

    camera: str
    polygons: tuple[Polygon, ...] = ()


CameraWish = FrameRate | Viewing | Masks
Wish = Drain | CameraWish


def in_words(wish: CameraWish) -> str:
    """Say what is wished."""
    match wish:
        case FrameRate(fps=fps):
            return f"{fps:g} {'frame' if fps == 1 else 'frames'} a second" if fps else "no rate of its own"
        case Viewing(watched=watched):
            return "all frames, for someone is watching" if watched else "nobody is watching"
        case Masks(polygons=polygons):
            return f"{len(polygons)} regions to ignore"


class StandingWishes:
    """The wishes for cameras that hold at present: at most one of each kind for each camera.

    A server tells a new call all that stands, so that what a call has not heard soon after its beginning has
    ended. A rate and masks hold meanwhile, however long no server is there: nothing is sent without one, and
    what moves is recorded by the same masks. Nobody watches without a server.
    """

    def __init__(self) -> None:
        self._standing: dict[tuple[str, type[CameraWish]], CameraWish] = {}
        self._confirmed: set[tuple[str, type[CameraWish]]] = set()

    def of(self, camera: str) -> tuple[CameraWish, ...]:
        """Give what stands for a camera."""
        return tuple(wish for wish in self._standing.values() if wish.camera == camera)

    def begin(self) -> None:
        """Note that a new call begins: nothing is confirmed by it yet."""
        self._confirmed.clear()

    def take(self, wish: CameraWish) -> bool:
        """Let a wish stand in the place of the earlier one of its kind; False when nothing changes by it."""
        key = (wish.camera, type(wish))
        neutral = type(wish)(wish.camera)
        before = self._standing.get(key, neutral)
        if wish == neutral:
            self._standing.pop(key, None)
            self._confirmed.discard(key)
        else:
            self._standing[key] = wish
            self._confirmed.add(key)
        return wish != before

    def end_unconfirmed(self) -> list[CameraWish]:
        """End what the present call has not told; gives the wishes that say so."""
        return self._end(key for key in self._standing if key not in self._confirmed)

    def end_viewing(self) -> list[CameraWish]:
        """End what makes no sense without a server; gives the wishes that say so."""
        return self._end(key for key in self._standing if key[1] is Viewing)

    def keep_only(self, cameras: Iterable[str]) -> None:
        """Forget cameras that are no more."""
        kept = set(cameras)
        self._end(key for key in self._standing if key[0] not in kept)

    def _end(self, keys: Iterable[tuple[str, type[CameraWish]]]) -> list[CameraWish]:
        ended = list(keys)
        for key in ended:
            del self._standing[key]
            self._confirmed.discard(key)
        return [kind(camera) for camera, kind in ended]
