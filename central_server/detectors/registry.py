"""Detectors by name, from the entry point group `camera_ai.detectors`."""

import logging
from importlib.metadata import entry_points

import numpy as np

from central_server.detectors.detector import Detector, DetectorFactory, DetectorOptions, Query
from central_server.detectors.labels import check_labels
from central_server.errors import DetectorError, OptionError, ServerError

log = logging.getLogger(__name__)

GROUP = "camera_ai.detectors"
MAX_INPUT_PX = 16_384


def known_names() -> list[str]:
    """Names of all installed detectors, sorted."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def load(name_and_argument: str, options: DetectorOptions, count: int) -> list[Detector]:
    """Make `count` detectors, one for each worker, and let each look at one black image.

    The first run of a model takes several times as long as the later ones, and it is better that a
    model that cannot run says so now than with the first camera.

    Args:
        name_and_argument: ``NAME`` or ``NAME:ARGUMENT``, as ``--detector`` takes it.
        options: passed on to the detector.
        count: how many.

    Raises:
        OptionError: no detector has that name.
        DetectorError: it does not load, or does not run.
        ServerError: what else the detector says is wrong with its argument or options.

    """
    name, _, argument = name_and_argument.partition(":")
    points = [point for point in entry_points(group=GROUP) if point.name == name]
    if not points:
        raise OptionError(
            f"--detector {name_and_argument}: found no {name!r}, expected one of {', '.join(known_names())}"
        )
    try:
        factory: DetectorFactory = points[0].load()
        detectors = [factory(argument, options) for _ in range(count)]
    except ServerError:
        raise
    except (Exception, SystemExit) as error:
        # Detectors from elsewhere may fail in any way.
        log.debug("--detector %s", name_and_argument, exc_info=error)
        raise DetectorError(f"--detector {name}: {type(error).__name__}: {error}") from error
    for detector in detectors:
        _check(detector, f"--detector {name}")
        _warm_up(detector)
    return detectors


def _check(detector: Detector, where: str) -> None:
    """Refuse what would fail with the first camera only."""
    try:
        detector_name, labels, input_wh = detector.name, detector.labels, detector.input_wh
    except AttributeError as error:
        raise DetectorError(f"{where}: {error}") from error
    if not isinstance(detector_name, str) or not isinstance(labels, tuple):
        raise DetectorError(
            f"{where}: found name {detector_name!r:.40} and labels {labels!r:.40}, expected a str and a tuple"
        )
    check_labels(labels, f"{where}: labels")
    sides = input_wh if isinstance(input_wh, tuple) else ()
    if input_wh is not None and not (
        len(sides) == 2 and all(isinstance(side, int) and 0 < side <= MAX_INPUT_PX for side in sides)
    ):
        raise DetectorError(
            f"{where}: found input_wh {input_wh!r:.40}, expected None or (width, height) up to {MAX_INPUT_PX}"
        )


def _warm_up(detector: Detector) -> None:
    if detector.input_wh is None:
        return
    width, height = detector.input_wh
    try:
        detector.detect(np.zeros((height, width, 3), np.uint8), Query())
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DetectorError(f"--detector {detector.name}: fails on a black image: {reason}") from error
