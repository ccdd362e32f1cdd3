"""Which pictures of an inter-coded stream are trusted."""

from edge_agent.capture.gate import KeyframeGate


def whole(gate: KeyframeGate, pts: int, *, is_keyframe: bool = False) -> bool:
    """Offer an undamaged packet and the picture that it decodes to."""
    wanted = gate.wants(pts, is_keyframe=is_keyframe, is_corrupt=False)
    return wanted and gate.passes(pts, is_corrupt=False)


def test_nothing_passes_before_the_first_keyframe() -> None:
    """Packets before it are not even worth decoding."""
    gate = KeyframeGate()

    assert [whole(gate, n) for n in range(3)] == [False] * 3
    assert [whole(gate, 3, is_keyframe=True), whole(gate, 4)] == [True, True]


def test_damage_closes_until_the_next_keyframe() -> None:
    """A damaged picture, and everything that builds on it, is held back; the next keyframe ends that."""
    gate = KeyframeGate()
    whole(gate, 0, is_keyframe=True)

    assert gate.wants(1, is_keyframe=False, is_corrupt=False)
    assert not gate.passes(1, is_corrupt=True)
    assert gate.was_damaged
    assert not whole(gate, 2)
    assert whole(gate, 3, is_keyframe=True)


def test_a_damaged_packet_closes_too() -> None:
    """Even a damaged keyframe does not open the gate."""
    gate = KeyframeGate()
    whole(gate, 0, is_keyframe=True)

    assert not gate.wants(1, is_keyframe=True, is_corrupt=True)
    assert not whole(gate, 2)


def test_leading_pictures_do_not_close_it() -> None:
    """A damaged picture from before the keyframe that opened the gate is left out, and no more."""
    gate = KeyframeGate()
    whole(gate, 10, is_keyframe=True)

    assert gate.wants(8, is_keyframe=False, is_corrupt=False)
    assert not gate.passes(8, is_corrupt=True)
    assert whole(gate, 11)
