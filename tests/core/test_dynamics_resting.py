"""Vehicles that stand still: their motion is not integrated until something moves them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sitl_bridge.core.dynamics.step import REST_STEPS
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World


def standing(seconds: float = 1.0) -> tuple[Simulation, Any]:
    """An iris on the ground after some time, and its state."""
    iris = load_airframe("iris")
    simulation = Simulation(World(), [VehicleSetup(iris.vehicle(), iris.sensor_records()[:0])])
    simulation.advance(round(seconds / 0.004))
    return simulation, simulation.states[0]


def test_a_standing_vehicle_rests_and_measures_gravity_alone() -> None:
    simulation, state = standing()
    assert state["rest_steps"] >= REST_STEPS
    before, charge = state["position"].copy(), float(state["battery_charge"])
    simulation.advance(1000)
    assert np.array_equal(state["position"], before)
    assert not state["velocity"].any()
    assert not state["angular_velocity"].any()
    gravity = float(simulation.world.environment[0]["gravity"])
    height = -float(state["position"][2])  # gravity falls by 3.086e-6 m/s^2 a metre (free-air gradient)
    assert abs(np.linalg.norm(state["specific_force"]) - gravity + 3.086e-6 * height) < 1e-9
    used = 0.45 * 4.0  # A of avionics over 4 s
    assert abs(charge - float(state["battery_charge"]) - used) < 0.01 * used


def test_motors_forces_and_changes_from_outside_end_the_rest() -> None:
    simulation, state = standing()
    simulation.armed[0] = 1
    simulation.controls[0, :4] = 0.8
    simulation.advance(250)
    assert state["position"][2] < -0.5
    simulation, state = standing()
    state["external_force"] = (8.0, 0.0, -10.0)
    simulation.advance(250)
    assert state["position"][0] > 0.1
    simulation, state = standing()
    state["position"][2] -= 1.0
    simulation.advance(250)
    assert state["impact_speed"] > 3.0


def test_a_vehicle_comes_to_rest_again_after_a_fall() -> None:
    simulation, state = standing()
    height = float(state["position"][2])
    state["position"][2] -= 0.05
    simulation.advance(1500)
    assert state["rest_steps"] >= REST_STEPS
    assert abs(float(state["position"][2]) - height) < 1e-4


def test_a_vehicle_that_changes_at_rest_flies_alike_in_one_call_and_in_many() -> None:
    frame = load_airframe("iris")
    before = frame.vehicle()
    before["motor_dead_time"], before["motor_speed_idle"] = 0.04, 0.0  # it moves within a call
    wider = before.copy()
    wider["rotor_position"] *= 1.2
    wider["rotor_radius"] *= 1.1
    ends = []
    for calls in (1, 30):
        setups = [VehicleSetup(before, frame.sensor_records(), (0.0, 9.0 * i, 0.0)) for i in range(2)]
        simulation = Simulation(World(), setups, seed=1)
        simulation.advance(60)
        assert simulation.states["rest_steps"][0] >= REST_STEPS
        simulation.change_vehicle(0, wider, frame.sensor_records(), np.zeros(3))
        simulation.armed[:] = 1
        simulation.controls[:, :4] = 0.9, 0.8, 0.85, 0.8
        for _ in range(calls):
            simulation.advance(30 // calls)
        ends.append(simulation.states["position"].tobytes() + simulation.states["attitude"].tobytes())
        assert simulation.states["attitude"][0].tobytes() != simulation.states["attitude"][1].tobytes()
    assert ends[0] == ends[1]
