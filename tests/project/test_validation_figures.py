"""The page of published figures beside simulated ones is that of this version."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest
from support.paths import ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    found = importlib.util.spec_from_file_location("validation_script", ROOT / "scripts" / "validation.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def figures(script: ModuleType) -> list[Any]:
    found: list[Any] = script.collect()
    return found


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_of_published_figures_is_current(script: ModuleType, figures: list[Any]) -> None:
    page = script.PAGE.read_text(encoding="utf-8").splitlines()
    shown = page[page.index(script.BEGIN) + 2 : page.index(script.END)]
    new = "\n".join([*script.tables(figures), ""]).splitlines()
    assert len(shown) == len(new), "run scripts/validation"
    for old, line in zip(shown, new, strict=True):
        if not line.startswith("| ") or line.startswith("| quantity"):
            assert old == line
            continue
        *was, before = cells(old)
        *now, after = cells(line)
        assert was == now
        unit = 10.0 ** -len(after.partition(".")[2])
        assert abs(float(before) - float(after)) < 1.5 * unit, f"{line}: run scripts/validation"


def test_simulated_figures_are_near_the_published_ones(figures: list[Any]) -> None:
    # Closed forms and tables to two units of the last digit; the others by their own tests' bounds.
    measured = {"A propeller in axial flow": 0.01, "Inertial sensor": 0.06}
    for section, found in figures:
        for figure in found:
            bound = measured.get(section.title, 2.5 * 10.0**-figure.decimals)
            assert abs(figure.difference) < bound, (section.title, figure)
