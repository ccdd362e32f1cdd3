"""The present contract changes nothing of a released one."""

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from tests.wire.versions.contract import RELEASED, differences
from tools import keep_contract

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def present() -> FileDescriptorSet:
    """Compile the contract as it is."""
    return FileDescriptorSet.FromString(keep_contract.compiled())


@pytest.mark.parametrize("version", RELEASED)
def test_numbers_names_and_types_stay(version: str, present: FileDescriptorSet) -> None:
    """For ever; what is no longer used is reserved."""
    released = FileDescriptorSet.FromString(RELEASED[version].read_bytes())

    assert differences(released, present) == []


def test_the_first_release_is_kept() -> None:
    """And each file is named after a version that is not to come."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    parts = [tuple(map(int, released.split("."))) for released in RELEASED]

    assert "0.1.0" in RELEASED
    assert max(parts) <= tuple(map(int, version.split(".")))


def test_a_released_contract_is_never_written_over(present: FileDescriptorSet) -> None:
    """The command refuses where the version has another contract already, and says what to do."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    before = {path: path.read_bytes() for path in RELEASED.values()}
    if before.get(RELEASED.get(version, Path())) == present.SerializeToString():
        pytest.skip("the present contract is the released one")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "keep_contract.py"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert f"{version} is released with another contract: raise the version" in done.stderr
    assert {path: path.read_bytes() for path in RELEASED.values()} == before


Change = Callable[[FileDescriptorProto], object]


def _request(file: FileDescriptorProto) -> FieldDescriptorProto:
    return next(message for message in file.message_type if message.name == "DetectRequest").field[0]


def _change_type(file: FileDescriptorProto) -> None:
    _request(file).type = FieldDescriptorProto.TYPE_STRING


def _rename(file: FileDescriptorProto) -> None:
    _request(file).name = "frame_number"


def _renumber(file: FileDescriptorProto) -> None:
    _request(file).number = 99


def _repeat(file: FileDescriptorProto) -> None:
    _request(file).label = FieldDescriptorProto.LABEL_REPEATED


def _remove(file: FileDescriptorProto) -> None:
    next(message for message in file.message_type if message.name == "DetectRequest").field.pop()


def _into_a_oneof(file: FileDescriptorProto) -> None:
    message = next(message for message in file.message_type if message.name == "BoundingBox")
    message.oneof_decl.add(name="where")
    message.field[0].oneof_index = 0


def _rename_value(file: FileDescriptorProto) -> None:
    file.enum_type[0].value[1].name = "IMAGE_FORMAT_JPG"


def _remove_value(file: FileDescriptorProto) -> None:
    file.enum_type[0].value.pop()


def _stream_less(file: FileDescriptorProto) -> None:
    file.service[0].method[0].client_streaming = False


def _remove_method(file: FileDescriptorProto) -> None:
    file.service[0].method.pop()


def _remove_message(file: FileDescriptorProto) -> None:
    file.message_type.pop()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_change_type, "number 1 was ('frame_id', 'TYPE_UINT64'"),
        (_rename, "is ('frame_number'"),
        (_renumber, "frame_id had number 1, has 99"),
        (_repeat, "LABEL_REPEATED"),
        (_remove, "sent_ms is gone, and its number and name are not reserved"),
        (_into_a_oneof, "'where')"),
        (_rename_value, "number 1 was IMAGE_FORMAT_JPEG, is IMAGE_FORMAT_JPG"),
        (_remove_value, "IMAGE_FORMAT_GRAY8 is gone"),
        (_stream_less, "DetectStream takes or gives something else"),
        (_remove_method, "ObjectDetection/DetectStream is gone"),
        (_remove_message, "BoundingBox is gone"),
    ],
)
def test_what_would_be_misunderstood_is_found(present: FileDescriptorSet, change: Change, told: str) -> None:
    """Each kind of change that is none that may be made."""
    changed = FileDescriptorSet.FromString(present.SerializeToString())
    change(next(file for file in changed.file if file.name.endswith("detection.proto")))

    assert any(told in difference for difference in differences(present, changed))


def test_what_may_be_added_and_taken_away(present: FileDescriptorSet) -> None:
    """New fields, values, messages and methods; a field whose number and name are reserved."""
    changed = FileDescriptorSet.FromString(present.SerializeToString())
    file = next(file for file in changed.file if file.name.endswith("detection.proto"))
    file.message_type.add(name="New")
    file.service[0].method.add(name="Also", input_type=".camera_ai.New", output_type=".camera_ai.New")
    file.enum_type[0].value.add(name="IMAGE_FORMAT_NEW", number=99)
    request = next(message for message in file.message_type if message.name == "DetectRequest")
    gone = request.field.pop()
    request.reserved_name.append(gone.name)
    request.reserved_range.add(start=gone.number, end=gone.number + 1)
    request.field.add(name="new", number=99, type=FieldDescriptorProto.TYPE_BOOL)

    assert differences(present, changed) == []
