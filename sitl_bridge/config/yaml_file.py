"""YAML files: read safely, and every fault told with its line and its path in the file.

What the fields mean is up to the pydantic models that the data is validated against.
"""

from __future__ import annotations

import difflib
import math
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from sitl_bridge.errors import ConfigurationError

MAX_BYTES = 1_000_000
MAX_NODES = 50_000
"""Nodes after aliases are expanded; the largest airframe here has a few hundred."""
MAX_DEPTH = 50

Model = TypeVar("Model", bound=BaseModel)
FieldPath = tuple[str | int, ...]


class _Reader:
    """Turns a composed YAML tree into plain data and remembers the line of every path."""

    def __init__(self) -> None:
        self.lines: dict[FieldPath, int] = {}
        self.faults: list[str] = []
        self.nodes = 0
        self._constructor = yaml.SafeLoader("")

    def read(self, node: yaml.Node, path: FieldPath) -> Any:
        self.nodes += 1
        line = node.start_mark.line + 1
        if self.nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise _TooLargeError(line)
        self.lines[path] = line
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(child, (*path, i)) for i, child in enumerate(node.value)]
        return self._scalar(node, path, line)

    def _mapping(self, node: yaml.MappingNode, path: FieldPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.faults.append(f"line {line}: {dotted(path)}: a key must be a plain word")
                continue
            key = str(key_node.value)
            if key in data:
                self.faults.append(f"line {line}: {dotted((*path, key))}: given twice")
                continue
            data[key] = self.read(value_node, (*path, key))
        return data

    def _scalar(self, node: yaml.Node, path: FieldPath, line: int) -> Any:
        if node.tag not in yaml.SafeLoader.yaml_constructors:
            self.faults.append(f"line {line}: {dotted(path)}: the tag {node.tag} is not allowed here")
            return None
        try:
            value = self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            self.faults.append(f"line {line}: {dotted(path)}: {str(error).splitlines()[0]}")
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self.faults.append(f"line {line}: {dotted(path)}: {node.value} is not a finite number")
            return None
        return value


class _TooLargeError(Exception):
    """The document has more nodes than any honest one (aliases of aliases)."""


def dotted(path: FieldPath) -> str:
    """``rotors[2].position`` for ("rotors", 2, "position"); ``the file`` for the empty path."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the file"


def load(path: Path) -> tuple[dict[str, Any], dict[FieldPath, int]]:
    """Read a YAML file whose top level is a mapping.

    Args:
        path: the file.

    Returns:
        plain data, and the line of every path in it.

    Raises:
        ConfigurationError: for a file that cannot be read, is too large, is not YAML, has unsafe tags,
            keys given twice, numbers that are not finite, or aliases that expand without end.
    """
    source = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(source, [f"cannot be read: {error.strerror}"]) from error
    if len(raw) > MAX_BYTES:
        raise ConfigurationError(source, [f"has {len(raw)} bytes; at most {MAX_BYTES} are read"])
    reader = _Reader()
    try:
        node = yaml.compose(raw, Loader=yaml.SafeLoader)
        data = None if node is None else reader.read(node, ())
    except _TooLargeError as error:
        message = f"line {error.args[0]}: more than {MAX_NODES} values once aliases are expanded, or too deep"
        raise ConfigurationError(source, [message]) from error
    except yaml.YAMLError as error:
        raise ConfigurationError(source, [_syntax(error)]) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(source, [f"is not a YAML text: {error}"]) from error
    if reader.faults:
        raise ConfigurationError(source, reader.faults)
    if not isinstance(data, dict):
        raise ConfigurationError(source, ["line 1: the top level must be `key: value` pairs"])
    return data, reader.lines


def _syntax(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem or error.context}"
    return str(error).replace("\n", " ")


def validate(model: type[Model], data: dict[str, Any], lines: dict[FieldPath, int], source: str) -> Model:
    """Validate plain data against a model; every fault at once, each with its line.

    Raises:
        ConfigurationError: with one line a fault.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = [_fault(item, data, lines) for item in error.errors()]
        raise ConfigurationError(source, sorted(set(faults), key=_line_of)) from error


def _fault(item: Any, data: dict[str, Any], lines: dict[FieldPath, int]) -> str:
    """One pydantic error as ``line N: path: message``; union tags that pydantic adds to paths are dropped."""
    path: list[str | int] = []
    value: Any = data
    for part in item["loc"]:
        if (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        ):
            value = value[part]
        elif part is item["loc"][-1] and item["type"] == "missing":
            path.append(part)
            break
        else:
            continue
        path.append(part)
    where: FieldPath = tuple(path)
    known = where
    while known not in lines and known:
        known = known[:-1]
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        message = "unknown field" + _suggestion(str(where[-1]) if where else "")
    elif item["type"] == "missing":
        message = "missing"
    return f"line {lines.get(known, 1)}: {dotted(where)}: {message}"


def _suggestion(key: str) -> str:
    close = difflib.get_close_matches(key, _field_names(), n=1)
    return f"; did you mean `{close[0]}`?" if close and close[0] != key else ""


def _field_names() -> set[str]:
    """Names of all fields of all models that files are validated against."""
    names: set[str] = set()
    pending: list[type[BaseModel]] = list(BaseModel.__subclasses__())
    while pending:
        model = pending.pop()
        pending.extend(model.__subclasses__())
        if model.__module__.startswith("sitl_bridge."):
            names.update(model.model_fields)
    return names


def _line_of(fault: str) -> tuple[int, str]:
    return int(fault.split(":", 1)[0].removeprefix("line ")), fault
