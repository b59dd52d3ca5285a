"""The page of published figures beside simulated ones is that of this version."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from support.paths import ROOT
from support.programs import load_program

from sitl_bridge.lab.validation.benchmark import BEGIN, END


@pytest.fixture(scope="module")
def script() -> Any:
    return load_program(ROOT / "scripts" / "validation.py")


@pytest.fixture(scope="module")
def figures(script: ModuleType) -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = script.collect()
    return found


def cells(lines: list[str]) -> list[tuple[str, str]]:
    """Published and simulated figure of each cell, and cases whole, beside nothing."""
    found = []
    for line in lines:
        case, *others = line.strip("|").split(" | ")
        found.append((case, ""))
        for cell in others:
            published, _, simulated = cell.strip(" |").partition(", ")
            found.append((published, simulated or published))
    return found


def test_the_page_of_published_figures_is_current(
    script: ModuleType, figures: dict[tuple[str, str], list[Any]]
) -> None:
    page = script.PAGE.read_text(encoding="utf-8").splitlines()
    shown = cells(page[page.index(BEGIN) + 2 : page.index(END)])
    new = cells("\n".join([*script.tables(figures), ""]).splitlines())
    assert [before for before, _ in shown] == [before for before, _ in new], "run scripts/validation"
    compared = 0
    for (before, old), (_, now) in zip(shown, new, strict=True):
        try:
            difference = float(old) - float(now)
        except ValueError:
            assert old == now, "run scripts/validation"
            continue
        assert abs(difference) < 1.5 * 10.0 ** -len(now.partition(".")[2]), (
            f"{before}: run scripts/validation"
        )
        compared += 1
    assert compared == sum(len(of_section) for of_section in figures.values())


def test_simulated_figures_are_near_the_published_ones(figures: dict[tuple[str, str], list[Any]]) -> None:
    # Closed forms and tables to two units of the last digit; the others by their own tests' bounds.
    measured = {"A propeller in axial flow": 0.01, "Inertial sensor": 0.06}
    for (title, _), found in figures.items():
        for figure in found:
            bound = measured.get(title, 2.5 * 10.0**-figure.decimals)
            assert abs(figure.difference) < bound, (title, figure)
