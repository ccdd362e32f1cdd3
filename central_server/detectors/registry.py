"""Detectors by name, from the entry point group `camera_ai.detectors`."""

from importlib.metadata import entry_points

from central_server.detectors.detector import Detector, DetectorFactory, DetectorOptions
from central_server.errors import DetectorError, OptionError

GROUP = "camera_ai.detectors"


def known_names() -> list[str]:
    """Names of all installed detectors, sorted."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def load(name_and_argument: str, options: DetectorOptions, count: int) -> list[Detector]:
    """Make `count` detectors, one for each worker.

    Args:
        name_and_argument: ``NAME`` or ``NAME:ARGUMENT``, as ``--detector`` takes it.
        options: passed on to the detector.
        count: how many.

    Raises:
        OptionError: no detector has that name.
        DetectorError: it does not load.

    """
    name, _, argument = name_and_argument.partition(":")
    points = [point for point in entry_points(group=GROUP) if point.name == name]
    if not points:
        raise OptionError(
            f"--detector {name_and_argument}: found no {name!r}, expected one of {', '.join(known_names())}"
        )
    try:
        factory: DetectorFactory = points[0].load()
    except ImportError as error:
        raise DetectorError(f"--detector {name}: cannot be imported: {error}") from error
    return [factory(argument, options) for _ in range(count)]
