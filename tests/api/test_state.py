"""A simulation set to a measured state, supplied with a measured voltage, held and pushed."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sitl_bridge as sb

HUMMINGBIRD = sb.Airframe.load("hummingbird")


def simulation(count: int = 1, airframe: sb.Airframe = HUMMINGBIRD) -> sb.Simulation:
    return sb.Simulation([airframe] * count, sensors=False)


def test_a_vehicle_starts_from_any_state_with_its_rotors_turning_and_their_flow_settled() -> None:
    flying = simulation(2)
    hover = flying.hover_controls
    attitude = (math.cos(0.1), 0.0, math.sin(0.1), 0.0)
    state = {
        "position": np.array([(0.0, 0.0, -50.0), (1.0, 2.0, -60.0)]),
        "velocity": np.array([(4.0, 1.0, -1.0)] * 2),
        "attitude": np.array([attitude] * 2),
        "angular_velocity": np.array([(0.1, 0.2, 0.3)] * 2),
    }
    flying.supply(11.1)  # the voltage of a pack follows the commands of the step before
    flying.set_state(**state)
    flying.step(hover, 500, hold=True)
    for name, value in state.items():
        np.testing.assert_allclose(getattr(flying, name), value)
    other = simulation(2)
    other.supply(11.1)
    other.set_state(**state, rotor_speed=flying.rotor_speed[:, :4])
    # The flow of the held vehicle has settled in the course of time, to the motion within its steps, that of
    # the other at once, to the motion at their begin: a thousandth apart.
    for one in (flying, other):
        one.step(hover)
    np.testing.assert_allclose(other.velocity, flying.velocity, atol=2e-5)
    np.testing.assert_allclose(other.angular_velocity, flying.angular_velocity, atol=2e-5)


def test_a_masked_state_leaves_the_others_alone() -> None:
    flying = simulation(2)
    standing = flying.position[1]
    flying.set_state([True, False], position=(0.0, 0.0, -20.0))
    assert flying.position[0, 2] == -20.0
    np.testing.assert_array_equal(flying.position[1], standing)
    assert flying.on_ground.tolist() == [False, True]


def test_rotors_turn_with_the_supplied_voltage_and_the_part_that_does_not_depend_on_it() -> None:
    brushed = HUMMINGBIRD.changed(motor={"speed_offset": 100.0, "speed_range": 500.0, "idle_speed": 0.0})
    flying = simulation(3, brushed)
    flying.set_state(position=(0.0, 0.0, -50.0))
    flying.supply([11.4, 5.7, 8.55])
    flying.step(0.5, 500, hold=True)
    np.testing.assert_allclose(flying.rotor_speed[:, 0], 100.0 + 250.0 * np.array([1.0, 0.5, 0.75]))
    flying.step(0.0, 500, hold=True)
    np.testing.assert_allclose(flying.rotor_speed, 0.0, atol=1e-6)


def test_a_measured_voltage_follows_the_simulated_current_where_a_current_is_given() -> None:
    flying = simulation(2)
    flying.set_state(position=(0.0, 0.0, -50.0))
    flying.supply(11.0, [0.0, 30.0])
    flying.step(0.6, 199, hold=True)
    with flying.record() as last:
        flying.step(0.6, hold=True)
    voltage, current = last["battery_voltage"], last["battery_current"]
    np.testing.assert_allclose(voltage, 11.0 + 0.02 * (np.array([0.0, 30.0]) - current), rtol=1e-3)


def test_a_push_accelerates_by_force_over_mass_and_moment_over_inertia() -> None:
    flying = simulation(2)
    flying.set_state(position=(0.0, 0.0, -50.0), velocity=(0.0, 0.0, 0.0))
    flying.push([(0.0, 0.0, 0.0), (0.716, 0.0, 0.0)], [(0.0, 0.0, 0.0), (0.0, 0.0, 0.0130404)])
    flying.step(0.0)
    difference = flying.velocity[1] - flying.velocity[0]
    np.testing.assert_allclose(difference, (0.004, 0.0, 0.0), atol=1e-6)
    np.testing.assert_allclose(flying.angular_velocity[1], (0.0, 0.0, 0.004), atol=1e-6)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"position": (1.0, 2.0)}, r"set_state: position has the shape \(2,\), not \(1, 3\)"),
        ({"velocity": (1.0, math.nan, 0.0)}, "velocity of vehicle 0 is not finite"),
        ({"attitude": (0.0, 0.0, 0.0, 2.0)}, "quaternion's length is not 1"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(values: dict[str, tuple[float, ...]], words: str) -> None:
    with pytest.raises(sb.UserError, match=words):
        simulation().set_state(**values)
