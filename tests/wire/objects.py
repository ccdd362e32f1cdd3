"""Objects that came over the wire, and those that two sides do not have in common."""

from collections.abc import Callable

from camera_ai.detection_pb2 import DetectResponse

from tests.wire.oracle import Candidate


def told(answer: DetectResponse) -> list[Candidate]:
    """Give what came over the wire."""
    boxes = [(found, found.bbox) for found in answer.objects]
    return [
        Candidate(found.label, found.confidence, (box.x, box.y, box.x + box.width, box.y + box.height))
        for found, box in boxes
    ]


def without_partner(
    ones: list[Candidate], others: list[Candidate], agree: Callable[[Candidate, Candidate], bool]
) -> list[Candidate]:
    """Give those that nothing on the other side agrees with; a partner is nobody else's."""
    free = list(others)
    alone = []
    for one in ones:
        partner = next((other for other in free if agree(one, other)), None)
        if partner is None:
            alone.append(one)
        else:
            free.remove(partner)
    return alone
