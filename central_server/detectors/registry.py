"""Detectors by name, from the entry point group `camera_ai.detectors`."""

import logging
from importlib.metadata import entry_points

import numpy as np

from central_server.detectors.detector import Detector, DetectorFactory, DetectorOptions, Query
from central_server.errors import DetectorError, OptionError, ServerError

log = logging.getLogger(__name__)

GROUP = "camera_ai.detectors"


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
    except Exception as error:
        # Detectors from elsewhere may fail in any way.
        log.debug("--detector %s", name_and_argument, exc_info=error)
        raise DetectorError(f"--detector {name}: {type(error).__name__}: {error}") from error
    for detector in detectors:
        if detector.input_wh is not None:
            _warm_up(detector, detector.input_wh)
    return detectors


def _warm_up(detector: Detector, input_wh: tuple[int, int]) -> None:
    width, height = input_wh
    try:
        detector.detect(np.zeros((height, width, 3), np.uint8), Query())
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise DetectorError(f"--detector {detector.name}: fails on a black image: {reason}") from error
