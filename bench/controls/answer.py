"""The one answer of the published servers."""

from camera_ai.detection_pb2 import OUTCOME_DETECTED, BoundingBox, DetectResponse, Object


def published_answer(frame_id: int) -> DetectResponse:
    """Give the one fixed object, as an answer to a frame."""
    person = Object(label="person", confidence=0.9, bbox=BoundingBox(x=100, y=100, width=50, height=200))
    return DetectResponse(frame_id=frame_id, objects=[person], outcome=OUTCOME_DETECTED)
