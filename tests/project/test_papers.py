"""The experiments of the papers, in their quick form: near the papers' values, or with a reason why not."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.paths import DOCS, ROOT
from support.programs import load_program

PAPERS = DOCS / "papers"
PROGRAMS = sorted((ROOT / "missions" / "papers").glob("*/[fst]*_[0-9]*.py"))
LONG = {
    "airrobot/figure_10",
    "airrobot/figure_11",
    "airrobot/figure_5",
    "hector/figure_4",
    "hector/figure_5",
    "nmpc/figure_10",
    "nmpc/figure_6",
    "nmpc/figure_9",
    "rotors/section_5_2",
    "xtdrone/figure_13",
    "xtdrone/table_3",
}
"""Experiments that take ten seconds and more also in their quick form."""


def key(program: Path) -> str:
    """Paper and figure of a program."""
    return f"{program.parent.name}/{program.stem}"


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    before = list(sys.path)
    yield load_program(ROOT / "scripts" / "papers.py")
    sys.path[:] = before


def quantities(lines: list[str]) -> list[tuple[str, ...]]:
    """Quantity, unit and paper's value of each row of a table."""
    cells = [[cell.strip() for cell in line.split("|")[1:4]] for line in lines if line.startswith("| ")]
    return [tuple(row) for row in cells[1:]]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, id=key(program), marks=[pytest.mark.slow] if key(program) in LONG else [])
        for program in PROGRAMS
    ],
)
def test_an_experiment_of_a_paper_comes_near_its_values(
    script: ModuleType, program: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "picture.png"
    rows: list[Any] = script.reproduce(program, picture, quick=True)
    assert [row.quantity for row in rows if not (row.agrees or row.reason)] == []
    page = (PAPERS / f"{program.parent.name}.md").read_text(encoding="utf-8")
    shown = page.partition(f"<!-- {program.stem}: begin -->")[2].partition(f"<!-- {program.stem}: end -->")[0]
    on_the_page = quantities(shown.splitlines())
    assert set(quantities(list(script.table(rows)))) <= set(on_the_page), "run scripts/papers"
    assert (f"images/{program.parent.name}_{program.stem}.png" in shown) == picture.exists()


def test_the_pages_of_papers_show_what_there_is() -> None:
    images = {path.name for path in (PAPERS / "images").glob("*.png")}
    pages = {path.stem: path.read_text(encoding="utf-8") for path in PAPERS.glob("*.md")}
    shown = {name for text in pages.values() for name in re.findall(r"\(images/([^)]+)\)", text)}
    assert shown == images
    named = {
        f"{paper}/{stem}" for paper, text in pages.items() for stem in re.findall(r"<!-- (\w+): begin", text)
    }
    assert named == {key(program) for program in PROGRAMS}


@pytest.mark.parametrize(
    ("paper", "here", "agrees"),
    [
        ("0.040", 0.0444, True), ("0.040", 0.0446, False), ("0.000", 0.0004, True), ("3", 3.9, False),
        ("> 0.9", 0.91, True), ("> 0.9", 0.89, False), ("< 4", float("nan"), False), ("", 1.0, True),
    ],
)  # fmt: skip
def test_rows_agree_within_a_tenth_and_the_last_digit(
    script: ModuleType, paper: str, here: float, agrees: bool
) -> None:
    assert script.PROGRAMS.is_dir()
    comparison: Any = importlib.import_module("comparison")
    assert comparison.Row("", "", paper, here).agrees == agrees
