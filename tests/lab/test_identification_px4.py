"""An airframe that differs from its prior is identified from a noisy flight of real PX4 in wind."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from support.paths import MISSIONS
from support.px4_flights import fly

from sitl_bridge.cli.identify import DEFAULT
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.lab.flights.flight_source import read_identification_flight
from sitl_bridge.lab.identification.airframe_identification import identify_airframe, write_identified

pytestmark = pytest.mark.px4
WIND, ORIGIN = 6.0, 240.0
"""m/s, and deg where it comes from."""
TRUTH = """
base: iris
name: truth
description: iris with figures that its file does not have
sources:
  mass: "derived: 12 % above the file's"
  inertia: "derived: 20 % below, 15 % above and 11 % below the file's"
  rotor_model: "derived: 15 % and 26 % above the file's"
  motor: "derived: 28 % and 20 % above the file's"
mass: 1.736
inertia: {xx: 0.0240, yy: 0.0340, zz: 0.0500}
rotor_model: {thrust_c2: 6.7e-6, drag: 2.2e-4}
motor: {time_constant_up: 0.016, time_constant_down: 0.03}
px4:
  parameters: {SDLOG_PROFILE: 147}
"""


@pytest.mark.timeout(2400)
def test_parameters_within_five_percent_and_the_wind_are_found(tmp_path: Path) -> None:
    file = tmp_path / "truth.yaml"
    file.write_text(TRUTH)
    truth, prior = load_airframe(file), load_airframe("iris")
    world = WorldSpecification(wind=WindSpecification(steady=SteadyWind(speed=WIND, direction=ORIGIN)))
    mission = MISSIONS / "identification.py"
    outcome, record, _ = fly(mission, tmp_path, str(file), world=world, seed=5, time_limit=400.0)
    assert outcome.succeeded, outcome.reason

    log = read_identification_flight(record.path, 4)
    assert log.commands.rate > 200.0
    found = identify_airframe([log], prior, fit=DEFAULT.split(","), fix={"mass": truth.mass})
    for estimate in found.estimates:
        true = estimate.parameter.value(truth)
        assert true is not None
        print(f"{estimate.parameter.path}: {estimate.value:.5g} +- {estimate.deviation:.2g}, true {true:.5g}")
    for estimate in found.estimates:
        assert estimate.value == pytest.approx(estimate.parameter.value(truth), rel=0.05)
    (wind,) = found.wind
    north, east = wind.mean
    print(f"wind {north:.2f}, {east:.2f} +- {wind.mean_deviation}")
    assert math.hypot(north, east) == pytest.approx(WIND, abs=0.5)
    assert abs((math.degrees(math.atan2(-east, -north)) - ORIGIN + 180.0) % 360.0 - 180.0) < 10.0
    for before, after in zip(found.before, found.after, strict=True):
        print(f"{before.name}: {before.short:.4g} {before.long:.4g} -> {after.short:.4g} {after.long:.4g}")
        assert after.long < 0.7 * before.long

    fitted = tmp_path / "fitted.yaml"
    write_identified(fitted, "iris", found, [record.path.name])
    outcome, _, _ = fly(MISSIONS / "hover.py", tmp_path / "again", str(fitted))
    assert outcome.succeeded, outcome.reason
    np.testing.assert_allclose(load_airframe(fitted).mass, truth.mass, rtol=1e-4)
