"""Synchronous gRPC in Python: a pool of threads, of which each connection holds one for its whole life."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
from camera_ai import detection_pb2_grpc
from camera_ai.detection_pb2 import DetectRequest, DetectResponse

from bench.controls.answer import published_answer
from bench.controls.options import ControlOptions, options, parser

# As published: about twenty. A stream beyond them waits until another ends.
THREADS = 20
GRACE_S = 1.0


class Detection(detection_pb2_grpc.ObjectDetectionServicer):
    """Works on one frame of a call after the other, in the call's thread."""

    def __init__(self, told: ControlOptions) -> None:
        self._told = told

    def DetectStream(  # noqa: N802 - generated name
        self,
        request_iterator: Iterator[DetectRequest],
        context: grpc.ServicerContext,  # noqa: ARG002
    ) -> Iterator[DetectResponse]:
        """Answer each frame."""
        for request in request_iterator:
            self._told.work()
            yield published_answer(request.frame_id)


def main() -> None:
    """Serve until SIGTERM; prints `listening HOST:PORT` once ready."""
    told = options(parser("synchronous gRPC in Python").parse_args())
    server = grpc.server(ThreadPoolExecutor(max_workers=THREADS))
    detection_pb2_grpc.add_ObjectDetectionServicer_to_server(Detection(told), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port(told.listen)
    server.start()
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    print(told.listening(port), flush=True)
    ending.wait()
    server.stop(GRACE_S).wait()


if __name__ == "__main__":
    main()
