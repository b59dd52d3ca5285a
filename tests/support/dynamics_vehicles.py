"""Vehicles and runners for the tests of the dynamics: published figures, filled into records by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.dynamics.performance import performance
from sitl_bridge.core.dynamics.records import MOTOR_DC, STATE, SURFACES, VEHICLE
from sitl_bridge.core.dynamics.step import initial_state, step_vehicle
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.records import ENVIRONMENT
from sitl_bridge.core.world.world import World

Floats = NDArray[np.float64]
Record = NDArray[np.void]

SEA_LEVEL_DENSITY = 1.225
STEP = 0.004
SUBSTEPS = 2


def environment(gravity: float = 9.80665) -> Record:
    """(1,) standard atmosphere at sea level."""
    record = np.zeros(1, ENVIRONMENT)
    record["gravity"] = gravity
    record["sea_level_temperature"] = 288.15
    record["sea_level_pressure"] = 101325.0
    return record


def body(mass: float, inertia: Floats) -> Record:
    """(1,) vehicle without rotors, drag or contact points, on an ideal 16 V source."""
    vehicles = np.zeros(1, VEHICLE)
    vehicle = vehicles[0]
    vehicle["mass"] = mass
    vehicle["inertia"] = inertia
    vehicle["inertia_inverse"] = np.linalg.inv(inertia)
    vehicle["inflow_loss_speed"] = math.inf
    vehicle["rotor_density"] = SEA_LEVEL_DENSITY
    vehicle["drag_density"] = SEA_LEVEL_DENSITY
    vehicle["motor_tau_up"] = 0.0125
    vehicle["motor_tau_down"] = 0.025
    vehicle["motor_speed_range"] = 1000.0
    vehicle["motor_efficiency"] = 0.8
    vehicle["contact_stiffness"] = 1.0
    vehicle["battery_capacity"] = math.inf
    vehicle["battery_cells"] = 4
    vehicle["battery_ocv"] = np.linspace(3.3, 4.2, 11)
    vehicle["battery_nominal_voltage"] = 16.0
    return vehicles


def add_rotors(
    vehicle: Any, places: list[tuple[float, float, float, int]], thrust: float, k_m: float
) -> None:
    """Upright rotors at (x, y, z) with a direction each, and RotorS's two coefficients."""
    n = len(places)
    vehicle["rotor_count"] = n
    vehicle["rotor_position"][:n] = [place[:3] for place in places]
    vehicle["rotor_axis"][:n] = (0.0, 0.0, -1.0)
    vehicle["rotor_direction"][:n] = [place[3] for place in places]
    vehicle["rotor_radius"][:n] = 0.1
    vehicle["thrust_c2"][:n] = thrust
    vehicle["torque_thrust_ratio"][:n] = k_m


def add_feet(vehicle: Any, points: list[tuple[float, float, float]], friction: float = 0.6) -> None:
    """Contact points whose springs give by 1 mm under the vehicle's weight on four of them."""
    n = len(points)
    vehicle["contact_count"] = n
    vehicle["contact_point"][:n] = points
    vehicle["contact_radius"] = np.linalg.norm(points, axis=1).max()
    stiffness = float(vehicle["mass"]) * 9.80665 / 4.0 / 1e-3
    vehicle["contact_stiffness"] = stiffness
    vehicle["contact_damping"] = 2.0 * 0.7 * math.sqrt(stiffness * float(vehicle["mass"]) / 4.0)
    vehicle["contact_friction"] = friction


def iris() -> Record:
    """(1,) PX4's Gazebo Classic iris (iris.sdf.jinja), on feet, with a body drag of 0.05 kg/m."""
    vehicles = body(1.55, np.diag([0.029125, 0.029125, 0.055225]))
    vehicle = vehicles[0]
    add_rotors(
        vehicle,
        [
            (0.13, 0.22, -0.023, 1),
            (-0.13, -0.2, -0.023, 1),
            (0.13, -0.22, -0.023, -1),
            (-0.13, 0.2, -0.023, -1),
        ],
        5.84e-6,
        0.06,
    )
    vehicle["inflow_loss_speed"] = 25.0
    vehicle["rotor_inertia"][:4] = 4e-5
    vehicle["rotor_drag"][:4] = 1.75e-4
    vehicle["rolling_moment"][:4] = 1e-6
    vehicle["motor_speed_idle"] = 100.0
    vehicle["drag_force"] = 0.05
    vehicle["drag_moment"] = 0.01
    feet = [(0.13, 0.17, 0.1), (0.13, -0.17, 0.1), (-0.13, 0.17, 0.1), (-0.13, -0.17, 0.1)]
    tips = [(0.13, 0.32, -0.03), (0.13, -0.32, -0.03), (-0.13, 0.32, -0.03), (-0.13, -0.32, -0.03)]
    add_feet(vehicle, feet + tips)
    return vehicles


def hector() -> Record:
    """(1,) hector_quadrotor with robbe 2827-34 motors, as released; rotors front, right, rear, left."""
    vehicles = body(1.477, np.diag([0.01152, 0.01152, 0.0218]))
    vehicle = vehicles[0]
    arm = 0.275
    add_rotors(
        vehicle,
        [(arm, 0.0, 0.0, -1), (0.0, arm, 0.0, 1), (-arm, 0.0, 0.0, -1), (0.0, -arm, 0.0, 1)],
        1.538190483976698e-5,
        0.015336864714397,
    )
    vehicle["thrust_b1"][:4] = -2.5224e-4
    vehicle["torque_g1"][:4] = -7.011631909766668e-5
    vehicle["motor_kind"] = MOTOR_DC
    vehicle["dc_flux"] = 0.007242179827506
    vehicle["dc_resistance"] = 0.201084219222241
    vehicle["dc_inertia"] = 2.5730480633e-5
    vehicle["rotor_inertia"][:4] = 2.5730480633e-5
    vehicle["dc_alpha"] = 0.104863758313889
    vehicle["dc_beta"] = 0.5492623447779
    vehicle["drag_force"] = (0.12, 0.12, 0.1)
    vehicle["drag_moment"] = (0.074156208, 0.074156208, 0.050643264)
    vehicle["battery_nominal_voltage"] = 14.8
    return vehicles


def start(vehicles: Record, environments: Record, height: float = 0.0, yaw: float = 0.0) -> Record:
    """(1,) state on the ground, or ``height`` m above it."""
    states = np.zeros(1, STATE)
    states[0] = initial_state(vehicles[0], environments[0], np.array([0.0, 0.0, -height]), yaw)
    return states


@compiled
def _advance(
    vehicles: Any,
    states: Any,
    surfaces: Any,
    controls: Any,
    armed: int,
    environments: Any,
    step: float,
    substeps: int,
    n: int,
) -> None:
    """Advance the first vehicle by ``n`` steps."""
    for _ in range(n):
        step_vehicle(vehicles[0], states[0], surfaces[0], controls, armed, environments[0], step, substeps)


def advance(
    vehicles: Record,
    states: Record,
    controls: Floats,
    armed: int,
    environments: Record,
    step: float,
    substeps: int,
    n: int,
) -> None:
    """Advance the first vehicle by ``n`` steps, in a world without shapes."""
    surfaces = np.zeros(1, SURFACES)
    _advance(vehicles, states, surfaces, controls, armed, environments, step, substeps, n)


def fly(
    vehicles: Record,
    states: Record,
    environments: Record,
    seconds: float,
    command: float | Floats = 0.0,
    armed: int = 1,
    step: float = STEP,
    substeps: int = SUBSTEPS,
) -> Any:
    """Advance by ``seconds`` with constant commands; returns the state's record."""
    controls = np.zeros(16)
    controls[: np.size(command) if np.ndim(command) else 16] = command
    advance(vehicles, states, controls, armed, environments, step, substeps, round(seconds / step))
    return states[0]


def rotation(attitude: Floats) -> Floats:
    """(3, 3) body to NED of a quaternion."""
    w, x, y, z = attitude
    skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(np.eye(3) + 2.0 * w * skew + 2.0 * skew @ skew)


def hold_at_motion(
    airframe: Airframe,
    velocity: tuple[float, float, float],
    turn: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Simulation:
    """A quadrotor in hover trim, held level for 50 steps at a velocity (m/s NED) and rates (rad/s)."""
    setup = VehicleSetup(airframe.vehicle(), airframe.sensor_records()[:0], position=(0.0, 0.0, -50.0))
    simulation = Simulation(World(), [setup])
    state = simulation.states[0]
    trim = performance(airframe.record, SEA_LEVEL_DENSITY, 9.80665).hover
    assert trim is not None
    state["rotor_speed"][:4] = trim.rotor_speed
    simulation.controls[0, :4] = trim.command
    simulation.armed[0] = 1
    for _ in range(50):
        state["velocity"] = velocity
        state["angular_velocity"] = turn
        state["attitude"] = (1.0, 0.0, 0.0, 0.0)
        simulation.advance()
    return simulation
