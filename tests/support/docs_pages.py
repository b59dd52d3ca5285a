"""The code in the pages of the documentation: files, programs and command lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.paths import DOCS, ROOT

PAGES = [ROOT / "README.md", *sorted((DOCS).rglob("*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

_FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"^ {4}((?:python missions/api/|pytest docs/examples/).*)$", re.MULTILINE)
_INDENTED = re.compile(
    r"^ {4}(?:[A-Z_]+=\S+ )*(?:PYTHON=\S+ )?(?:\.venv/bin/)?sitl-bridge (.*)$", re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """Fenced code of a page; ``title`` is the name of the file it shows, empty for none."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in _FENCE.findall(page.read_text(encoding="utf-8"))]


def write_files(page: Path, directory: Path) -> list[Path]:
    """Write the files that a page shows below a directory."""
    written = []
    for block in blocks(page):
        if block.title:
            path = directory / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            written.append(path)
    return written


def commands(text: str) -> Iterator[list[str]]:
    """Arguments of each ``sitl-bridge`` line of a console block, without its comment."""
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "sitl-bridge":
            yield words[1:]


def run_commands(page: Path) -> list[list[str]]:
    """Commands that a reader can run at once, in the directory with the page's files."""
    return [command for b in blocks(page) if b.language == "console" for command in commands(b.text)]


def command_lines(page: Path) -> list[str]:
    """Lines of commands and shipped programs that a page gives, without environment and comment."""
    text = page.read_text(encoding="utf-8")
    console = "\n".join(b.text for b in blocks(page) if b.language == "console")
    given = [line for line in console.splitlines() if line.startswith("sitl-bridge ")]
    shown = [f"sitl-bridge {line}" for line in _INDENTED.findall(text)]
    return [re.sub(r"\s+#.*", "", line) for line in [*given, *shown, *_PROGRAM.findall(text)]]


def paths() -> dict[str, list[str]]:
    """Lines of the console in each path of docs/index.md, by the name of its reader."""
    _, _, section = (DOCS / "index.md").read_text(encoding="utf-8").partition("\n## Ten minutes for each\n")
    found = {}
    for part in section.split("\n### ")[1:]:
        name, _, body = part.partition("\n")
        body = _FENCE.sub("", body)
        found[name] = [
            re.sub(r"\s+#.*", "", line) for line in re.findall(r"^ {4}(\S.*)$", body, re.MULTILINE)
        ]
    return found


def shown_commands(page: Path) -> list[list[str]]:
    """Commands that a page shows, with options that have to exist."""
    lines = _INDENTED.findall(page.read_text(encoding="utf-8"))
    return [words for line in lines for words in commands(f"sitl-bridge {line}") if words]
