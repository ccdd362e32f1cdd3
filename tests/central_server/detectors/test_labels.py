"""Where a model's labels come from, and what is refused as labels."""

from pathlib import Path

import pytest

from central_server.detectors.labels import MAX_LABELS, MAX_TEXT_BYTES, find_labels, read_labels
from central_server.errors import DetectorError, OptionError

NAMES = {"names": "{0: 'person', 1: 'car'}"}


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_the_option_goes_before_metadata_and_metadata_before_the_file_beside(tmp_path: Path) -> None:
    """Of three sources the most deliberate one counts, and it is named."""
    model = tmp_path / "street.v2.onnx"
    beside = write(tmp_path / "street.v2.labels.txt", "bus\ntram\n")
    option = write(tmp_path / "mine.txt", "dog\ncat\n")

    from_option = find_labels(model, NAMES, option)
    from_metadata = find_labels(model, NAMES, None)
    from_beside = find_labels(model, {}, None)

    assert (from_option.names, from_option.source) == (("dog", "cat"), str(option))
    assert (from_metadata.names, from_metadata.source) == (("person", "car"), "the model's 'names'")
    assert (from_beside.names, from_beside.source) == (("bus", "tram"), str(beside))


def test_no_labels_anywhere(tmp_path: Path) -> None:
    """A model without labels is refused with the three places that were looked at."""
    with pytest.raises(DetectorError) as refused:
        find_labels(tmp_path / "bare.onnx", {"stride": "32"}, None)

    assert str(refused.value) == (
        f"{tmp_path}/bare.onnx: no labels: found no 'names' in the model's metadata and no bare.labels.txt "
        "beside it, expected --labels FILE with one label a line, the first for class 0"
    )


def test_a_labels_file_that_is_not_there_is_the_options_fault(tmp_path: Path) -> None:
    """--labels with a missing file ends with the exit code of a bad option."""
    with pytest.raises(OptionError, match=r"^--labels .*/gone\.txt: no such file$"):
        find_labels(tmp_path / "m.onnx", NAMES, tmp_path / "gone.txt")


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        ("person\ncar\n", ("person", "car")),
        ("person\r\ncar", ("person", "car")),
        ("\n person \n\ncar\n\n\n", ("", "person", "", "car")),
        ("\ufeffPförtner\nLKW", ("Pförtner", "LKW")),
    ],
    ids=["plain", "windows", "unnamed classes, empty end", "byte order mark"],
)
def test_label_files(tmp_path: Path, content: str, labels: tuple[str, ...]) -> None:
    """One label a line; an empty line is a class without a name, except at the end."""
    assert read_labels(write(tmp_path / "labels.txt", content)) == labels


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "found 0 labels, expected 1 to 10000"),
        (" \n\n", "found 0 labels, expected 1 to 10000"),
        (b"person\n\xff\xfe", "not UTF-8 text, at byte 7; expected one label a line"),
        ("person\na\x1b[2J", "label 1: found 'a\\x1b[2J', expected at most 100 printable characters"),
        ("x" * 101, f"label 0: found {'x' * 40!r}, expected at most 100 printable characters"),
        ("x\n" * (MAX_LABELS + 1), "found 10001 labels, expected 1 to 10000"),
        (b"x" * (MAX_TEXT_BYTES + 1), "found more than 1048576 bytes, expected one label a line"),
    ],
    ids=["empty", "blank", "binary", "control characters", "long label", "too many", "too large"],
)
def test_label_files_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    """What is no list of labels is refused in one line that begins with the file."""
    path = write(tmp_path / "labels.txt", content)

    with pytest.raises(DetectorError) as refused:
        read_labels(path)

    assert str(refused.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    "text",
    [
        "{0: 'person', 1: \"driver's cab\"}",
        "{1: \"driver's cab\", 0: 'person'}",
        "['person', \"driver's cab\"]",
    ],
    ids=["dict", "any order", "list"],
)
def test_names_in_metadata(tmp_path: Path, text: str) -> None:
    """A Python dict by class id, as Ultralytics writes it, or a list."""
    assert find_labels(tmp_path / "m.onnx", {"names": text}, None).names == ("person", "driver's cab")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()",
        "{0: 'person', 2: 'car'}",
        "{'0': 'person'}",
        "{0: 1}",
        "person, car",
        "{0: 'person'",
        "'person'",
        "5",
        "[" * 5000,
        "-" * 100_000 + "1",
        "{**{}}",
        "{False: 'person'}",
        "{0: 'person', [1]: 'car'}",
        "\x00",
        "",
    ],
    ids=lambda text: text[:20] or "empty",
)
def test_names_refused(tmp_path: Path, text: str) -> None:
    """Anything but a plain literal with every class id is refused, and nothing in it is run."""
    with pytest.raises(DetectorError) as refused:
        find_labels(tmp_path / "m.onnx", {"names": text}, None)

    message = str(refused.value)
    assert message.startswith(f"{tmp_path}/m.onnx: 'names' in its metadata: found ")
    assert message.endswith("expected {0: 'person', 1: 'bicycle', ...} with every class id from 0, or a list")
    assert len(message) < 400


def test_names_too_long(tmp_path: Path) -> None:
    """A forged list is refused before it is parsed."""
    with pytest.raises(DetectorError, match=r"found 1048577 characters, expected at most 1048576$"):
        find_labels(tmp_path / "m.onnx", {"names": " " * (MAX_TEXT_BYTES + 1)}, None)
