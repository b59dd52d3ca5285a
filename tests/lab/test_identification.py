"""Identification recovers known parameters from the simulator's own noisy flights, within what it states."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.synthetic_flight import fly_synthetic

from sitl_bridge.analysis.replay.vehicle_log import Series
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.lab.identification.airframe_identification import (
    Identification,
    identify_airframe,
    with_fixed,
    write_identified,
)
from sitl_bridge.lab.identification.estimates import Estimate
from sitl_bridge.lab.identification.fitted_parameters import DELAY, GROUPS, PARAMETERS
from sitl_bridge.lab.identification.flight_windows import measured_speeds

FACTORS = {
    "inertia.xx": 0.8,
    "inertia.yy": 1.15,
    "inertia.zz": 0.9,
    "rotor_model.thrust_c2": 1.15,
    "rotor_model.drag": 1.25,
    "motor.time_constant_up": 1.3,
    "motor.time_constant_down": 1.2,
}
WIND = (3.0, -5.2)
"""m/s north and east: 6 m/s."""
IRIS = load_airframe("iris")


def other_airframe(factors: dict[str, float]) -> Airframe:
    frame = IRIS
    for parameter in PARAMETERS:
        value = parameter.value(frame)
        if parameter.path in factors and value is not None:
            frame = parameter.apply(frame, factors[parameter.path] * value)
    return frame


@cache
def identified() -> Identification:
    log = fly_synthetic(other_airframe(FACTORS), 26.0, wind=WIND)
    return identify_airframe([log], IRIS, fit=("inertia", "thrust", "drag", "lag", "wind"), window=0.5)


def by_path(found: Identification) -> dict[str, Estimate]:
    return {estimate.parameter.path: estimate for estimate in found.estimates}


def test_known_parameters_are_found_within_their_stated_deviations() -> None:
    found = identified()
    assert found.settled
    estimates = by_path(found)
    assert set(estimates) == set(FACTORS)
    for path, factor in FACTORS.items():
        estimate = estimates[path]
        error = estimate.value - factor * estimate.before
        assert abs(error) < 4.0 * estimate.deviation, estimate
        assert abs(error) < 0.02 * factor * estimate.before, estimate
        assert estimate.relative < 0.02


@pytest.mark.slow
def test_several_flights_give_delay_lag_and_each_rotors_thrust() -> None:
    """Commands act 30 ms after they were logged, rotors differ, each flight has a moment of its own."""
    factors = {"inertia.xx": 0.8, "motor.time_constant_up": 1.3, "motor.time_constant_down": 1.2}
    frame, thrusts = other_airframe(factors), (1.1, 1.05, 0.95, 1.12)
    for i, factor in enumerate(thrusts):
        (rotor,) = (p for p in PARAMETERS if p.path == f"rotors[{i}].model.thrust_c2")
        frame = rotor.apply(frame, factor * 5.84e-6)
    logs = []
    for seed, moment in ((1, 0.02), (2, -0.015)):
        log = fly_synthetic(frame, 12.0, seed=seed, moment=(moment, -moment, 0.0), emptying=0.05)
        logs.append(replace(log, commands=Series(log.commands.time - 0.03, log.commands.values)))
    found = identify_airframe(logs, IRIS, fit=("inertia", "motors", "lag", "delay"), window=0.5)
    estimates = by_path(found)
    assert "rotor_model.thrust_c2" not in estimates
    true = {f"rotors[{i}].model.thrust_c2": factor * 5.84e-6 for i, factor in enumerate(thrusts)}
    true |= {path: factor * estimates[path].before for path, factor in factors.items()}
    true["delay"] = 0.03
    for path, value in true.items():
        estimate = estimates[path]
        print(f"{path}: {estimate.value:.5g} +- {estimate.deviation:.2g}, true {value:.5g}")
    for path, value in true.items():
        # Steps of 4 ms, with one voltage a window, leave a thousandth beside the deviation.
        assert abs(estimates[path].value - value) < 4.0 * estimates[path].deviation + 1e-3 * value, path
        assert estimates[path].deviation < 0.01 * value
    np.testing.assert_allclose(found.moment[:, 0], (0.02, -0.015), atol=0.005)


def test_measured_rotor_speeds_take_the_place_of_the_motors() -> None:
    """The thrust is found without the motors' curve, lag and voltage, which the fitted airframe has wrong."""
    changed = other_airframe({"rotor_model.thrust_c2": 1.15, "inertia.xx": 0.8})
    motor = IRIS.motor.model_copy(update={"time_constant_up": 0.1, "time_constant_down": 0.01})
    wrong = IRIS.model_copy(update={"motor": motor})
    wrong.__dict__.pop("record", None)
    log = fly_synthetic(changed, 12.0, controllers=True)
    assert log.speeds is not None
    found = identify_airframe([log], wrong, fit=("inertia", "thrust", "lag"), window=0.5)
    estimates = by_path(found)
    assert not any(path.startswith("motor.") for path in estimates)
    assert estimates["rotor_model.thrust_c2"].value == pytest.approx(1.15 * 5.84e-6, rel=0.01)
    assert estimates["inertia.xx"].value == pytest.approx(0.8 * IRIS.inertia.xx, rel=0.02)
    seldom = replace(log, speeds=Series(log.speeds.time[::50], log.speeds.values[::50]))
    assert measured_speeds(seldom) is None


def test_the_wind_is_found_along_the_flight() -> None:
    (wind,) = identified().wind
    np.testing.assert_allclose(wind.mean, WIND, atol=0.1)
    assert (np.abs(wind.mean - WIND) < 4.0 * wind.mean_deviation).all()
    assert (np.abs(wind.velocity - WIND) < 0.5).all()


def test_the_fitted_airframe_predicts_the_held_out_part_better() -> None:
    found = identified()
    for before, after in zip(found.before, found.after, strict=True):
        assert after.long < 0.5 * before.long
        assert after.short < 1.05 * before.short


def test_the_fitted_airframe_is_written_with_sources_and_loads(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert write_identified(path, "iris", identified(), ["flight.ulg"]) == []
    frame = load_airframe(path)
    assert "fitted to flight.ulg" in frame.source("inertia.xx")
    assert frame.mass == IRIS.mass
    for path_, estimate in by_path(identified()).items():
        parameter = next(p for p in PARAMETERS if p.path == path_)
        assert parameter.value(frame) == pytest.approx(estimate.value, rel=1e-4)
    text = path.read_text()
    assert "base: iris" in text
    assert "sensors" not in text


def test_a_fit_that_makes_no_valid_airframe_is_not_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("base: iris\n")
    found = replace(identified(), airframe=IRIS.model_copy(update={"mass": -1.0}))
    with pytest.raises(UserError, match="not written") as refusal:
        write_identified(path, "iris", found, ["flight.ulg"])
    assert "unchecked" not in str(refusal.value)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["base: iris\n"]


@pytest.mark.slow
def test_mass_is_found_where_the_thrust_is_known() -> None:
    log = fly_synthetic(other_airframe({"mass": 1.2}), 18.0)
    found = identify_airframe([log], IRIS, fit=("mass",), window=0.5)
    assert found.estimates[0].value == pytest.approx(1.2 * IRIS.mass, rel=0.01)
    assert not any("mass is held" in line for line in found.advice)


@pytest.mark.slow
def test_mass_and_thrust_together_are_reported_as_tied() -> None:
    log = fly_synthetic(IRIS, 18.0)
    found = identify_airframe([log], IRIS, fit=("mass", "thrust", "inertia", "drag"), window=0.5)
    assert any(line.startswith("mass and rotor_model.thrust_c2") and "weigh" in line for line in found.advice)


@pytest.mark.slow
def test_a_hover_does_not_show_inertia_and_drag() -> None:
    log = fly_synthetic(IRIS, 18.0, excited=False)
    found = identify_airframe([log], IRIS, fit=("inertia", "thrust", "drag", "wind"), window=0.5)
    estimates = by_path(found)
    assert estimates["rotor_model.thrust_c2"].value == pytest.approx(5.84e-6, rel=0.01)
    unknown = [line for line in found.advice if "does not show it" in line]
    assert any(line.startswith("rotor_model.drag") and "square" in line for line in unknown)
    assert any(line.startswith("inertia.xx") and "roll doublets" in line for line in unknown)


@pytest.mark.slow
def test_seldom_logged_commands_leave_rotation_as_measured() -> None:
    log = fly_synthetic(other_airframe({"rotor_model.drag": 1.25}), 26.0, wind=WIND, every=10)
    log = replace(log, commands=Series(log.commands.time - 0.06, log.commands.values))  # acts 60 ms late
    found = identify_airframe([log], IRIS, fit=("inertia", "thrust", "drag", "lag", "delay", "wind"))
    assert not found.turning
    estimates = by_path(found)
    assert set(estimates) == {"rotor_model.thrust_c2", "rotor_model.drag", "delay"}
    assert estimates["delay"].value == pytest.approx(0.06, abs=0.01)
    assert estimates["rotor_model.drag"].value == pytest.approx(1.25 * 1.75e-4, rel=0.1)
    assert any("SDLOG_PROFILE" in line for line in found.advice)


def test_known_values_are_held() -> None:
    log = fly_synthetic(IRIS, 8.0)
    found = identify_airframe(
        [log], IRIS, fit=("inertia",), fix={"mass": 1.6, "inertia.xx": 0.031}, window=0.5
    )
    assert found.airframe.mass == 1.6
    assert found.airframe.inertia.xx == 0.031
    assert {estimate.parameter.path for estimate in found.estimates} == {"inertia.yy", "inertia.zz"}


@pytest.mark.parametrize(
    ("fit", "fix", "message"),
    [
        (("weight",), {}, "--fit weight: no such group; there are mass, inertia"),
        (("mass",), {"weight": 1.0}, "--fix weight: no such parameter"),
        (("mass",), {"mass": 1.0}, "nothing is left"),
        (("inertia",), {"mass": -1.0}, "--fix mass=-1: needs a value above 0 kg"),
    ],
)
def test_a_wrong_choice_is_refused(fit: tuple[str, ...], fix: dict[str, float], message: str) -> None:
    log = fly_synthetic(IRIS, 4.0)
    with pytest.raises(UserError, match=message):
        identify_airframe([log], IRIS, fit=fit, fix=fix, window=0.1)


def test_a_short_flight_is_refused() -> None:
    log = fly_synthetic(IRIS, 3.0)
    with pytest.raises(UserError, match="fly longer"):
        identify_airframe([log], IRIS, fit=GROUPS)


def test_a_figure_that_the_airframe_lacks_is_refused() -> None:
    with pytest.raises(UserError, match="has no such figure"):
        with_fixed(load_airframe("hector"), {"motor.time_constant_up": 0.02})


@pytest.mark.parametrize("name", ["iris", "hummingbird", "ar100b", "x500", "hector", "firefly"])
def test_every_parameter_changes_what_it_names(name: str) -> None:
    frame = load_airframe(name).separate_payload()
    for parameter in PARAMETERS:
        value = parameter.value(frame)
        if value is not None and parameter is not DELAY:
            changed = parameter.apply(frame, 1.5 * value + 0.1 * parameter.natural)
            assert parameter.value(changed) == pytest.approx(1.5 * value + 0.1 * parameter.natural)
            assert changed.vehicle().tobytes() != frame.vehicle().tobytes(), parameter.path
