"""Reproduces figures and tables of papers, and writes the papers' values beside those of this version.

`scripts/papers` does all, `scripts/papers hector` one paper, `scripts/papers hector 4` its figure 4 and
table 4.  The programs are missions/papers/PAPER/figure_*.py, table_*.py and section_*.py; each has its place
between two markers in docs/papers/PAPER.md.  Run it through scripts/papers; it needs no PX4.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS, PAGES = ROOT / "missions" / "papers", ROOT / "docs" / "papers"
sys.path.insert(0, str(PROGRAMS))


def programs(paper: str = "*", number: str = "*") -> list[Path]:
    """Programs of the figures, tables and sections, in the order of their names' numbers."""
    found = [
        path
        for kind in ("figure", "table", "section")
        for path in PROGRAMS.glob(f"{paper}/{kind}_{number}.py")
    ]
    return sorted(found, key=lambda path: (path.parent.name, path.stem.partition("_")[2].zfill(3), path.stem))


def reproduce(program: Path, picture: Path, *, quick: bool) -> list[Any]:
    """Run a program; returns its rows."""
    module = importlib.import_module(f"{program.parent.name}.{program.stem}")
    rows: list[Any] = module.reproduce(picture, quick)
    return rows


def table(rows: list[Any]) -> Iterator[str]:
    """Lines of the table of a program."""
    yield "| quantity | unit | paper | here | difference |"
    yield "|---|---|---|---|---|"
    for row in rows:
        yield f"| {row.quantity} | {row.unit} | {row.paper or '–'} | {row.shown} | {row.difference} |"


def write_lines(page: str, program: Path, picture: str, rows: list[Any]) -> str:
    """A page with new lines between the markers of a program."""
    begin, end = (f"<!-- {program.stem}: {mark} -->" for mark in ("begin", "end"))
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        sys.exit(f"docs/papers/{program.parent.name}.md: the markers {begin} and {end} are missing")
    name = program.stem.replace("_", " ", 1).replace("_", ".").capitalize()
    shown = [f"![{name}]({picture})", ""] if picture else []
    return "\n".join([before + begin, "", *shown, *table(rows), "", end]) + after


def main() -> None:
    """Reproduce, and write the pages."""
    parser = argparse.ArgumentParser(prog="scripts/papers", description=__doc__)
    parser.add_argument("paper", nargs="?", default="*", help="name of a directory in missions/papers")
    parser.add_argument("number", nargs="?", default="*", help="of a figure, table or section: 4, or 3_6")
    parser.add_argument("--quick", action="store_true", help="shorter; print the tables and write no page")
    options = parser.parse_args()
    chosen = programs(options.paper, options.number)
    if not chosen:
        parser.error("there is no such program in missions/papers")
    wrong = []
    for program in chosen:
        paper, begun = program.parent.name, time.monotonic()
        name = f"{paper}_{program.stem}.png"
        folder = ROOT / "build" / "papers" if options.quick else PAGES / "images"
        folder.mkdir(parents=True, exist_ok=True)
        picture = folder / name
        rows = reproduce(program, picture, quick=options.quick)
        print(f"{paper} {program.stem}, {time.monotonic() - begun:.0f} s", *table(rows), "", sep="\n")
        wrong += [f"{paper} {program.stem}: {row.quantity}" for row in rows if not (row.agrees or row.reason)]
        if not options.quick:
            page = PAGES / f"{paper}.md"
            shown = f"images/{name}" if picture.exists() else ""
            page.write_text(write_lines(page.read_text("utf-8"), program, shown, rows), "utf-8")
    if wrong:
        sys.exit("different from the paper, and no reason is given: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
