"""What a frame costs a worker, stage by stage, in processor time of the thread that does it."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from central_server.detectors.detector import Detector, Query
from central_server.detectors.ssd import Ssd
from central_server.detectors.yolo import Yolo
from central_server.engine import NO_PIXELS
from central_server.frame import Detections, EncodedImage
from central_server.image import ImageLimits, decode

# Milliseconds of processor time a frame, by stage, in the order of the work.
StagesMs = dict[str, float]

LIMITS = ImageLimits()
QUERY = Query()


class Staged(Protocol):
    """A detector whose work can be told apart: image to tensor, model, boxes."""

    def prepare(self, image: NDArray[np.uint8]) -> tuple[NDArray[np.float32], Any]:
        """Give the model's input, and what leads boxes back to the image."""
        ...

    def run_model(self, tensor: NDArray[np.float32]) -> Any:
        """Infer."""
        ...

    def find_boxes(self, output: Any, placement: Any, query: Query) -> Detections:
        """Read the model's output."""
        ...


class Stopwatch:
    """Adds up the calling thread's processor time by stage."""

    def __init__(self) -> None:
        self.ns: Counter[str] = Counter()
        self.frames = 0
        self._last_ns = 0

    def start(self) -> None:
        """Begin a frame."""
        self.frames += 1
        self._last_ns = time.thread_time_ns()

    def note(self, stage: str) -> None:
        """Count what was used since the last note to this stage."""
        now_ns = time.thread_time_ns()
        self.ns[stage] += now_ns - self._last_ns
        self._last_ns = now_ns


def measure_stages(detectors: Sequence[Detector], images: Sequence[bytes], length_s: float) -> StagesMs:
    """Let each detector work on the images in a thread of its own, all at once, as the server's workers do.

    Args:
        detectors: one for each thread; built-in models are split into their stages.
        images: encoded, in turn.
        length_s: how long, but each detector sees every image at least once.

    Returns:
        Milliseconds of processor time a frame: ``decode``, ``resize``, ``inference``, ``boxes`` in the order
        of the work; instead of the last three ``detect`` where the detector has no stages; no ``decode``
        where it looks at no pixels.

    Raises:
        Exception: what a detector raised.

    """
    watches = [Stopwatch() for _ in detectors]
    failures: list[BaseException] = []
    stopping = threading.Event()

    def work(detector: Detector, watch: Stopwatch) -> None:
        step = _step(detector)
        until_s = time.monotonic() + length_s
        try:
            while not stopping.is_set() and (watch.frames < len(images) or time.monotonic() < until_s):
                step(images[watch.frames % len(images)], watch)
        except BaseException as error:  # noqa: BLE001 - raised again where somebody waits
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=pair, daemon=True) for pair in zip(detectors, watches, strict=True)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stopping.set()
    if failures:
        raise failures[0]
    frames = sum(watch.frames for watch in watches)
    used_ns = sum((watch.ns for watch in watches), Counter())
    return {stage: used_ns[stage] / frames / 1e6 for stage in watches[0].ns}


def _step(detector: Detector) -> Callable[[bytes, Stopwatch], None]:
    """Give what is done for a frame."""
    if isinstance(detector, Ssd | Yolo):
        staged: Staged = detector
        return lambda data, watch: _in_stages(staged, data, watch)
    return lambda data, watch: _in_one(detector, data, watch)


def _in_stages(detector: Staged, data: bytes, watch: Stopwatch) -> None:
    watch.start()
    pixels = decode(EncodedImage(data), LIMITS)
    watch.note("decode")
    tensor, placement = detector.prepare(pixels)
    watch.note("resize")
    output = detector.run_model(tensor)
    watch.note("inference")
    detector.find_boxes(output, placement, QUERY)
    watch.note("boxes")


def _in_one(detector: Detector, data: bytes, watch: Stopwatch) -> None:
    watch.start()
    pixels: NDArray[np.uint8] = NO_PIXELS
    if detector.input_wh is not None:
        pixels = decode(EncodedImage(data), LIMITS)
        watch.note("decode")
    detector.detect(pixels, QUERY)
    watch.note("detect")
