"""XML files, read into plain nodes with their line numbers.

A document type declaration is refused, because its entities could expand without end or include other files.
Size, depth and number of elements are limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.input_file import read_text

MAX_BYTES = 20_000_000
MAX_NODES = 500_000
MAX_DEPTH = 100


@dataclass(slots=True)
class XmlNode:
    """An element."""

    tag: str  # its name
    source: Path  # its file
    line: int  # its first line
    attributes: dict[str, str] = field(default_factory=dict)  # by name
    children: list[XmlNode] = field(default_factory=list)  # its elements, in order
    text: str = ""  # its own text, stripped

    def find(self, *path: str) -> XmlNode | None:
        """The first element along a path of names; None if there is none."""
        node: XmlNode | None = self
        for tag in path:
            node = None if node is None else next((c for c in node.children if c.tag == tag), None)
        return node

    def all(self, *tags: str) -> Iterator[XmlNode]:
        """Its children with one of these names."""
        return (child for child in self.children if child.tag in tags)

    def value(self, *path: str) -> str:
        """Text of the element along a path; empty if there is none."""
        node = self.find(*path)
        return "" if node is None else node.text

    @property
    def name(self) -> str:
        """The attribute ``name``."""
        return self.attributes.get("name", "")

    def fault(self, message: str) -> ConfigurationError:
        """An error about the element."""
        return ConfigurationError(str(self.source), [f"line {self.line}: {message}"])


class _RefusedError(Exception):
    """Well-formed XML that is refused."""


class _Builder:
    """Handlers of the parser, which build the nodes."""

    def __init__(self, source: Path) -> None:
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text
        self.parser.StartDoctypeDeclHandler = self.doctype
        self.root: XmlNode | None = None
        self._source = source
        self._open: list[XmlNode] = []
        self._texts: list[list[str]] = []
        self._count = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self._count += 1
        if self._count > MAX_NODES or len(self._open) >= MAX_DEPTH:
            raise _RefusedError(
                f"has more than {MAX_NODES:,} elements, or they are nested deeper than {MAX_DEPTH}"
            )
        node = XmlNode(tag, self._source, self.parser.CurrentLineNumber, attributes)
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.root = node
        self._open.append(node)
        self._texts.append([])

    def end(self, tag: str) -> None:
        """An element ends."""
        del tag
        self._open.pop().text = "".join(self._texts.pop()).strip()

    def text(self, data: str) -> None:
        """Characters in an element."""
        self._texts[-1].append(data)

    def doctype(self, *declaration: object) -> None:
        """A document type declaration."""
        del declaration
        raise _RefusedError("has a document type declaration (<!DOCTYPE>), which is not supported; remove it")


def _without_comments(text: str) -> str:
    """The text with as many lines, but without comments and declaration.

    Gazebo reads comments with `--` in them, and comments before the declaration; XML has neither.
    """
    parts, at = [], 0
    while (first := text.find("<!--", at)) >= 0 and (last := text.find("-->", first + 4)) >= 0:
        parts += [text[at:first], "\n" * text.count("\n", first, last)]
        at = last + 3
    body = "".join([*parts, text[at:]])
    return re.sub(r"\A(\s*)<\?xml\s[^>]*\?>", r"\1", body)


def read_xml(path: Path) -> XmlNode:
    """Root of an XML file in UTF-8.

    Raises:
        ConfigurationError: for a file that cannot be read, is too large, is not XML, or declares a document
            type.
    """
    return parse_xml(read_text(path, MAX_BYTES), path)


def parse_xml(text: str, path: Path) -> XmlNode:
    """Root of a text that is XML; ``path`` names it in messages.

    Raises:
        ConfigurationError: as ``read_xml``.
    """
    builder = _Builder(path)
    try:
        # A text is parsed as UTF-8 whatever its declaration says.
        builder.parser.Parse(_without_comments(text), True)
    except _RefusedError as refused:
        line = builder.parser.CurrentLineNumber
        raise ConfigurationError(str(path), [f"line {line}: {refused}"]) from refused
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise ConfigurationError(str(path), [f"line {error.lineno}: is not XML: {reason}"]) from error
    assert builder.root is not None  # expat refuses a document without a root
    return builder.root
