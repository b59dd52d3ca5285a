"""Many messages of one type at once in CDR, ROS 2's encoding: as rows of a numpy table, without a loop.

Strings and lengths of sequences are the same in all messages of a table, so every field has a fixed place.
CDR (OMG DDS-XTypes, encoding version 1): four bytes of header, then each value aligned to its own size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import resources

import numpy as np
from numpy.typing import DTypeLike

from sitl_bridge.base.arrays import Bytes, Records


def _definitions() -> dict[str, str]:
    text = resources.files("sitl_bridge.analysis.export").joinpath("ros_definitions.txt").read_text("ascii")
    blocks = (block.partition(";") for block in text.replace("\n    ", ";").splitlines())
    return {name: fields.replace(";", "\n") for name, _, fields in blocks}


DEFINITIONS = _definitions()
"""Definition by ``package/Type``, from ros_definitions.txt, without comments.

They are ROS 2 Jazzy's, which Humble reads (Range alone differs, by a field at its end), and actuator_msgs
(github.com/rudislabs/actuator_msgs) of ROS's bridge to Gazebo."""

_FIELD = re.compile(r"([\w/]+(?:<=\d+)?)(\[(\d*)\])? (\w+)( \S+)?")


def fields_of(name: str) -> Iterator[tuple[str, int | None, str]]:
    """Type, number and name of each field; the number is 1 without brackets and None in empty ones."""
    for line in DEFINITIONS[name].splitlines():
        if re.search(r"\w=", line):  # a constant
            continue
        match = _FIELD.fullmatch(line)
        assert match is not None, line
        kind, brackets, count, field, _ = match.groups()
        yield kind, 1 if brackets is None else (int(count) if count else None), field


def schema_text(name: str) -> str:
    """A definition with those of all types in it, as the encoding ``ros2msg`` of MCAP has them."""
    needed, todo = [name], [name]
    while todo:
        for kind, _, _ in fields_of(todo.pop(0)):
            if kind in DEFINITIONS and kind not in needed:
                needed.append(kind)
                todo.append(kind)
    parts = [DEFINITIONS[name], *(f"MSG: {kind}\n{DEFINITIONS[kind]}" for kind in needed[1:])]
    return f"\n{'=' * 80}\n".join(parts) + "\n"


def schema_name(name: str) -> str:
    """``package/msg/Type`` of ``package/Type``; parts of services have their whole name already."""
    package, *middle, kind = name.split("/")
    return "/".join((package, *(middle or ["msg"]), kind))


_BASIC = {
    "bool": "u1",
    "int8": "i1",
    "uint8": "u1",
    "int16": "<i2",
    "uint16": "<u2",
    "int32": "<i4",
    "uint32": "<u4",
    "float32": "<f4",
    "float64": "<f8",
}
HEADER = b"\x00\x01\x00\x00"
"""Little-endian CDR without options."""


class CdrLayout:
    """Places of all fields of a message.

    Args:
        name: ``package/Type``.
        strings: values of its strings by path, for example ``header.frame_id``; others are empty.
        lengths: of its sequences by path, others are empty; elements are ``path.0``, ``path.1`` ...
    """

    def __init__(
        self, name: str, strings: Mapping[str, str], lengths: Mapping[str, int] | None = None
    ) -> None:
        self.name = name
        self._strings, self._lengths = strings, lengths or {}
        self._fields: dict[str, tuple[DTypeLike, int]] = {}
        self._constants: list[tuple[int, bytes]] = [(0, HEADER)]
        self._end = len(HEADER)
        self._add(name, "")
        self.dtype = np.dtype(
            {
                "names": list(self._fields),
                "formats": [kind for kind, _ in self._fields.values()],
                "offsets": [offset for _, offset in self._fields.values()],
                "itemsize": self._end,
            }
        )

    def _align(self, size: int) -> None:
        self._end += -(self._end - len(HEADER)) % size

    def _constant(self, value: bytes) -> None:
        self._constants.append((self._end, value))
        self._end += len(value)

    def _length(self, count: int) -> None:
        self._align(4)
        self._constant(count.to_bytes(4, "little"))

    def _add(self, name: str, path: str) -> None:
        for kind, count, field in fields_of(name):
            place = f"{path}{field}"
            number = count
            if number is None:
                number = self._lengths.get(place, 0)
                self._length(number)
            if kind == "string":
                for k in range(number):
                    text = self._strings.get(place if count == 1 else f"{place}.{k}", "").encode() + b"\0"
                    self._length(len(text))
                    self._constant(text)
            elif kind in DEFINITIONS:
                for k in range(number):
                    self._add(kind, f"{place}." if count == 1 else f"{place}.{k}.")
            elif number > 0:
                base = np.dtype(_BASIC[kind])
                self._align(base.itemsize)
                self._fields[place] = (base if count == 1 else (base, number)), self._end
                self._end += base.itemsize * number

    def messages(self, count: int) -> Records:
        """So many messages, with 0 in all fields but strings and lengths; columns have the fields' paths."""
        table = np.zeros(count, self.dtype)
        data = bytes_of(table)
        for offset, value in self._constants:
            data[:, offset : offset + len(value)] = np.frombuffer(value, np.uint8)
        return table


@lru_cache(256)
def layout_of(
    name: str, strings: tuple[tuple[str, str], ...], lengths: tuple[tuple[str, int], ...]
) -> CdrLayout:
    """The layout of messages, kept for the next ones."""
    return CdrLayout(name, dict(strings), dict(lengths))


def bytes_of(table: Records) -> Bytes:
    """(k, size) the memory of a table of messages."""
    return table.view(np.uint8).reshape(len(table), table.dtype.itemsize)
