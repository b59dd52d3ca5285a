"""An airframe's rotors in PX4's control allocation, and the vehicle's response to its commands.

The mixing is PX4's (ActuatorEffectivenessRotors, ControlAllocationPseudoInverse); the response follows from
the airframe's physics.  Gains and limits are computed in link/px4/rate_loop.py and
link/px4/airframe_parameters.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.arrays import Floats, Singles
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.core.dynamics.motor import dc_current
from sitl_bridge.core.dynamics.performance import Hover, remember, static_thrusts, torque_slope
from sitl_bridge.core.dynamics.records import MOTOR_DC
from sitl_bridge.core.dynamics.rotor_laws import thrust_and_torque
from sitl_bridge.core.vehicle.airframe import Airframe

Parameters = dict[str, int | float]

THRUST_COEFFICIENT = 6.5
"""CA_ROTORn_CT's default.  A factor common to all rotors cancels in PX4's normalisation."""
LARGEST_COEFFICIENT = 100.0
"""Largest CA_ROTORn_CT that PX4 allows."""
WEAK = 0.05
"""PX4 does not control an axis on which no rotor has more effect than this (ControlAllocator.cpp,
update_effectiveness_matrix_if_needed)."""
DISTORTION = 0.01
"""Largest error that PX4's single-precision inverse may have, relative to the largest entry of the mix."""
NEGLIGIBLE = 1e-3
"""Entries of the mix below this are zero (ControlAllocationPseudoInverse.cpp)."""


def geometry(airframe: Airframe) -> Parameters:
    """CA_AIRFRAME, CA_ROTOR_COUNT and CA_ROTORn_* of an airframe.

    Positions, axes and torque over thrust are those of the physics, in m as PX4 defines them (module.yaml),
    or PX4's own if the airframe file gives the geometry of an airframe of PX4.  CA_ROTORn_KM is positive for
    counter-clockwise rotors, and larger than the physical ratio only as in :func:`_moment_factor`.
    CA_ROTORn_CT has PX4's default as its mean, and the rotors' thrusts at one command as its ratios; it is
    larger for a small vehicle whose yaw PX4 would not control otherwise.  CA_R_REV names reversible motors,
    CA_REV_THR_FRAC (PX4 after v1.18) the thrust that a hexarotor's recovery motor gives in reverse.
    """
    record, count = airframe.record, len(airframe.rotors)
    found: Parameters = {"CA_AIRFRAME": 0, "CA_ROTOR_COUNT": count}
    density = airframe.rotor_model.reference_density
    axes = np.array([np.array(rotor.axis) / np.linalg.norm(rotor.axis) for rotor in airframe.rotors])
    positions = np.array([rotor.position for rotor in airframe.rotors])
    share = airframe.mass * STANDARD_GRAVITY / count
    ratios = np.array([torque_slope(record, i, share, density) for i in range(count)])
    thrusts = _thrusts(airframe, 1.0)
    allocation = airframe.px4.allocation
    if allocation is not None:
        positions = np.column_stack([allocation.positions, np.zeros(count)])
        ratios, thrusts = np.full(count, allocation.moment_ratio), np.ones(count)
    for i in range(count):
        for name, value in zip("XYZ", positions[i], strict=True):
            found[f"CA_ROTOR{i}_P{name}"] = round(float(value), 6)
        for name, value in zip("XYZ", axes[i], strict=True):
            found[f"CA_ROTOR{i}_A{name}"] = round(float(value), 6)
        signed = float(ratios[i]) if airframe.rotors[i].direction == "ccw" else -float(ratios[i])
        found[f"CA_ROTOR{i}_KM"] = round(signed, 6)
        found[f"CA_ROTOR{i}_CT"] = THRUST_COEFFICIENT * float(thrusts[i] / thrusts.mean())
    factor = 1 if allocation is not None else _moment_factor(found)
    for i in range(count):
        found[f"CA_ROTOR{i}_KM"] *= factor
    effects = np.abs(effectiveness(found)[:3]).max(axis=1)
    weakest = float(effects[effects > 0.0].min())
    stronger = 2.0 * WEAK / weakest if weakest <= WEAK else 1.0
    for i in range(count):
        coefficient = float(found[f"CA_ROTOR{i}_CT"]) * stronger
        found[f"CA_ROTOR{i}_CT"] = round(min(coefficient, LARGEST_COEFFICIENT), 4)
    if getattr(airframe.motor, "reversible", False):
        found["CA_R_REV"] = (1 << count) - 1
        found["CA_REV_THR_FRAC"] = getattr(airframe.rotor_model, "reverse_thrust", 1.0)
    return found


def _moment_factor(parameters: Parameters) -> int:
    """Factor on torque over thrust with which PX4 still inverts the effectiveness: a power of two, mostly 1.

    PX4 inverts in single precision, by a method whose error grows with the fourth power of the condition
    (matrix/PseudoInverse.hpp; Courrieu 2008).  With arms of 0.2 m and a ratio of 0.016 m, the motor opposite
    to a failed one, which should stop, gets a third of the thrust with the wrong sign, and a hexarotor falls.
    With PX4's default of 0.05 m the error is below 0.5 %.  PX4 normalises yaw on its own, so a factor common
    to all ratios leaves its mix as it is, unless rotors are canted.
    """
    rotors = range(int(parameters["CA_ROTOR_COUNT"]))
    largest = max(abs(float(parameters[f"CA_ROTOR{i}_KM"])) for i in rotors)
    factor = 1
    if any(abs(parameters[f"CA_ROTOR{i}_A{axis}"]) > NEGLIGIBLE for i in rotors for axis in "XY"):
        return factor
    while 2.0 * factor * largest <= 1.0:  # PX4's limit of CA_ROTORn_KM
        scaled = {f"CA_ROTOR{i}_KM": factor * parameters[f"CA_ROTOR{i}_KM"] for i in rotors}
        if inversion_error(parameters | scaled) <= DISTORTION:
            break
        factor *= 2
    return factor


def inversion_error(parameters: Parameters) -> float:
    """Largest error of PX4's inverse in single precision, relative to the mix.

    With all motors and, for more than four, with each of them failed: PX4 clears its column then.
    """
    whole = effectiveness(parameters)
    scale = np.abs(np.linalg.pinv(whole)).max(axis=0)
    failures = [None, *range(whole.shape[1])] if whole.shape[1] > 4 else [None]
    worst = 0.0
    for failed in failures:
        left = whole.copy()
        if failed is not None:
            left[:, failed] = 0.0
        wrong = np.abs(single_precision_inverse(left) - np.linalg.pinv(left)).max(axis=0)
        worst = max(worst, float(np.divide(wrong, scale, out=np.zeros(6), where=scale > 1e-9).max()))
    return worst


def single_precision_inverse(matrix: Floats) -> Singles:
    """Moore-Penrose inverse by a full-rank Cholesky factor, in single precision (Courrieu 2008).

    PX4 inverts its effectiveness so (src/lib/matrix/matrix/PseudoInverse.hpp).
    """
    g = matrix.astype(np.float32)
    square = g @ g.T
    least = np.float32(len(square) * np.finfo(np.float32).eps) * square.diagonal().max()
    factor = np.zeros((len(square), 0), np.float32)
    for k in range(len(square)):
        column = square[:, k] - factor @ factor[k]
        column[:k] = 0.0
        if column[k] > least:
            factor = np.column_stack([factor, column / np.sqrt(column[k])]).astype(np.float32)
    inner = np.linalg.inv(factor.T @ factor)
    return np.asarray(g.T @ (factor @ (inner @ inner @ factor.T)), np.float32)


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
        found[:, i] *= parameters[f"CA_ROTOR{i}_CT"]
    return found


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
    return _curve_factor(airframe.record, airframe.rotor_model.reference_density)


@remember
def _curve_factor(record: Packed, density: float) -> float:
    command = np.linspace(0.2, 1.0, 81)
    full = float(np.sum(static_thrusts(record, 1.0, density)))
    share = np.array([float(np.sum(static_thrusts(record, float(c), density))) / full for c in command])
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
    """Response of a vehicle in hover to PX4's normalised torque setpoints."""

    # (3,) rad/s^2 for a unit setpoint about each axis, once the rotors have their new speed
    authority: Floats
    motor_lag: float  # s, time constant of a small change of rotor speed
    # s, moment of the rotors' own acceleration over that of their drag: the reaction to accelerating a rotor
    # acts at once, before its drag has changed
    yaw_lead: float
    delay: float  # s from the sample of a rate to the middle of the step in which its command acts


def response(
    airframe: Airframe, parameters: Parameters, hover: Hover, density: float, factor: float
) -> Response:
    """Linear response of an airframe in hover to torque setpoints.

    Args:
        parameters: its CA_* parameters.
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
    """The motors', and half a lockstep step: PX4 answers a sample within it, and its command is held."""
    step = min(sensor.period for sensor in airframe.sensors if sensor.kind == "imu")
    return airframe.motor.dead_time + 0.5 * step


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
