"""Vehicles as built: drawn deviations of rotors and of the centre of gravity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.airframe_texts import write_based

import sitl_bridge as sb
from sitl_bridge.core.simulation.events import PayloadDrop
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe, Payload, Tolerances
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World


def _airframe(tolerances: Tolerances | None, **changes: object) -> Airframe:
    return load_airframe("iris").model_copy(update={"tolerances": tolerances, **changes})


def _simulation(airframe: Airframe, *, seed: int = 0, names: tuple[str, ...] = ("a",)) -> Simulation:
    setups = [VehicleSetup.from_airframe(airframe, (9.0 * i, 0.0, 0.0), name=n) for i, n in enumerate(names)]
    return Simulation(World(), setups, seed=seed)


def test_deviations_have_the_stated_size() -> None:
    tolerances = Tolerances(thrust=0.03, axis=0.5, centre_of_gravity=(0.016, 0.008, 0.002))
    nominal = _airframe(None).vehicle()
    random = np.random.default_rng(3)
    built = [tolerances.build(nominal, random) for _ in range(2000)]
    rotors = int(nominal["rotor_count"])
    thrusts = np.array([v["thrust_c2"][:rotors] / nominal["thrust_c2"][:rotors] for v, _ in built])
    assert np.std(thrusts) == pytest.approx(0.03, rel=0.05)
    assert np.mean(thrusts) == pytest.approx(1.0, abs=0.002)
    shifts = np.array([shift for _, shift in built])
    np.testing.assert_allclose(np.std(shifts, axis=0), (0.016, 0.008, 0.002), rtol=0.07)
    axes = np.array([v["rotor_axis"][:rotors] for v, _ in built])
    np.testing.assert_allclose(np.linalg.norm(axes, axis=2), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.degrees(np.std(axes[..., :2], axis=(0, 1))), 0.5, rtol=0.05)


def test_thrust_of_each_rotor_deviates_by_its_share() -> None:
    forces = {}
    for tolerances in (None, Tolerances(thrust=0.05)):
        airframe = _airframe(tolerances)
        simulation = _simulation(airframe)
        simulation.armed[:] = 1
        simulation.controls[0, :4] = 0.4
        for _ in range(100):
            simulation.advance_held()
        forces[tolerances is None] = simulation.states[0]["rotor_thrust"][:4].copy()
        deviation = simulation.vehicles[0]["thrust_c2"][:4] / airframe.record["thrust_c2"][:4]
    assert np.ptp(deviation) > 0.01
    np.testing.assert_allclose(forces[False], forces[True] * deviation, rtol=2e-3)


def test_each_vehicle_and_each_seed_has_its_own_and_keeps_it() -> None:
    airframe = _airframe(Tolerances(thrust=0.03, centre_of_gravity=(0.01, 0.01, 0.0)))
    simulation = _simulation(airframe, names=("a", "b"))
    first = simulation.vehicles.copy()
    assert first[0] != first[1]
    np.testing.assert_array_equal(_simulation(airframe, names=("a", "b")).vehicles, first)
    assert _simulation(airframe, seed=1, names=("a", "b")).vehicles[0] != first[0]
    simulation.restart_vehicle(0, 4)
    np.testing.assert_array_equal(simulation.vehicles, first)


def test_parts_keep_their_places_when_the_centre_of_gravity_is_off() -> None:
    nominal, off = (
        _simulation(_airframe(tolerances))
        for tolerances in (None, Tolerances(centre_of_gravity=(0.02, 0.02, 0.01)))
    )
    for array, field, count in (("vehicles", "rotor_position", 4), ("vehicles", "contact_point", 4)):
        apart = getattr(nominal, array)[0][field][:count] - getattr(off, array)[0][field][:count]
        np.testing.assert_allclose(apart, np.broadcast_to(apart[0], apart.shape), atol=1e-12)
    assert np.linalg.norm(apart[0]) > 0.003
    sensors = nominal.sensors[0]["position"] - off.sensors[0]["position"]
    np.testing.assert_allclose(sensors[0], apart[0], atol=1e-12)


def test_a_dropped_payload_leaves_the_vehicle_as_it_was_built() -> None:
    tolerances = Tolerances(thrust=0.03, axis=0.5, centre_of_gravity=(0.02, 0.01, 0.0))
    airframe = _airframe(tolerances, payload=Payload(mass=0.2, position=(0.0, 0.0, 0.1)))
    simulation, empty = _simulation(airframe), _simulation(_airframe(tolerances))
    PayloadDrop().begin(simulation, 0)
    for field in ("thrust_c2", "rotor_axis", "rotor_position", "contact_point", "mass"):
        np.testing.assert_allclose(simulation.vehicles[0][field], empty.vehicles[0][field], atol=1e-12)
    np.testing.assert_allclose(simulation.sensors[0]["position"], empty.sensors[0]["position"], atol=1e-12)


def test_a_rotor_law_of_ones_own_takes_no_tolerance_of_its_thrust(tmp_path: Path) -> None:
    text = 'sources: {tolerances: "a worse one than most"}\ntolerances: {thrust: 0.05}\n'
    with pytest.raises(sb.UserError, match=r"tolerances\.thrust: a rotor model with a table"):
        load_airframe(write_based(tmp_path, text, "iris_blade_element"))


def test_the_built_in_stack_holds_a_vehicle_that_is_not_as_drawn(tmp_path: Path) -> None:
    text = 'sources: {tolerances: "a worse one than most"}\n'
    text += "tolerances: {thrust: 0.05, axis: 1.0, centre_of_gravity: [0.02, 0.02, 0.0]}\n"
    with sb.Sitl(str(write_based(tmp_path, text)), autopilot="builtin", seed=2, runs=tmp_path) as sitl:
        sitl.vehicle.arm()
        sitl.vehicle.take_off(5.0)
        sitl.run(5.0)
        commands = sitl.truth["control"][-250:, :4].mean(axis=0)
        place = sitl.truth["position"][-1]
    assert np.ptp(commands) / commands.mean() > 0.05
    assert np.linalg.norm(place - (0.0, 0.0, -5.0)) < 1.0
