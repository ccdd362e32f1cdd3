"""A plain client for checking, before anything is timed, that servers answer the same."""

from pathlib import Path
from typing import Any

import grpc
from camera_ai import detection_pb2_grpc
from camera_ai.detection_pb2 import OUTCOME_DETECTED, DetectRequest, DetectResponse

from bench.controls.answer import published_answer

ASK_TIMEOUT_S = 30.0
FRAME_ID = 7
MAX_AGE_MS = 60_000


def ask(address: str, image_data: bytes) -> DetectResponse:
    """Send one frame on a connection of its own, and give the answer.

    Raises:
        RuntimeError: there was none, or another one.

    """
    with grpc.insecure_channel(address) as channel:
        stub: Any = detection_pb2_grpc.ObjectDetectionStub(channel)  # type: ignore[no-untyped-call]
        request = DetectRequest(frame_id=FRAME_ID, image_data=image_data, max_age_ms=MAX_AGE_MS)
        call = stub.DetectStream(iter([request]), timeout=ASK_TIMEOUT_S, wait_for_ready=True)
        try:
            answers = list(call)
        except grpc.RpcError as error:
            raise RuntimeError(f"{address}: no answer to frame {FRAME_ID}: {call.code()}") from error
    if len(answers) != 1 or answers[0].frame_id != FRAME_ID:
        raise RuntimeError(f"{address}: found {answers} to frame {FRAME_ID}, expected one answer to it")
    answer: DetectResponse = answers[0]
    return answer


def check_published(address: str, payload_bytes: int = 60_000) -> None:
    """See that a server answers the published object.

    Raises:
        RuntimeError: it answers something else.

    """
    expected = published_answer(FRAME_ID)
    found = ask(address, bytes(payload_bytes))
    if found.outcome != expected.outcome or list(found.objects) != list(expected.objects):
        raise RuntimeError(f"{address}: found the answer {found}, expected {expected}")


def check_detects(address: str, image: Path, label: str) -> int:
    """See that a server with a model finds something with this label in an image; gives how many.

    Raises:
        RuntimeError: it does not.

    """
    answer = ask(address, image.read_bytes())
    count = sum(found.label == label for found in answer.objects)
    if answer.outcome != OUTCOME_DETECTED or not count:
        raise RuntimeError(f"{address}: found {answer} for {image.name}, expected a {label}")
    return count
