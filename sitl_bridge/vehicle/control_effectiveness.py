"""An airframe's rotors in PX4's control allocation, and the vehicle's response to its commands.

The mixing is PX4's (ActuatorEffectivenessRotors, ControlAllocationPseudoInverse); the response follows from
the airframe's physics.  Gains and limits are computed in px4/rate_loop.py and px4/airframe_parameters.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.dynamics.motor import dc_current
from sitl_bridge.dynamics.performance import Hover, static_thrusts, torque_slope
from sitl_bridge.dynamics.records import MOTOR_DC
from sitl_bridge.dynamics.rotor_laws import thrust_and_torque
from sitl_bridge.vehicle.airframe import Airframe

Floats = NDArray[np.float64]
Parameters = dict[str, int | float]

THRUST_COEFFICIENT = 6.5
"""CA_ROTORn_CT's default; the same for all rotors, it cancels in PX4's normalisation."""
GRAVITY = 9.80665
NEGLIGIBLE = 1e-3
"""Entries of the mix below this are zero (ControlAllocationPseudoInverse.cpp)."""


def geometry(airframe: Airframe) -> Parameters:
    """CA_AIRFRAME, CA_ROTOR_COUNT and CA_ROTORn_* of an airframe.

    Positions, axes and torque over thrust are those of the physics, in units of :func:`_units`, or PX4's own
    if the airframe file gives the geometry of an airframe of PX4.  CA_ROTORn_KM is positive for
    counter-clockwise rotors.
    """
    found: Parameters = {"CA_AIRFRAME": 0, "CA_ROTOR_COUNT": len(airframe.rotors)}
    own = airframe.px4.allocation
    share = airframe.mass * GRAVITY / len(airframe.rotors)
    density = airframe.rotor_model.reference_density
    ratios = [torque_slope(airframe.record, i, share, density) for i in range(len(airframe.rotors))]
    length, lever = _units(airframe, ratios)
    for i, rotor in enumerate(airframe.rotors):
        axis = np.array(rotor.axis) / np.linalg.norm(rotor.axis)
        x, y, z = (round(value / length, 6) for value in rotor.position)
        ratio = ratios[i] / lever
        if own is not None:
            (x, y), z, ratio = own.positions[i], 0.0, own.moment_ratio
        for name, value in zip("XYZ", (x, y, z), strict=True):
            found[f"CA_ROTOR{i}_P{name}"] = value
        for name, value in zip("XYZ", axis, strict=True):
            found[f"CA_ROTOR{i}_A{name}"] = round(float(value), 6)
        found[f"CA_ROTOR{i}_KM"] = round(ratio if rotor.direction == "ccw" else -ratio, 6)
    if getattr(airframe.motor, "reversible", False):
        found["CA_R_REV"] = (1 << len(airframe.rotors)) - 1
    return found


def _units(airframe: Airframe, ratios: list[float]) -> tuple[float, float]:
    """Units in m of positions and of torque over thrust in PX4's parameters.

    PX4 normalises roll and pitch, yaw, and thrust separately, so these units do not change its mix.  But it
    inverts the effectiveness in single precision by a method whose error grows with the fourth power of its
    condition (matrix/PseudoInverse.hpp; Courrieu 2008).  With arms of 0.2 m and a ratio of 0.016 m, the motor
    opposite to a failed one, which should stop, gets a third of the thrust with the wrong sign, and a
    hexarotor falls.  Therefore the longest arm is 1, as in PX4's own airframes, and the greatest ratio is 1,
    PX4's limit.  With canted rotors both are lengths of the same moment and have the same unit.
    """
    longest = max(float(np.hypot(*rotor.position[:2])) for rotor in airframe.rotors)
    greatest = max(abs(ratio) for ratio in ratios)
    upright = all(np.hypot(*rotor.axis[:2]) < NEGLIGIBLE * abs(rotor.axis[2]) for rotor in airframe.rotors)
    length = longest or 1.0
    return length, greatest if upright and greatest > 0.0 else length


def effectiveness(parameters: Parameters) -> Floats:
    """(6, n) moments and forces of unit motor setpoints, as PX4 computes them from CA_ROTORn_*.

    ActuatorEffectivenessRotors::computeEffectivenessMatrix.
    """
    rotors = int(parameters["CA_ROTOR_COUNT"])
    found = np.zeros((6, rotors))
    for i in range(rotors):
        position = np.array([parameters[f"CA_ROTOR{i}_P{axis}"] for axis in "XYZ"])
        axis = np.array([parameters[f"CA_ROTOR{i}_A{axis}"] for axis in "XYZ"])
        axis = axis / np.linalg.norm(axis)
        found[:3, i] = np.cross(position, axis) - parameters[f"CA_ROTOR{i}_KM"] * axis
        found[3:, i] = axis
    return THRUST_COEFFICIENT * found


def allocation_matrix(parameters: Parameters) -> Floats:
    """PX4's normalised mix (n, 6): motor setpoints for a unit torque about and a unit thrust along each axis.

    As ControlAllocationPseudoInverse::updateControlAllocationMatrixScale normalises the pseudo-inverse: roll
    and pitch by the greater of their root mean squares, yaw by its greatest entry, thrust by its mean.
    """
    mix: Floats = np.linalg.pinv(effectiveness(parameters)).astype(np.float64)
    mix[:, :2] /= max(_root_mean_square(mix[:, 0]), _root_mean_square(mix[:, 1]))
    if mix[:, 2].max() > 1e-9:
        mix[:, 2] /= mix[:, 2].max()
    for column in (3, 4, 5):
        size = np.abs(mix[:, column])
        count = np.count_nonzero(size > np.finfo(np.float32).eps)
        if count:
            mix[:, column] /= size.sum() / count
    mix[np.abs(mix) < NEGLIGIBLE] = 0.0
    return mix


def _root_mean_square(column: Floats) -> float:
    count = int(np.count_nonzero(np.abs(column) > NEGLIGIBLE))
    return math.sqrt(float(column @ column) / (count / 2.0)) if count else 1.0


def thrust_curve_factor(airframe: Airframe) -> float:
    """THR_MDL_FAC f such that f c^2 + (1 - f) c follows the thrust that a command c gives, both from 0 to 1.

    PX4 inverts that curve (FunctionMotors.hpp), so that thrust follows its setpoint.  Least squares over the
    commands at which rotors work in flight, 0.2 to 1.
    """
    command = np.linspace(0.2, 1.0, 81)
    full = float(np.sum(_thrusts(airframe, 1.0)))
    share = np.array([float(np.sum(_thrusts(airframe, float(c)))) / full for c in command])
    bend = command**2 - command
    return float(np.clip(bend @ (share - command) / (bend @ bend), 0.0, 1.0))


def _thrusts(airframe: Airframe, command: float) -> Floats:
    """(n,) static thrust in N of each rotor at a command, nominal voltage, reference density."""
    return static_thrusts(airframe.record, command, airframe.rotor_model.reference_density)


def setpoint(factor: float, command: Floats) -> Floats:
    """Thrust setpoints that PX4 converts to these motor commands, f c^2 + (1 - f) c."""
    return factor * command**2 + (1.0 - factor) * command


@dataclass(frozen=True)
class Response:
    """Response of a vehicle in hover to PX4's normalised torque setpoints.

    Attributes:
        authority: (3,) rad/s^2 for a unit setpoint about each axis, once the rotors have their new speed.
        motor_lag: s, time constant of a small change of rotor speed.
        yaw_lead: s, moment of the rotors' own acceleration over that of their drag: the reaction to
            accelerating a rotor acts at once, before its drag has changed.
        delay: s from the sample of a rate to the middle of the step in which its command acts.
    """

    authority: Floats
    motor_lag: float
    yaw_lead: float
    delay: float


def response(
    airframe: Airframe, parameters: Parameters, hover: Hover, density: float, factor: float
) -> Response:
    """Linear response of an airframe in hover to torque setpoints.

    Args:
        airframe: the airframe.
        parameters: its CA_* parameters.
        hover: its trim.
        density: kg/m^3.
        factor: THR_MDL_FAC.
    """
    record = airframe.record
    rotors = len(airframe.rotors)
    command = hover.throttle
    step = 0.01
    slope = (_thrusts(airframe, command + step) - _thrusts(airframe, command - step)) / (2.0 * step)
    slope *= density / airframe.rotor_model.reference_density
    # d(command)/d(setpoint) of PX4's inverted thrust curve.
    slope /= 2.0 * factor * command + 1.0 - factor
    mix = allocation_matrix(parameters)
    ratio = np.array([torque_slope(record, k, float(hover.rotor_thrust[k]), density) for k in range(rotors)])
    authority = np.zeros(3)
    for axis in range(3):
        thrust = (slope * mix[:, axis])[:, None] * record["rotor_axis"][:rotors]
        moment = np.cross(record["rotor_position"][:rotors], thrust).sum(axis=0)
        moment -= ((record["rotor_direction"][:rotors] * ratio)[:, None] * thrust).sum(axis=0)
        authority[axis] = abs(float((record["inertia_inverse"] @ moment)[axis]))
    lag = _motor_lag(airframe, hover, density)
    return Response(
        authority, lag, _yaw_lead(airframe, hover, density, float(ratio.mean())), _delay(airframe)
    )


def _delay(airframe: Airframe) -> float:
    """Half a lockstep step: PX4 answers a sample within its step, and the command is held for one."""
    return 0.5 * min(sensor.period for sensor in airframe.sensors if sensor.kind == "imu")


def _yaw_lead(airframe: Airframe, hover: Hover, density: float, ratio: float) -> float:
    """J/(dQ/dw) of a rotor at hover, s."""
    record = airframe.record
    speed = float(hover.rotor_speed.mean())
    low, high = (thrust_and_torque(record, 0, speed * share, 0.0, density)[0] for share in (0.99, 1.01))
    drag_slope = ratio * (high - low) / (0.02 * speed)
    return float(record["rotor_inertia"][0]) / drag_slope if drag_slope > 0.0 else 0.0


def _motor_lag(airframe: Airframe, hover: Hover, density: float) -> float:
    """Time constant in s of a small change of rotor speed at hover.

    A command accelerates some rotors and decelerates others, so it is the mean of both lags.  A DC motor's
    lag is its inertia over the slope of its driving and load torques, linearised about hover (hector eq. 6).
    """
    record = airframe.record
    if record["motor_kind"] != MOTOR_DC:
        return 0.5 * float(record["motor_tau_up"] + record["motor_tau_down"])
    speed, supply = float(hover.rotor_speed.mean()), float(hover.motor_voltage.mean())

    def accelerating(w: float) -> float:
        drive = float(record["dc_flux"]) * dc_current(record, supply, w)
        return drive - thrust_and_torque(record, 0, w, 0.0, density)[1]

    slope = (accelerating(1.01 * speed) - accelerating(0.99 * speed)) / (0.02 * speed)
    return float(record["rotor_inertia"][0]) / -slope
