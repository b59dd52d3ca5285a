"""PX4 parameters that follow from an airframe, so that an unmodified PX4 flies it.

Geometry goes to PX4's control allocation as it is; gains are PX4's own, scaled by how strongly the
airframe answers; limits are what the airframe can do.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.config.airframe import Airframe, DcMotor, airframe_directories, load_airframe
from sitl_bridge.dynamics.performance import performance, static_thrusts, torque_slope
from sitl_bridge.sensors.gps import GpsSpecification
from sitl_bridge.sensors.imu import ImuSpecification
from sitl_bridge.sensors.ranging import OpticalFlowSpecification, RangeFinderSpecification
from sitl_bridge.world.atmosphere import air
from sitl_bridge.world.world import World

Parameters = dict[str, int | float]

MAV_TYPE = {4: 2, 6: 13, 8: 14}
"""MAVLink MAV_TYPE of quad-, hexa- and octorotor by number of rotors."""
MAV_TYPE_OTHER = 2
RATE_GAIN_RANGE = (0.05, 5.0)
"""Range PX4 allows for MC_*RATE_K is 0.01 to 5."""
YAW_GAIN_MOST = 3.0
"""Rotor drag gives yaw so little authority on some airframes that the full correction would leave the motors
no room; with this PX4's yaw loop still crosses over well above its yaw attitude gain."""
FASTEST_LOSS_TIMEOUT = 60.0
"""s, the most PX4 allows for COM_OF_LOSS_T."""
UNBOUNDED_SPEED = 30.0
"""Speed factor assumed for time-outs when the simulation runs as fast as it can; PX4 alone reaches about 25
on an ordinary machine."""
DEFAULT_TILT = 45.0
"""deg, PX4's MPC_TILTMAX_AIR."""
THRUST_RESERVE = 1.1
"""Thrust over weight kept for climbing at the greatest tilt."""


def allocation_matrix(parameters: Parameters, rotors: int) -> NDArray[np.float64]:
    """PX4's normalised mix (n, 6): motor commands for unit torques and thrusts.

    As ActuatorEffectivenessRotors::computeEffectivenessMatrix builds the effectiveness and
    ControlAllocationPseudoInverse::updateControlAllocationMatrixScale normalises its pseudo-inverse.
    """
    effectiveness = np.zeros((6, rotors))
    for i in range(rotors):
        position = np.array([parameters[f"CA_ROTOR{i}_P{axis}"] for axis in "XYZ"])
        axis = np.array([parameters[f"CA_ROTOR{i}_A{axis}"] for axis in "XYZ"])
        axis = axis / np.linalg.norm(axis)
        effectiveness[:3, i] = np.cross(position, axis) - parameters[f"CA_ROTOR{i}_KM"] * axis
        effectiveness[3:, i] = axis
    effectiveness *= 6.5  # CA_ROTORn_CT's default; it cancels in the normalisation
    mix: NDArray[np.float64] = np.linalg.pinv(effectiveness).astype(np.float64)

    def scale(column: NDArray[np.floating[Any]]) -> float:
        count = int(np.sum(np.abs(column) > 1e-3))
        return math.sqrt(float(column @ column) / (count / 2.0)) if count else 1.0

    rolling = max(scale(mix[:, 0]), scale(mix[:, 1]))
    mix[:, :2] /= rolling
    yawing = float(mix[:, 2].max())
    if yawing > 1e-9:
        mix[:, 2] /= yawing
    return mix


def thrust_curve_factor(airframe: Airframe) -> float:
    """THR_MDL_FAC f such that f c^2 + (1 - f) c follows the thrust that a command c gives, both from 0 to 1.

    Least squares over the commands at which rotors work in flight, 0.2 to 1.
    """
    command = np.linspace(0.2, 1.0, 81)
    share = np.array([_relative_thrust(airframe, float(c)) for c in command])
    bend = command**2 - command
    return float(np.clip(bend @ (share - command) / (bend @ bend), 0.0, 1.0))


def _relative_thrust(airframe: Airframe, command: float) -> float:
    """Static thrust at a command over that at full command, nominal voltage."""
    return float(np.sum(_thrusts(airframe, command)) / np.sum(_thrusts(airframe, 1.0)))


def _thrusts(airframe: Airframe, command: float) -> NDArray[np.float64]:
    """(n,) static thrust in N of each rotor at a command, nominal voltage, reference density."""
    return static_thrusts(airframe.record, command, airframe.rotor_model.reference_density)


def angular_authority(
    airframe: Airframe, parameters: Parameters, density: float, thrust_per_unit: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Angular acceleration (3,) in rad/s^2 for a unit of PX4's normalised torque about each axis.

    Args:
        airframe: the airframe.
        parameters: its CA_* parameters.
        density: kg/m^3.
        thrust_per_unit: (n,) N a unit of motor setpoint, where the loop works.
    """
    record = airframe.record
    mix = allocation_matrix(parameters, len(airframe.rotors))
    authority = np.zeros(3)
    for axis in range(3):
        moment = np.zeros(3)
        for i in range(len(airframe.rotors)):
            thrust = thrust_per_unit[i] * mix[i, axis] * record["rotor_axis"][i]
            moment += np.cross(record["rotor_position"][i], thrust)
            ratio = _torque_slope(airframe, i, density)
            moment -= (
                record["rotor_direction"][i]
                * ratio
                * thrust_per_unit[i]
                * mix[i, axis]
                * (record["rotor_axis"][i])
            )
        authority[axis] = abs((record["inertia_inverse"] @ moment)[axis])
    return authority


def _torque_slope(airframe: Airframe, rotor: int, density: float) -> float:
    """Change of reaction torque over change of thrust in m, at hover."""
    return torque_slope(airframe.record, rotor, airframe.mass * 9.80665 / len(airframe.rotors), density)


@cache
def _reference() -> tuple[NDArray[np.float64], float]:
    """Authority of the vehicle PX4's default gains were made for, and its motors' time constant.

    That is the iris with PX4's own allocation and THR_MDL_FAC 0, so that its thrust per unit of command is
    the slope of its thrust curve at hover.
    """
    iris = load_airframe(_packaged_iris())
    world = World()
    _, _, density = air(world.environment[0], 0.0)
    record = iris.record
    at = performance(record, density, float(world.environment[0]["gravity"])).hover
    step = 0.01
    command = float(np.mean(at.command))
    slope = (_thrusts(iris, command + step) - _thrusts(iris, command - step)) / (2.0 * step)
    slope *= density / iris.rotor_model.reference_density
    return angular_authority(iris, _geometry(iris), density, slope), _motor_lag(iris)


def _packaged_iris() -> str:
    return str(next(d / "iris.yaml" for d in airframe_directories()[1:] if (d / "iris.yaml").is_file()))


def _motor_lag(airframe: Airframe) -> float:
    """Mean time constant in s of a small change of rotor speed at hover."""
    motor = airframe.motor
    if isinstance(motor, DcMotor):
        # Linearised eq. 6: J R / Psi^2, sped up by the load's own slope 2 k_T C w.
        model = airframe.rotor_model
        speed = math.sqrt(airframe.mass * 9.80665 / len(airframe.rotors) / model.thrust_c2)
        damping = motor.flux**2 / motor.resistance
        damping += 2.0 * model.torque_thrust_ratio * model.thrust_c2 * speed
        return motor.inertia / damping
    return 0.5 * (motor.time_constant_up + motor.time_constant_down)


def _geometry(airframe: Airframe) -> Parameters:
    """CA_ROTOR* of an airframe, from its physics or from PX4's own geometry where the file gives it."""
    found: Parameters = {"CA_AIRFRAME": 0, "CA_ROTOR_COUNT": len(airframe.rotors)}
    own = airframe.px4.allocation
    for i, rotor in enumerate(airframe.rotors):
        axis = np.array(rotor.axis) / np.linalg.norm(rotor.axis)
        x, y, z = rotor.position
        ratio = airframe.rotor_model.torque_thrust_ratio
        if airframe.rotor_model.torque_g1 > 0.0 or airframe.rotor_model.table is not None:
            ratio = _torque_slope(airframe, i, airframe.rotor_model.reference_density)
        if own is not None:
            (x, y), z, ratio = own.positions[i], 0.0, own.moment_ratio
        found[f"CA_ROTOR{i}_PX"], found[f"CA_ROTOR{i}_PY"], found[f"CA_ROTOR{i}_PZ"] = x, y, z
        for name, component in zip("XYZ", axis, strict=True):
            found[f"CA_ROTOR{i}_A{name}"] = round(float(component), 6)
        found[f"CA_ROTOR{i}_KM"] = ratio if rotor.direction == "ccw" else -ratio
    return found


def parameters_for(airframe: Airframe, world: World | None = None, speed: float = 1.0) -> Parameters:
    """Everything PX4 must be told to fly an airframe.

    Args:
        airframe: the airframe; its ``px4.parameters`` override what is derived.
        world: for the density of the air; PX4's usual home where absent.
        speed: simulated over wall time; PX4's links run on wall time, so its time-outs, which run on
            simulated time, are stretched by it.

    Returns:
        name to value, in the order they are to be set.
    """
    world = world or World()
    environment = world.environment[0]
    _, _, density = air(environment, 0.0)
    result = performance(airframe.record, density, float(environment["gravity"]))
    found = _geometry(airframe)
    found["MAV_TYPE"] = MAV_TYPE.get(len(airframe.rotors), MAV_TYPE_OTHER)
    for i in range(len(airframe.rotors)):
        found[f"PWM_MAIN_FUNC{i + 1}"] = 101 + i
    found |= _thrust_parameters(airframe, float(np.mean(result.hover.command)))
    found |= _gain_parameters(airframe, found, density)
    tilt = math.degrees(math.acos(min(1.0, THRUST_RESERVE / max(result.thrust_to_weight, THRUST_RESERVE))))
    found["MPC_TILTMAX_AIR"] = round(min(DEFAULT_TILT, max(tilt, 20.0)), 1)
    found |= _sensor_parameters(airframe)
    found |= _time_parameters(speed)
    return found | airframe.px4.parameters


def _thrust_parameters(airframe: Airframe, hover_command: float) -> Parameters:
    factor = thrust_curve_factor(airframe)
    hover = factor * hover_command**2 + (1.0 - factor) * hover_command
    return {"THR_MDL_FAC": round(factor, 3), "MPC_THR_HOVER": round(min(max(hover, 0.1), 0.8), 3)}


def _gain_parameters(airframe: Airframe, geometry: Parameters, density: float) -> Parameters:
    """MC_*RATE_K: PX4's default loop gain, less where the motors are slower than those it was made for."""
    reference, reference_lag = _reference()
    factor = thrust_curve_factor(airframe)
    # With THR_MDL_FAC PX4 inverts the thrust curve, so a unit of setpoint is the full thrust of a rotor.
    full = _thrusts(airframe, 1.0) * density / airframe.rotor_model.reference_density
    hover = airframe.mass * 9.80665 / float(np.sum(full))
    command = (-(1.0 - factor) + math.sqrt((1.0 - factor) ** 2 + 4.0 * factor * hover)) / (2.0 * factor)
    step = 0.01
    slope = (_thrusts(airframe, command + step) - _thrusts(airframe, command - step)) / (2.0 * step)
    slope *= density / airframe.rotor_model.reference_density
    unit = slope / (2.0 * factor * command + 1.0 - factor)
    authority = angular_authority(airframe, geometry, density, unit)
    slower = min(1.0, reference_lag / _motor_lag(airframe))
    low, high = RATE_GAIN_RANGE
    gain = np.clip(slower * reference / np.maximum(authority, 1e-6), low, high)
    found: Parameters = {
        "MC_ROLLRATE_K": round(float(gain[0]), 3),
        "MC_PITCHRATE_K": round(float(gain[1]), 3),
        "MC_YAWRATE_K": round(float(min(gain[2], YAW_GAIN_MOST)), 3),
    }
    if slower < 1.0:
        # The attitude loop keeps its distance from the rate loop (PX4's default is 6.5 1/s).
        found["MC_ROLL_P"] = found["MC_PITCH_P"] = round(6.5 * slower, 2)
    return found


def _sensor_parameters(airframe: Airframe) -> Parameters:
    """Where PX4's estimator is to take the sensors to be, and how late they are."""
    # A BATTERY_STATUS from outside reaches PX4's battery_status with a remaining time of 0 s, not unknown
    # (mavlink_receiver.cpp, handle_message_battery_status), and PX4 would return at once.  COM_FLTT_LOW_ACT 0
    # would still make it hold for COM_FAIL_ACT_T; a time for the return that is below 0 s never does.
    found: Parameters = {
        "SIM_BAT_ENABLE": 0,
        "RTL_TIME_MARGIN": -1_000_000,
        "BAT1_N_CELLS": airframe.battery.cells,
    }
    if airframe.battery.capacity is not None:
        found["BAT1_CAPACITY"] = airframe.battery.capacity * 1000.0
    inertial = 0
    for sensor in airframe.sensors:
        if isinstance(sensor, GpsSpecification) and sensor.instance == 0:
            found["EKF2_GPS_DELAY"] = round(sensor.latency * 1e3, 1)
            found |= _place("EKF2_GPS_POS", sensor.position)
        elif isinstance(sensor, ImuSpecification):
            inertial += 1
            if sensor.instance == 0:
                found |= _place("EKF2_IMU_POS", sensor.position)
        elif isinstance(sensor, RangeFinderSpecification):
            found |= {"EKF2_RNG_DELAY": round(sensor.latency * 1e3, 1)}
            found |= _place("EKF2_RNG_POS", sensor.position)
        elif isinstance(sensor, OpticalFlowSpecification):
            found |= {"EKF2_OF_CTRL": 1, "EKF2_OF_DELAY": round(sensor.latency * 1e3, 1)}
            found |= _place("EKF2_OF_POS", sensor.position)
    found["EKF2_MULTI_IMU"] = inertial
    return found


def _place(name: str, position: tuple[float, float, float]) -> Parameters:
    return {f"{name}_{axis}": value for axis, value in zip("XYZ", position, strict=True) if value != 0.0}


def _time_parameters(speed: float) -> Parameters:
    """Time-outs of links that run on wall time, in the simulated seconds that PX4 counts."""
    factor = max(1.0, UNBOUNDED_SPEED if math.isinf(speed) else speed)
    return {
        "COM_OF_LOSS_T": min(1.0 * factor, FASTEST_LOSS_TIMEOUT),
        "COM_OBC_LOSS_T": min(5.0 * factor, FASTEST_LOSS_TIMEOUT),
        "COM_DL_LOSS_T": round(min(10.0 * factor, 300.0)),
        "COM_DISARM_PRFLT": 10.0 * factor,
        "SYS_FAILURE_EN": 1,
    }
