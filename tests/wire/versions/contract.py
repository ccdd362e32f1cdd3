"""A contract as data: messages of any version, made of its descriptors, and how two versions differ."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)

RELEASED = {
    path.stem: path for path in sorted((Path(__file__).parents[3] / "proto" / "released").glob("*.binpb"))
}


class Contract:
    """The messages of one version, in a pool of their own: the project's have the same names."""

    def __init__(self, files: FileDescriptorSet) -> None:
        self.files = files
        self._pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            self._pool.Add(file)

    @classmethod
    def released(cls, version: str) -> "Contract":
        """Read what was kept of a release."""
        return cls(FileDescriptorSet.FromString(RELEASED[version].read_bytes()))

    def message(self, name: str) -> Any:
        """Give a message's class."""
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(f"camera_ai.{name}"))

    def fill(self, name: str, **fields: Any) -> Any:
        """Make a message of those of the fields that this version knows."""
        kind = self.message(name)
        return kind(**{key: value for key, value in fields.items() if key in kind.DESCRIPTOR.fields_by_name})

    def number(self, enum: str, value: str) -> int:
        """Give an enum value's number."""
        number: int = self._pool.FindEnumTypeByName(f"camera_ai.{enum}").values_by_name[value].number
        return number


def differences(old: FileDescriptorSet, new: FileDescriptorSet) -> list[str]:
    """Tell what somebody who knows the old contract would misunderstand of the new one; empty for nothing."""
    found = []
    messages, enums, services = _messages(new), _enums(new), _services(new)
    for name, message in _messages(old).items():
        found += _of_message(name, message, messages[name]) if name in messages else [f"{name} is gone"]
    for name, enum in _enums(old).items():
        found += _of_enum(name, enum, enums[name]) if name in enums else [f"{name} is gone"]
    for name, service in _services(old).items():
        found += _of_service(name, service, services[name]) if name in services else [f"{name} is gone"]
    return found


def _of_message(name: str, old: DescriptorProto, new: DescriptorProto) -> Iterator[str]:
    numbers = {field.number: field for field in new.field}
    reserved = {number for span in new.reserved_range for number in range(span.start, span.end)}
    for field in old.field:
        now = numbers.get(field.number)
        if now is None:
            if field.number not in reserved or field.name not in new.reserved_name:
                yield f"{name}.{field.name} is gone, and its number and name are not reserved"
        elif (before := _shape(old, field)) != (after := _shape(new, now)):
            yield f"{name}: number {field.number} was {before}, is {after}"
    yield from _moved(name, _named(old.field), _named(new.field))


def _of_enum(name: str, old: EnumDescriptorProto, new: EnumDescriptorProto) -> Iterator[str]:
    values = {value.number: value.name for value in new.value}
    reserved = {number for span in new.reserved_range for number in range(span.start, span.end + 1)}
    for value in old.value:
        now = values.get(value.number)
        if now is None:
            if value.number not in reserved or value.name not in new.reserved_name:
                yield f"{name}.{value.name} is gone, and its number and name are not reserved"
        elif now != value.name:
            yield f"{name}: number {value.number} was {value.name}, is {now}"
    yield from _moved(name, _named(old.value), _named(new.value))


def _of_service(name: str, old: ServiceDescriptorProto, new: ServiceDescriptorProto) -> Iterator[str]:
    methods = {method.name: method for method in new.method}
    for method in old.method:
        now = methods.get(method.name)
        if now is None:
            yield f"{name}/{method.name} is gone"
        elif now != method:
            yield f"{name}/{method.name} takes or gives something else"


def _shape(message: DescriptorProto, field: FieldDescriptorProto) -> tuple[object, ...]:
    kind = FieldDescriptorProto.Type.Name(field.type)
    oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None
    label = FieldDescriptorProto.Label.Name(field.label)
    return (field.name, kind, field.type_name or None, label, oneof)


def _named(items: Iterable[Any]) -> dict[str, int]:
    return {item.name: item.number for item in items}


def _moved(name: str, old: dict[str, int], new: dict[str, int]) -> Iterator[str]:
    for word in old.keys() & new.keys():
        if old[word] != new[word]:
            yield f"{name}.{word} had number {old[word]}, has {new[word]}"


def _messages(files: FileDescriptorSet) -> dict[str, DescriptorProto]:
    def within(scope: str, messages: Iterable[DescriptorProto]) -> Iterator[tuple[str, DescriptorProto]]:
        for message in messages:
            yield f"{scope}.{message.name}", message
            yield from within(f"{scope}.{message.name}", message.nested_type)

    return dict(pair for file in files.file for pair in within(file.package, file.message_type))


def _enums(files: FileDescriptorSet) -> dict[str, EnumDescriptorProto]:
    of_files = {f"{file.package}.{enum.name}": enum for file in files.file for enum in file.enum_type}
    return of_files | {
        f"{name}.{enum.name}": enum
        for name, message in _messages(files).items()
        for enum in message.enum_type
    }


def _services(files: FileDescriptorSet) -> dict[str, ServiceDescriptorProto]:
    return {f"{file.package}.{service.name}": service for file in files.file for service in file.service}
