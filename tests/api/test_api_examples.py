"""The programs of missions/api that fly a Sitl, with the built-in stack and with PX4."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import MISSIONS
from support.programs import load_program


def program(name: str) -> Callable[..., Any]:
    main: Callable[..., Any] = load_program(MISSIONS / "api" / f"{name}.py").main
    return main


def square(flown: dict[str, Any], _place: Path) -> None:
    assert max(program("square_in_wind")(**flown)) < 1.5


def jammed(flown: dict[str, Any], _place: Path) -> None:
    said = " ".join(message.text for message in program("jammed_return")(**flown))
    assert "Failsafe activated" in said
    assert "isarmed by" in said


def step(flown: dict[str, Any], place: Path) -> None:
    response = program("attitude_step")(place / "step.png", **flown)
    assert (place / "step.png").stat().st_size > 5000
    assert np.degrees(response[-100:, 1]).mean() == pytest.approx(15.0, abs=1.5)
    assert np.degrees(response[:, 1]).max() < 20.0


def abreast(flown: dict[str, Any], _place: Path) -> None:
    truth = program("three_abreast")(**flown)
    gaps = np.diff(truth.position[:, :, 1], axis=1)
    assert gaps.min() > 2.0
    assert truth.position[-1, 1, 0] == pytest.approx(18.0, abs=2.0)


def matrix(flown: dict[str, Any], _place: Path) -> None:
    off = program("seeds_and_winds")(**flown)
    assert len(off) == 9
    assert max(off.values()) < 2.0


PROGRAMS = [square, jammed, step, abreast, matrix]


@pytest.mark.parametrize("check", PROGRAMS, ids=lambda check: check.__name__)
def test_a_program_flies_the_built_in_stack(check: Callable[..., None], tmp_path: Path) -> None:
    check({}, tmp_path)


@pytest.mark.px4
@pytest.mark.parametrize("check", PROGRAMS, ids=lambda check: check.__name__)
def test_a_program_flies_px4(check: Callable[..., None], tmp_path: Path) -> None:
    check({"autopilot": "px4", "runs": tmp_path}, tmp_path)


def test_the_notebook_runs_from_its_first_cell_to_its_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = json.loads((MISSIONS / "api" / "first_flights.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    names["verdict"].check()
