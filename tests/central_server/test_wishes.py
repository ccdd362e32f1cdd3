"""What stands, who is told, and that neither grows."""

import math

import pytest

from central_server.wish import FrameRate, Masks, Viewing, Wish
from central_server.wishes import Watcher, WishError, Wishes

TRIANGLE = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))


def watcher(gateway: str, *cameras: str) -> Watcher:
    return Watcher(gateway, "0.1.0", frozenset(cameras), "somewhere", lambda: None)


def untold(agent: Watcher) -> list[tuple[str, Wish]]:
    """Take out all that an agent is to be told."""
    return list(iter(agent.next_untold, None))


def test_an_agent_that_comes_is_told_all_that_stands_for_its_cameras() -> None:
    """The latest of each kind, and nothing of others' cameras or of what has ended."""
    wishes = Wishes()
    for wish in (FrameRate(5), FrameRate(2), Viewing(True), Viewing(False), Masks((TRIANGLE,))):
        wishes.wish("shop", "door", wish)
    wishes.wish("shop", "yard", Viewing(True))
    wishes.wish("home", "door", FrameRate(7))
    agent = watcher("shop", "door", "cellar")
    wishes.enter(agent)

    assert untold(agent) == [("door", FrameRate(2)), ("door", Masks((TRIANGLE,)))]
    assert untold(agent) == []


def test_a_change_is_told_at_once_to_whom_it_concerns() -> None:
    """To every agent of the gateway that has the camera, until it leaves."""
    wishes = Wishes()
    woken = []
    shop = Watcher("shop", "1", frozenset(("door",)), "somewhere", lambda: woken.append("shop"))
    others = [watcher("home", "door"), watcher("shop", "yard")]
    for agent in (shop, *others):
        wishes.enter(agent)

    assert wishes.wish("shop", "door", FrameRate(2)) == ("shop", 1)
    assert woken == ["shop"]
    assert untold(shop) == [("door", FrameRate(2))]
    assert [untold(agent) for agent in others] == [[], []]
    assert wishes.wish("shop", "door", FrameRate(0)) == ("shop", 1)
    assert untold(shop) == [("door", FrameRate(0))]
    assert list(wishes.standing()) == []
    for _ in range(2):
        wishes.leave(shop)
    assert wishes.watchers == tuple(others)


def test_an_agent_that_does_not_read_is_told_the_present_state_not_its_history() -> None:
    """Ten thousand changes are three messages."""
    wishes = Wishes()
    agent = watcher("shop", "door")
    wishes.enter(agent)
    for number in range(10_000):
        wishes.wish("shop", "door", FrameRate(1 + number % 50))
        wishes.wish("shop", "door", Viewing(number % 2 == 0))
    wishes.wish("shop", "door", Masks(()))

    assert untold(agent) == [("door", FrameRate(50)), ("door", Viewing(False)), ("door", Masks(()))]


def test_a_gateway_need_not_be_named_where_it_is_plain() -> None:
    """One of those that watch has the camera; none or several are an error that names them."""
    wishes = Wishes()
    wishes.enter(watcher("shop", "door"))
    wishes.enter(watcher("home", "yard", "door"))

    assert wishes.wish(None, "yard", FrameRate(2)) == ("home", 1)
    with pytest.raises(WishError, match="several gateways, name one: 'home', 'shop'"):
        wishes.wish(None, "door", FrameRate(2))
    with pytest.raises(WishError, match="no agent that watches has a camera 'cellar': name its gateway"):
        wishes.wish(None, "cellar", FrameRate(2))
    with pytest.raises(WishError, match="gateway 'shop' has no camera 'dor'; it has 'door'"):
        wishes.wish("shop", "dor", FrameRate(2))


def test_agents_of_a_version_without_gateway_names() -> None:
    """Are all of one gateway without a name."""
    wishes = Wishes()
    old = [watcher("", "door"), watcher("", "door")]
    for agent in old:
        wishes.enter(agent)

    assert wishes.wish(None, "door", Viewing(True)) == ("", 2)
    assert [untold(agent) for agent in old] == [[("door", Viewing(True))]] * 2


def test_only_so_many_stand() -> None:
    """More are refused; what stands can be changed, and ended to make room."""
    wishes = Wishes(max_cameras=2)
    wishes.wish("shop", "door", Viewing(True))
    wishes.wish("shop", "yard", Viewing(True))
    with pytest.raises(WishError, match="wishes for 2 cameras stand already"):
        wishes.wish("shop", "cellar", Viewing(True))
    wishes.wish("shop", "door", FrameRate(2))
    wishes.wish("shop", "yard", Viewing(False))
    wishes.wish("shop", "cellar", Viewing(True))

    assert {camera for _, camera, _ in wishes.standing()} == {"door", "cellar"}


@pytest.mark.parametrize("fps", [math.nan, math.inf, -1, 0.09, 60.1, 1e9])
def test_a_rate_that_is_none(fps: float) -> None:
    """Is refused with what was expected."""
    with pytest.raises(ValueError, match=r"expected 0 or 0\.1 to 60"):
        FrameRate(fps)


@pytest.mark.parametrize(
    "polygons",
    [
        ((),),
        (((0.0, 0.0), (1.0, 1.0)),),
        (((0.0, 0.0), (1.0, math.nan), (1.0, 1.0)),),
        (((0.0, 0.0), (1.0, 1.01), (1.0, 1.0)),),
        (TRIANGLE * 22,),
        (TRIANGLE,) * 33,
    ],
)
def test_masks_that_are_none(polygons: tuple[tuple[tuple[float, float], ...], ...]) -> None:
    """Too few or too many points, too many polygons, points outside of the frame."""
    with pytest.raises(ValueError, match=r"^found "):
        Masks(polygons)
