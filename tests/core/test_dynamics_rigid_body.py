"""Rigid body: closed-form motions, conservation laws, gyroscopics, the integrator's order."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from support.dynamics_vehicles import (
    Floats,
    Record,
    add_rotors,
    advance,
    body,
    environment,
    fly,
    hector,
    iris,
    rotation,
    start,
)

from sitl_bridge.core.world.atmosphere import air

FULL_TENSOR = np.array([[0.03, -0.004, 0.006], [-0.004, 0.05, 0.003], [0.006, 0.003, 0.07]])


def test_free_fall_follows_the_closed_form() -> None:
    vehicles, environments = body(2.0, FULL_TENSOR), environment()
    states = start(vehicles, environments, 500.0)
    states["velocity"][0] = (3.0, -2.0, -5.0)
    state = fly(vehicles, states, environments, 8.0)
    t, g = 8.0, 9.80665
    assert state["position"] == pytest.approx(
        [3.0 * t, -2.0 * t, -500.0 - 5.0 * t + 0.5 * g * t * t], abs=1e-9
    )
    assert state["velocity"] == pytest.approx([3.0, -2.0, -5.0 + g * t], abs=1e-10)
    assert state["specific_force"] == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)


def test_fall_with_drag_follows_the_closed_form_to_terminal_velocity() -> None:
    # m dv/dt = m g - C v^2: v = v_t tanh(g t/v_t), v_t = sqrt(m g/C).
    vehicles, environments = body(2.0, np.eye(3)), environment()
    vehicles["drag_force"] = 0.4
    states = start(vehicles, environments, 0.0)
    terminal = math.sqrt(2.0 * 9.80665 / 0.4)
    state = fly(vehicles, states, environments, 0.5)
    # The fall of 1.2 m thickens the air by 1e-4.
    assert state["velocity"][2] == pytest.approx(terminal * math.tanh(9.80665 * 0.5 / terminal), rel=1e-5)
    state = fly(vehicles, states, environments, 20.0)
    density = air(environments[0], float(state["position"][2]))[2]
    assert state["velocity"][2] == pytest.approx(terminal * math.sqrt(1.225 / density), rel=2e-4)


def test_body_drag_is_hectors_equation_2_in_the_wind() -> None:
    vehicles, environments = hector(), environment(gravity=0.0)
    vehicles["rotor_count"] = 0
    states = start(vehicles, environments, 0.0, yaw=0.7)
    states["velocity"][0] = (4.0, 1.0, -2.0)
    states["wind"][0] = (1.0, 5.0, 0.5)
    state = fly(vehicles, states, environments, 1e-7, step=1e-7, substeps=1)
    relative = rotation(state["attitude"]).T @ np.array([3.0, -4.0, -2.5])
    force = -np.array([0.12, 0.12, 0.1]) * np.linalg.norm(relative) * relative
    assert state["specific_force"] * 1.477 == pytest.approx(force, rel=1e-6)
    states["angular_velocity"][0] = (1.0, -2.0, 3.0)
    state = fly(vehicles, states, environments, 1e-7, step=1e-7, substeps=1)
    spin = state["angular_velocity"]
    moment = -np.array([0.074156208, 0.074156208, 0.050643264]) * np.linalg.norm(spin) * spin
    inertia = vehicles["inertia"][0]
    expected = np.linalg.solve(inertia, moment - np.cross(spin, inertia @ spin))
    assert state["angular_acceleration"] == pytest.approx(expected, rel=1e-5)


def test_torque_free_asymmetric_body_keeps_energy_and_angular_momentum() -> None:
    vehicles, environments = body(1.0, FULL_TENSOR), environment(gravity=0.0)
    states = start(vehicles, environments)
    states["angular_velocity"][0] = (0.4, 6.0, -0.9)
    momentum = FULL_TENSOR @ states["angular_velocity"][0]
    energy = 0.5 * states["angular_velocity"][0] @ momentum
    for _ in range(6):
        state = fly(vehicles, states, environments, 10.0)
        spin = state["angular_velocity"]
        assert rotation(state["attitude"]) @ FULL_TENSOR @ spin == pytest.approx(momentum, abs=2e-8)
        assert 0.5 * spin @ FULL_TENSOR @ spin == pytest.approx(energy, rel=1e-8)
        assert np.linalg.norm(state["attitude"]) == pytest.approx(1.0, abs=1e-15)


def spinning_body(motor_inertia: float = 2e-3) -> Record:
    """Asymmetric body with four heavy rotors on canted axes that meet no air."""
    vehicles = body(1.0, FULL_TENSOR)
    vehicle = vehicles[0]
    add_rotors(vehicle, [(0.2, 0.1, 0.0, 1), (-0.2, 0.1, 0.1, 1), (0.1, -0.2, 0.0, -1)], 0.0, 0.0)
    axes = np.array([[0.0, 0.6, -0.8], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
    vehicle["rotor_axis"][:3] = axes
    vehicle["rotor_inertia"][:3] = motor_inertia * np.array([1.0, 0.7, 1.4])
    return vehicles


def angular_momentum(vehicles: Record, state: np.void) -> Floats:
    """NED angular momentum of body and rotors, worked out independently of the step."""
    vehicle = vehicles[0]
    total = vehicle["inertia"] @ state["angular_velocity"]
    for k in range(int(vehicle["rotor_count"])):
        spin = vehicle["rotor_direction"][k] * state["rotor_speed"][k] * vehicle["rotor_axis"][k]
        total = total + vehicle["rotor_inertia"][k] * spin
    return np.asarray(rotation(state["attitude"]) @ total)


def test_body_with_rotors_keeps_its_angular_momentum_while_motors_change_their_speeds() -> None:
    vehicles, environments = spinning_body(), environment(gravity=0.0)
    states = start(vehicles, environments)
    states["angular_velocity"][0] = (1.0, -2.0, 0.5)
    before = angular_momentum(vehicles, states[0])
    for command in ([0.8, 0.1, 0.5], [0.2, 0.9, 0.4], [0.0, 0.3, 1.0]):
        state = fly(vehicles, states, environments, 2.0, np.array(command), step=0.001)
        assert angular_momentum(vehicles, state) == pytest.approx(before, abs=1e-5)
    finer = start(vehicles, environments)
    finer["angular_velocity"][0] = (1.0, -2.0, 0.5)
    state = fly(vehicles, finer, environments, 2.0, np.array([0.8, 0.1, 0.5]), step=0.00025)
    assert angular_momentum(vehicles, state) == pytest.approx(before, abs=1e-7)


def test_gyroscopic_moment_of_a_rotor_has_the_right_sign() -> None:
    # A rotor that turns counter-clockwise seen from above has its angular momentum H upwards, (0, 0, -H).
    # Pitching up at q, the body feels -w x h = (q H, 0, 0): it rolls to the right.
    vehicles, environments = body(1.0, np.diag([0.02, 0.02, 0.03])), environment(gravity=0.0)
    add_rotors(vehicles[0], [(0.0, 0.0, 0.0, 1)], 0.0, 0.0)
    vehicles["rotor_inertia"] = 5e-5
    vehicles["motor_speed_idle"] = 600.0
    states = start(vehicles, environments)
    states["rotor_speed"][0, 0] = 600.0
    states["angular_velocity"][0] = (0.0, 2.0, 0.0)
    state = fly(vehicles, states, environments, 1e-6, step=1e-6, substeps=1)
    assert state["angular_acceleration"][0] == pytest.approx(2.0 * 5e-5 * 600.0 / 0.02, rel=1e-5)


def test_spinning_up_and_air_drag_of_a_counter_clockwise_rotor_turn_the_nose_to_the_right() -> None:
    vehicles, environments = body(1.0, np.diag([0.02, 0.02, 0.03])), environment(gravity=0.0)
    add_rotors(vehicles[0], [(0.0, 0.0, 0.0, 1)], 1e-5, 0.016)
    vehicles["rotor_inertia"] = 5e-5
    states = start(vehicles, environments)
    state = fly(vehicles, states, environments, 1e-6, 0.6, step=1e-6, substeps=1)
    # dw_r/dt = 600/0.0125: the reaction of a rotor that gains speed.
    assert state["angular_acceleration"][2] == pytest.approx(5e-5 * 600.0 / 0.0125 / 0.03, rel=1e-3)
    state = fly(vehicles, states, environments, 2.0, 0.6)
    # At constant speed the aerodynamic torque k_M T is left.
    assert state["angular_acceleration"][2] == pytest.approx(0.016 * 1e-5 * 600.0**2 / 0.03, rel=1e-3)


def test_external_force_and_moment_act_in_their_frames() -> None:
    vehicles, environments = body(2.0, FULL_TENSOR), environment(gravity=0.0)
    states = start(vehicles, environments, yaw=math.pi / 2.0)
    states["external_force"][0] = (0.0, 4.0, 0.0)
    states["external_moment"][0] = (0.1, -0.2, 0.3)
    state = fly(vehicles, states, environments, 1e-7, step=1e-7, substeps=1)
    # East is ahead at a yaw of 90 degrees.
    assert state["specific_force"] == pytest.approx([2.0, 0.0, 0.0], abs=1e-6)
    assert FULL_TENSOR @ state["angular_acceleration"] == pytest.approx([0.1, -0.2, 0.3], rel=1e-5)


@pytest.mark.parametrize(("vehicle", "climb"), [(iris, 9.0), (hector, 2.0)])
def test_integrator_converges_with_the_fourth_order(vehicle: Callable[[], Record], climb: float) -> None:
    """A turning climb with changing rotor speeds, wind and air density; reference of 8192 substeps.

    The climb keeps clear of the kinks of the models, across which any method is of lower order: the axial
    loss |v|/v_loss at zero inflow, and hector's load torque where it is cut off at zero.
    """
    vehicles, environments = vehicle(), environment()
    controls = np.zeros(16)
    controls[:4] = (0.8, 0.7, 0.75, 0.66)

    def end(substeps: int) -> Floats:
        states = start(vehicles, environments, 100.0)
        states["velocity"][0] = (3.0, -2.0, -climb)
        states["angular_velocity"][0] = (1.0, -0.5, 2.0)
        states["rotor_speed"][0, :4] = 500.0
        states["wind"][0] = (2.0, 1.0, -0.5)
        advance(vehicles, states, controls, 1, environments, 0.8, substeps, 1)
        state = states[0]
        return np.concatenate(
            [state[name] for name in ("position", "velocity", "attitude", "angular_velocity")]
        )

    reference = end(8192)
    shares = (128, 256, 512, 1024)
    errors = [float(np.linalg.norm(end(share) - reference)) for share in shares]
    slope = np.polyfit(np.log(0.8 / np.array(shares)), np.log(errors), 1)[0]
    assert 3.9 < slope < 4.1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324])
@pytest.mark.parametrize("vehicle", [iris, hector])
def test_state_stays_finite_whatever_the_commands(vehicle: Callable[[], Record], bad: float) -> None:
    vehicles, environments = vehicle(), environment()
    vehicles["battery_capacity"] = 10_000.0
    states = start(vehicles, environments, 20.0)
    fly(vehicles, states, environments, 1.0, np.array([bad, 0.5, bad, 0.7] + [bad] * 12))
    state = fly(vehicles, states, environments, 1.0, bad)
    for name in state.dtype.names or ():
        assert np.isfinite(state[name]).all(), name


def test_command_that_is_no_number_counts_as_zero() -> None:
    ends = []
    for command in (math.nan, 0.0):
        vehicles, environments = iris(), environment()
        states = start(vehicles, environments, 20.0)
        ends.append(fly(vehicles, states, environments, 1.0, np.array([0.5, command, 0.5, 0.5])).tobytes())
    assert ends[0] == ends[1]


def test_what_falls_on_the_turning_earth_lands_east() -> None:
    """w g t^3 cos(latitude)/3: 15 mm in 100 m at 47.4 deg."""
    latitude = math.radians(47.4)
    vehicles, environments = body(2.0, np.eye(3)), environment()
    environments["earth_rate"] = 7.292115e-5 * np.array([math.cos(latitude), -math.sin(latitude)])
    states = start(vehicles, environments, 100.0)
    seconds = 4.516
    state = fly(vehicles, states, environments, seconds)
    assert state["position"][2] == pytest.approx(0.0, abs=0.01)
    assert state["position"][1] == pytest.approx(
        7.292115e-5 * 9.80665 * seconds**3 * math.cos(latitude) / 3.0, rel=1e-3
    )
    assert state["position"][1] == pytest.approx(0.0149, abs=2e-4)
