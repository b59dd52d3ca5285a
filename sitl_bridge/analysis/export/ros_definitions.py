"""Definitions of the messages that recordings are exported as, without comments.

They are ROS 2 Jazzy's, which Humble reads (Range alone differs, by a field at its end), and actuator_msgs
(github.com/rudislabs/actuator_msgs) of ROS's bridge to Gazebo.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources


def _definitions() -> dict[str, str]:
    text = resources.files("sitl_bridge.analysis.export").joinpath("ros_definitions.txt").read_text("ascii")
    blocks = (block.partition(";") for block in text.replace("\n    ", ";").splitlines())
    return {name: fields.replace(";", "\n") for name, _, fields in blocks}


DEFINITIONS = _definitions()
"""Definition by ``package/Type``, from ros_definitions.txt."""

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
