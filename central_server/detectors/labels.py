"""Labels of a model: from a file, or from what the model says of itself."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from central_server.errors import DetectorError, OptionError

# A label list is small; what is not is some other file or a forged model.
MAX_TEXT_BYTES = 1 << 20
MAX_LABELS = 10_000
MAX_LABEL_CHARS = 100
METADATA_KEY = "names"


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels by class id, and where they were found; an empty one is a class without a name."""

    names: tuple[str, ...]
    source: str


def find_labels(model: Path, metadata: Mapping[str, str], labels_file: Path | None) -> Labels:
    """Labels for a model: `labels_file`, else the model's metadata, else ``STEM.labels.txt`` beside it.

    Raises:
        OptionError: `labels_file` is no file.
        DetectorError: there are no labels in any of the three places, or those found cannot be used.

    """
    beside = model.with_suffix(".labels.txt")
    if labels_file is not None:
        if not labels_file.is_file():
            raise OptionError(f"--labels {labels_file}: no such file")
        return Labels(read_labels(labels_file), str(labels_file))
    if METADATA_KEY in metadata:
        return Labels(_parse_names(metadata[METADATA_KEY], model), f"the model's {METADATA_KEY!r}")
    if beside.is_file():
        return Labels(read_labels(beside), str(beside))
    raise DetectorError(
        f"{model}: no labels: found no {METADATA_KEY!r} in the model's metadata and no {beside.name} "
        "beside it, expected --labels FILE with one label a line, the first for class 0"
    )


def read_labels(path: Path) -> tuple[str, ...]:
    """Read labels, one a line, the first for class 0; an empty line is a class without a name.

    Empty lines at the end count for nothing.

    Raises:
        DetectorError: not UTF-8 text, or no plausible list of labels.

    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_TEXT_BYTES + 1)
        if len(text) > MAX_TEXT_BYTES:
            raise DetectorError(f"{path}: found more than {MAX_TEXT_BYTES} bytes, expected one label a line")
        lines = text.decode("utf-8-sig").splitlines()
    except OSError as error:
        raise DetectorError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DetectorError(
            f"{path}: not UTF-8 text, at byte {error.start}; expected one label a line"
        ) from error
    while lines and not lines[-1].strip():
        lines.pop()
    return check_labels((line.strip() for line in lines), str(path))


def _parse_names(text: str, model: Path) -> tuple[str, ...]:
    """Read `names` as Ultralytics writes it: a Python literal, ``{0: 'person', 1: 'bicycle'}`` or a list."""
    where = f"{model}: {METADATA_KEY!r} in its metadata"
    expected = "expected {0: 'person', 1: 'bicycle', ...} with every class id from 0, or a list"
    if len(text) > MAX_TEXT_BYTES:
        raise DetectorError(f"{where}: found {len(text)} characters, expected at most {MAX_TEXT_BYTES}")
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise DetectorError(f"{where}: found {text[:60]!r}, {expected}") from error
    if isinstance(names, dict) and all(type(key) is int for key in names):
        if sorted(names) != list(range(len(names))):
            raise DetectorError(f"{where}: found class ids {_shortened(sorted(names))}, {expected}")
        names = [names[class_id] for class_id in range(len(names))]
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise DetectorError(f"{where}: found {text[:60]!r}, {expected}")
    return check_labels((name.strip() for name in names), where)


def check_labels(names: Iterable[str], where: str) -> tuple[str, ...]:
    """Refuse what is no list of labels: they go to the wire, to logs and to other people's screens.

    Raises:
        DetectorError: too many, too long, none with a name, or not printable.

    """
    labels = tuple(names)
    if not any(labels) or len(labels) > MAX_LABELS:
        raise DetectorError(f"{where}: found {len(labels)} labels, expected 1 to {MAX_LABELS}")
    for class_id, label in enumerate(labels):
        if not isinstance(label, str) or len(label) > MAX_LABEL_CHARS or not label.isprintable():
            raise DetectorError(
                f"{where}: label {class_id}: found {str(label)[:40]!r}, "
                f"expected at most {MAX_LABEL_CHARS} printable characters"
            )
    return labels


def _shortened(values: list[int]) -> str:
    return f"{values[:5]}" if len(values) <= 5 else f"{values[:5]} and {len(values) - 5} more"
