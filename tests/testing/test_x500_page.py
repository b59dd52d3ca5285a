"""The page on the x500's figures: they follow from its data, and the airframe file has them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from support.docs_pages import write_files
from support.paths import DOCS

from sitl_bridge.core.dynamics.rotor import CoefficientRotor
from sitl_bridge.core.vehicle.airframe_file import load_airframe

PAGE = DOCS / "how-to" / "x500.md"


def test_the_airframe_has_the_figures_that_follow_from_the_parts_and_the_makers_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(PAGE, tmp_path)
    monkeypatch.chdir(tmp_path)
    parts, propulsion = (runpy.run_path(str(tmp_path / f"{name}.py")) for name in ("inertia", "propulsion"))
    page = PAGE.read_text("utf-8")
    for line in capsys.readouterr().out.splitlines():
        assert line in page
    x500 = load_airframe("x500")
    assert x500.mass == pytest.approx(parts["mass"], rel=1e-3)
    assert x500.inertia.matrix() == pytest.approx(parts["inertia"], abs=1e-5)
    assert x500.rotors[0].position[2] == pytest.approx(-0.045 - parts["centre"][2], abs=1e-3)
    rotor, motor = x500.rotor_model, x500.motor
    assert isinstance(rotor, CoefficientRotor)
    assert rotor.thrust_c2 == pytest.approx(propulsion["c2"], rel=1e-3)
    assert rotor.torque_thrust_ratio == pytest.approx(propulsion["ratio"], rel=2e-3)
    assert motor.kind == "first_order"
    assert motor.idle_speed == pytest.approx(propulsion["idle"], rel=1e-3)
    assert motor.speed_range == pytest.approx(propulsion["span"], rel=1e-3)
    assert motor.efficiency == pytest.approx(propulsion["efficiency"], rel=2e-3)
