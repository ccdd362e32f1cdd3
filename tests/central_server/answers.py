"""What an answer says to whoever reads it."""

from camera_ai.detection_pb2 import DetectResponse

from central_server.frame import Answer


def told(answer: Answer) -> DetectResponse:
    """Read the message that goes out; its number and outcome are the answer's own."""
    message = DetectResponse.FromString(answer.message)
    assert (message.frame_id, int(message.outcome)) == (answer.frame_id, int(answer.outcome))
    return message


def objects(answer: Answer) -> list[tuple[str, float, int, int, int, int]]:
    """Give label, confidence, x, y, width and height of each object."""
    return [
        (found.label, found.confidence, found.bbox.x, found.bbox.y, found.bbox.width, found.bbox.height)
        for found in told(answer).objects
    ]
