"""YAML files: read safely; all faults are reported at once, with line and path in the file.

Pydantic models define and check the fields; a model's ``faults_between`` checks several fields together.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from sitl_bridge.base.errors import ConfigurationError, FieldError, UserError, printable, shorten
from sitl_bridge.base.field_paths import FieldPath, field_names, kinds, models_at, suggestion
from sitl_bridge.base.input_file import read_bytes
from sitl_bridge.base.json_data import JsonObject

MAX_BYTES = 300_000
"""The largest shipped airframe has 5 kB."""
MAX_NODES = 20_000
"""Nodes, before and after aliases are expanded; the largest shipped airframe has a few hundred."""
MAX_DEPTH = 50
UNKNOWN = "unknown field"

Model = TypeVar("Model", bound=BaseModel)

_TAG = "tag:yaml.org,2002:"
_NULL, _BOOL, _INT, _FLOAT, _STR = (_TAG + name for name in ("null", "bool", "int", "float", "str"))
_MAP, _SEQ, _MERGE = (_TAG + name for name in ("map", "seq", "merge"))


class _TooLargeError(Exception):
    """The document has too many nodes."""


class _Loader(yaml.SafeLoader):
    """Safe loader with the numbers of YAML 1.2: 1e-3 is a number; 010 and 10:30 are not (not 8 and 630).

    It stops at MAX_NODES and MAX_DEPTH, before a large file takes long or exhausts the interpreter's stack.
    """

    composed = 0
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.composed += 1
        self.depth += 1
        if self.composed > MAX_NODES or self.depth > MAX_DEPTH + 1:
            raise _TooLargeError(self.line + 1)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] in (_NULL, _BOOL, _MERGE)]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_INT, re.compile(r"[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"""(?:[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?
        |[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$""",
        re.VERBOSE,
    ),
    list("-+.0123456789"),
)


@dataclass(frozen=True)
class Fault:
    """An error at a path of a file."""

    line: int
    path: FieldPath
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {format_path(self.path)}: {self.message}"


@dataclass(frozen=True)
class Document:
    """A YAML file as plain data."""

    source: str  # the file, as given by the user
    data: JsonObject  # its mapping, with None in place of every invalid value
    lines: dict[FieldPath, int]  # line of every path
    # of single values: tags, numbers that are not finite, duplicate keys
    faults: tuple[Fault, ...] = field(default=())

    def line(self, path: FieldPath) -> int:
        """Line of a path, or of its nearest parent."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def fault(self, path: FieldPath, message: str) -> str:
        """A fault of a field in words, with its line."""
        return str(Fault(self.line(path), path, message))

    def error(self, path: FieldPath, message: str) -> ConfigurationError:
        """An error about one field."""
        return ConfigurationError(self.source, [self.fault(path, message)])


class _Reader:
    """Converts a composed YAML tree to plain data, with the line of every path."""

    def __init__(self) -> None:
        self.lines: dict[FieldPath, int] = {}
        self.faults: list[Fault] = []
        self.nodes = 0

    def read(self, node: yaml.Node, path: FieldPath) -> object:
        self.nodes += 1
        line = node.start_mark.line + 1
        if self.nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise _TooLargeError(line)
        self.lines[path] = line
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path, line)
        if node.tag not in (_MAP, _SEQ):
            self.faults.append(Fault(line, path, f"the tag {_show(node.tag)} is not allowed here"))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        return [self.read(child, (*path, i)) for i, child in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: FieldPath) -> JsonObject:
        data: JsonObject = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or not _is_text(key_node.value):
                self.faults.append(Fault(line, path, "a key must be a plain word"))
                continue
            key = str(key_node.value)
            if key_node.tag == _MERGE:
                self.faults.append(Fault(line, path, "`<<` is not supported; write the fields out"))
            elif key in data:
                self.faults.append(Fault(line, (*path, key), "given twice"))
            else:
                data[key] = self.read(value_node, (*path, key))
        return data

    def _scalar(self, node: yaml.ScalarNode, path: FieldPath, line: int) -> object:
        text = str(node.value)
        if not _is_text(text):
            message = "contains characters that are not text"
        elif node.tag not in (_NULL, _BOOL, _INT, _FLOAT, _STR):
            message = f"the tag {_show(node.tag)} is not allowed here"
        else:
            try:
                value = _value(node.tag, text)
            except (ValueError, KeyError):
                message = f"{_show(text)} is not a valid {node.tag.removeprefix(_TAG)}"
            else:
                if not isinstance(value, int | float) or _is_finite(value):
                    return value
                message = f"{_show(text)} is not a finite number"
        self.faults.append(Fault(line, path, message))
        return None


def _value(tag: str, text: str) -> object:
    """Value of a scalar."""
    if tag == _NULL:
        return None
    if tag == _BOOL:
        return yaml.SafeLoader.bool_values[text.lower()]
    if tag == _INT:
        return int(text)
    return float(re.sub(r"^([-+]?)\.(?=[A-Za-z])", r"\1", text)) if tag == _FLOAT else text


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the floats
        return False


def _is_text(text: str) -> bool:
    """False for lone surrogates, which YAML's escapes can produce and which cannot be printed."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _show(text: str) -> str:
    """A text of the file, shortened for one line of a message."""
    return shorten(printable(text), 40) or "an empty text"


def format_path(path: FieldPath) -> str:
    """``rotors[2].position`` for ("rotors", 2, "position"); ``the file`` for the empty path."""
    text = ""
    for part in path:
        word = part if isinstance(part, int) else _show(part)
        text += f"[{word}]" if isinstance(part, int) else f".{word}" if text else str(word)
    return text or "the file"


@functools.lru_cache(maxsize=64)
def _compose(raw: bytes) -> yaml.Node | None:
    """The tree of a text, which nobody changes; an airframe's is wanted several times, for its checks."""
    node: yaml.Node | None = yaml.compose(raw, Loader=_Loader)
    return node


def read(path: Path) -> Document:
    """Read a YAML file whose top level is a mapping.

    Args:
        path: the file.

    Raises:
        ConfigurationError: for a file that cannot be read, is too large, is not YAML, or has aliases that
            expand without end.  Faults of single values are in the document.
    """
    source = str(path)
    raw = read_bytes(path, MAX_BYTES)
    reader = _Reader()
    try:
        node = _compose(raw)
        data = None if node is None else reader.read(node, ())
    except _TooLargeError as error:
        message = (
            f"line {error.args[0]}: more than {MAX_NODES} values once aliases are expanded, or nested deeper"
            f" than {MAX_DEPTH}"
        )
        raise ConfigurationError(source, [message]) from error
    except yaml.reader.ReaderError as error:
        text = raw.decode("utf-8" if error.encoding == "unicode" else "latin-1", "replace")
        message = (
            f"line {text.count(chr(10), 0, error.position) + 1}: {error.reason}; save the file as UTF-8 text"
        )
        raise ConfigurationError(source, [message]) from error
    except yaml.YAMLError as error:
        raise ConfigurationError(source, [_syntax(error)]) from error
    except ValueError as error:
        # PyYAML does not wrap all errors: undecodable bytes, escapes beyond Unicode.
        raise ConfigurationError(source, [f"line 1: is not YAML: {error}"]) from error
    if not isinstance(data, dict):
        raise ConfigurationError(source, ["line 1: the top level must be `key: value` pairs"])
    return Document(source, data, reader.lines, tuple(reader.faults))


def load(path: Path) -> tuple[JsonObject, dict[FieldPath, int]]:
    """Plain data of a YAML file, and the line of every path in it.

    Raises:
        ConfigurationError: as ``read``, and for tags, duplicate keys and numbers that are not finite.
    """
    document = read(path)
    if document.faults:
        raise ConfigurationError(document.source, _in_order(document.faults))
    return document.data, document.lines


def _syntax(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: is not YAML: {error.problem or error.context}"
    return "line 1: is not YAML: " + str(error).replace("\n", " ")


def validate(model: type[Model], document: Document) -> Model:
    """Validate a document; reports all faults at once: of its values, of their types, and between fields.

    Types are strict, as in JSON: neither ``yes`` nor ``"1.5"`` is a number.  A model's optional class method
    ``faults_between(data)`` returns paths and messages of faults between several fields; it is also called
    if single fields are invalid, so it must accept any data.

    Raises:
        ConfigurationError: with one line per fault.
    """
    faults = list(document.faults)
    result: Model | None = None
    try:
        result = model.model_validate_json(json.dumps(document.data), strict=True)
    except ValidationError as error:
        # An invalid value is None; its type is not reported as a second fault.  Nor is a list that pydantic
        # calls too short because some of its items are invalid.
        items = error.errors()
        holders = {item["loc"][:k] for item in items for k in range(len(item["loc"]))}
        reported = [item for item in items if item["type"] != "too_short" or item["loc"] not in holders]
        faults = _add(faults, [_fault(model, item, document) for item in reported])
    between = getattr(model, "faults_between", None)
    if between is not None:
        pairs: Iterable[tuple[FieldPath, str]] = between(document.data)
        faults = _add(faults, [Fault(document.line(path), path, message) for path, message in pairs])
    if faults or result is None:
        raise ConfigurationError(document.source, _in_order(faults))
    return result


@contextlib.contextmanager
def place_faults(document: Document) -> Iterator[None]:
    """Give a UserError within the block the document's file, line and path, unless it has a file."""
    try:
        yield
    except ConfigurationError:
        raise
    except FieldError as error:
        raise document.error(error.path, str(error)) from error
    except UserError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        raise ConfigurationError(document.source, lines) from error


def _add(faults: list[Fault], more: list[Fault]) -> list[Fault]:
    """The faults, and those of ``more`` with other paths that are not within an unknown field."""
    known = {fault.path for fault in faults if fault.path}
    unknown = {fault.path for fault in faults if fault.message.startswith(UNKNOWN)}
    return faults + [
        f
        for f in more
        if f.path not in known and unknown.isdisjoint(f.path[: i + 1] for i in range(len(f.path)))
    ]


def _in_order(faults: Iterable[Fault]) -> list[str]:
    return [str(fault) for fault in sorted(set(faults), key=lambda f: (f.line, str(f)))]


def _fault(model: type[BaseModel], item: Any, document: Document) -> Fault:
    """A fault from one of pydantic's errors, without the union tags that pydantic adds to paths."""
    path: list[str | int] = []
    value: Any = document.data
    for part in item["loc"]:
        if (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        ):
            value = value[part]
            path.append(part)
        elif part is item["loc"][-1] and item["type"] == "missing":
            path.append(part)
    where: FieldPath = tuple(path)
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        siblings = field_names(model, document.data, where[:-1])
        message = UNKNOWN + suggestion(str(where[-1]), siblings)
    elif item["type"] == "missing":
        message = "missing"
    elif item["type"] in ("model_type", "dict_type"):
        message = "must be `key: value` pairs"
    elif item["type"] in ("union_tag_not_found", "union_tag_invalid"):
        message = _kind_fault(models_at(model, document.data, where), value)
    return Fault(document.line(where), where, message)


def _kind_fault(models: Iterable[type[BaseModel]], value: object) -> str:
    """Message about the ``kind`` of a mapping, which selects its model."""
    known = sorted({str(kind) for model in models for kind in kinds(model)})
    choice = ", ".join(known)
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if kind is None:
        return f"needs a `kind`, one of {choice}"
    return (
        f"there is no kind {_show(str(kind))}"
        + suggestion(_show(str(kind)), known)
        + f"; give one of {choice}"
    )
