"""What capture, stream and configuration say of a camera, made into one status."""

import itertools

from edge_agent.state import CameraState, CameraStatus
from edge_agent.state_machine import CameraStateMachine


def machine() -> tuple[CameraStateMachine, list[str]]:
    told: list[str] = []
    return CameraStateMachine(lambda before, now: told.append(f"{before.state.value} > {now}")), told


def captured(state: CameraState, reason: str = "") -> CameraStatus:
    return CameraStatus.now(state, reason)


def test_each_change_is_told_once_with_what_it_was_before() -> None:
    """The same status again is no change; another reason of the same state is one."""
    camera, told = machine()
    camera.captured(captured(CameraState.CONNECTING, "TCP connect"))
    camera.captured(captured(CameraState.CONNECTING, "TCP connect"))
    camera.captured(captured(CameraState.STREAMING))

    assert told == ["connecting > connecting: TCP connect", "connecting > streaming"]


def test_what_the_server_says_counts_only_while_pictures_come() -> None:
    """A camera that is down is down, whatever the uplink does; the refusal shows again when it is back."""
    camera, told = machine()
    camera.captured(captured(CameraState.STREAMING))
    camera.slow("answers take 3 s")
    camera.refused("over capacity")
    camera.captured(captured(CameraState.STALLED, "no packet for 5 s"))
    camera.refused("over capacity: 2 of 2")
    camera.captured(captured(CameraState.STREAMING))
    camera.refused("")
    camera.slow("")

    assert told[1:] == [
        "streaming > slow: answers take 3 s",
        "slow > refused by the server: over capacity",
        "refused by the server > stalled: no packet for 5 s",
        "stalled > refused by the server: over capacity: 2 of 2",
        "refused by the server > slow: answers take 3 s",
        "slow > streaming",
    ]


def test_a_state_keeps_its_beginning_while_its_reason_changes() -> None:
    """Since when: the instant at which the state began, monotone over all changes."""
    camera, _ = machine()
    camera.captured(captured(CameraState.STREAMING))
    camera.slow("answers take 3 s")
    began_s = camera.status.since_s
    camera.slow("answers take 4 s")

    assert (camera.status.since_s, camera.status.reason) == (began_s, "answers take 4 s")


def test_no_state_begins_before_the_one_before_it() -> None:
    """A camera that streams again after it was slow does so since then, not since its first picture."""
    camera, _ = machine()
    camera.captured(captured(CameraState.STREAMING))
    camera.slow("answers take 3 s")
    slow_since = camera.status
    camera.slow("")

    assert camera.status.state is CameraState.STREAMING
    assert camera.status.since_s >= slow_since.since_s
    assert camera.status.since_unix_s >= slow_since.since_unix_s


def test_in_whatever_order_the_inputs_come_the_status_is_the_same() -> None:
    """The status is a function of the last word of each input."""
    for order in itertools.permutations(range(3)):
        camera, _ = machine()
        for step in order:
            match step:
                case 0:
                    camera.captured(captured(CameraState.STREAMING))
                case 1:
                    camera.refused("no room")
                case 2:
                    camera.slow("late")
        assert (camera.status.state, camera.status.reason) == (CameraState.REFUSED, "no room")
