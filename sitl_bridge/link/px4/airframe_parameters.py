"""PX4 parameters computed from an airframe, so that an unmodified PX4 flies it.

The geometry sets PX4's control allocation (core/vehicle/control_effectiveness.py), the sensors its estimator
(estimator_parameters.py).  Gains and limits are PX4's own; where PX4 has no airframe for a vehicle and its
own would not fly it, they are scaled or lowered (rate_loop.py).  REASONS says why each is set.  startup.py
passes them to PX4.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.core.dynamics.performance import Performance, performance
from sitl_bridge.core.dynamics.proximity import hull
from sitl_bridge.core.dynamics.rotor_laws import in_plane_drag, thrust_and_torque
from sitl_bridge.core.sensors.perception.marker_detector import MarkerDetectorSpecification
from sitl_bridge.core.sensors.perception.obstacle_map import RangingSpecification, reports_obstacles
from sitl_bridge.core.sensors.perception.payload_camera import PayloadCameraSpecification
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.control_effectiveness import (
    Parameters,
    geometry,
    response,
    setpoint,
    thrust_curve_factor,
)
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.core.world.world import World
from sitl_bridge.link.px4.estimator_parameters import estimator_parameters
from sitl_bridge.link.px4.given_parameters import build_parameters, given_faults
from sitl_bridge.link.px4.rate_loop import ATTITUDE_GAINS, GAINS, SEPARATION, gain_for, reference_loop
from sitl_bridge.link.px4.versions import rename_for

__all__ = ["Parameters", "check_against_build", "parameters_for"]

CHANNELS = 16
"""Number of PWM_MAIN_FUNC parameters; those without a motor are cleared, whatever airframe PX4 starts
from."""
FIRST_MOTOR = 101
"""Output function of motor 1."""
MAV_TYPE = {3: 15, 4: 2, 6: 13, 8: 14}
"""MAVLink MAV_TYPE of tri-, quad-, hexa- and octorotor by number of rotors.  The commander accepts only these
as rotary wings (commander_helper.cpp), so any other number is declared a quadrotor."""
QUADROTOR = 2

DEFAULTS = {
    "MPC_THR_HOVER": 0.5,
    "MPC_THR_MIN": 0.12,
    "MPC_MANTHR_MIN": 0.08,
    "MPC_TILTMAX_AIR": 45.0,
    "MPC_ACC_HOR": 3.0,
    "MPC_ACC_HOR_MAX": 5.0,
    "MPC_ACC_UP_MAX": 4.0,
    "MPC_XY_VEL_MAX": 12.0,
    "MPC_VEL_MANUAL": 10.0,
    "MPC_XY_CRUISE": 5.0,
    "MPC_Z_VEL_MAX_UP": 3.0,
    "MPC_Z_V_AUTO_UP": 3.0,
    **{f"MC_{axis}RATE_K": 1.0 for axis in ("ROLL", "PITCH", "YAW")},
    **{f"MC_{axis}RATE_I": gains[1] for axis, gains in zip(("ROLL", "PITCH", "YAW"), GAINS, strict=True)},
    **{f"MC_{axis}_P": gain for axis, gain in zip(("ROLL", "PITCH", "YAW"), ATTITUDE_GAINS, strict=True)},
    "MC_YAWRATE_MAX": 200.0,
    "MPC_YAWRAUTO_MAX": 45.0,
    "MPC_YAWRAUTO_ACC": 60.0,
    "MPC_MAN_Y_MAX": 150.0,
    "COM_DL_LOSS_T": 10.0,
    "COM_OBC_LOSS_T": 5.0,
    "COM_OF_LOSS_T": 1.0,
    "COM_RC_LOSS_T": 0.5,
    "COM_DISARM_PRFLT": 10.0,
}
"""PX4's defaults of the parameters scaled or lowered here (parameters.json; COM_OF_LOSS_T also in rcS)."""
MAXIMA = {
    "MPC_XY_CRUISE": "MPC_XY_VEL_MAX",
    "MPC_VEL_MANUAL": "MPC_XY_VEL_MAX",
    "MPC_Z_V_AUTO_UP": "MPC_Z_VEL_MAX_UP",
}
"""Speeds that PX4 itself lowers to these maxima (MulticopterPositionControl.cpp, parameters_update)."""
MAX_TIMEOUTS = {"COM_DL_LOSS_T": 300.0, "COM_OBC_LOSS_T": 60.0, "COM_OF_LOSS_T": 60.0, "COM_RC_LOSS_T": 35.0}
"""Largest values that PX4 allows, s."""
UNLIMITED_SPEED = 30.0
"""Speed factor assumed for time-outs of a simulation without a speed limit: with constant sensors, PX4
answers at 21 to 29 times real time on an ordinary machine."""
THRUST_RESERVE = 1.1
"""Thrust over weight reserved for control at the largest tilt and in the fastest climb (derived: PX4 keeps as
much, MPC_THR_XY_MARG 0.3 of the thrust sideways is 5 % of it upwards)."""
TILT_RANGE = (20.0, 45.0)
"""Smallest value that PX4 allows for MPC_TILTMAX_AIR, and its default, deg."""
CURRENT_SLOPE, IDLE_CURRENT = 15.0, 1.0
"""A: current that PX4's simulator module invents for a motor, 1 A + 15 A times the command c of an armed
motor, running or not (SimulatorMavlink.cpp, send_esc_telemetry)."""
CURRENT_MARGIN = 1.0
"""A by which a motor's current may differ further from a healthy motor's."""
STOPPING_MARGIN = 1.0
"""m between the vehicle's hull and an obstacle at which collision prevention stops it (derived: several times
what it overshoots by, under half a metre from 5 m/s)."""
TRACKING_DELAY = 0.4
"""s, CP_DELAY's default: of the position controller."""
LONGEST_DELAY = 1.0
"""s, greatest CP_DELAY."""
STATIONARY, UNTURNED = 1, 0
"""LTEST_MODE and LTEST_SENS_ROT: the marker stands, and the picture's top is ahead."""
TRIGGER_ON_COMMAND, TRIGGER_BY_MAVLINK = 4, 3
"""TRIG_MODE: by distance, on command; TRIG_INTERFACE: PX4 sends CAMERA_TRIGGER."""
GIMBAL_PROTOCOL_2, GIMBAL_DEVICE = 4, 2
"""MNT_MODE_IN and MNT_MODE_OUT: PX4 manages a gimbal that is a MAVLink component."""
DIRECT_VELOCITY, SMOOTHED_VELOCITY = 0, 3
"""MPC_POS_MODE: sticks are velocities; and a mode that went when collision prevention was changed."""
REASONS = {
    r"CA_|MAV_TYPE|PWM_MAIN_FUNC": "airframe: the rotors' places, axes and turning, and their outputs",
    r"THR_MDL_FAC": "airframe: the curve of thrust over command, which PX4's documentation asks for",
    r"MPC_THR_HOVER": "airframe: thrust in a hover; PX4's estimator begins with it",
    r"MPC_(MAN)?THR_MIN": "airframe: hovers at less than the half for which PX4's least thrust is: it would"
    " sink too slowly, and landing is detected by it",
    r"MC_(ROLL|PITCH|YAW)(RATE_[KI]|_P)$": "airframe: with PX4's own gains the rate loop has less than 45 deg"
    " of phase margin, or is too slow for the attitude loop",
    r"MC_YAWRATE_MAX|MPC_YAWRAUTO_|MPC_MAN_Y_MAX": "airframe: its rotors turn and stop it no faster",
    r"MPC_": "airframe: its thrust or drag allows less than PX4's own",
    r"EKF2_|SENS_|SYS_HAS_|IMU_INTEG_RATE": "sensors: number, places, delays and rates, and noise above what"
    " PX4's own assumes",
    r"CP_|LTEST_|TRIG_|MNT_": "sensors that report obstacles or a marker, or take photos",
    r"BAT1_|SIM_BAT_|RTL_TIME_MARGIN": "battery, and a remaining time that PX4's link takes for zero",
    r"COM_(OF_LOSS_T|OBC_LOSS_T|DL_LOSS_T|RC_LOSS_T|DISARM_PRFLT)$": "link: time-outs of programs in wall"
    " time, which PX4 counts in simulated time",
    r"UXRCE_DDS_SYNCT": "speed: PX4's uXRCE-DDS client would follow its agent's wall clock",
    r"SYS_FAILURE_EN": "link: faults may be injected",
    r"FD_ACT_|MOTFAIL_": "link: PX4's simulator module makes up the motors' currents",
}
"""Why a parameter is set, by the beginning of its name; the first that fits."""


def parameters_for(
    airframe: Airframe,
    world: World | None = None,
    speed: float = 1.0,
    *,
    battery_over_mavlink: bool = True,
) -> Parameters:
    """Return all PX4 parameters that an airframe needs.

    Args:
        airframe: the airframe; its ``px4.parameters`` override the computed ones.
        world: for gravity and air density; by default PX4's usual home.
        speed: simulated over wall time; inf without a limit.  PX4's MAVLink links run in wall time but their
            time-outs in simulated time, so these are multiplied by it.
        battery_over_mavlink: True if the simulated battery is sent to PX4 as BATTERY_STATUS; otherwise PX4
            simulates a battery that lasts for the airframe's hover endurance.

    Returns:
        name to value, in the order of setting.

    Raises:
        UserError: for an airframe that cannot hover.
    """
    try:
        return _derive(airframe, world or World(), speed, battery_over_mavlink)
    except (ArithmeticError, ValueError) as error:
        raise UserError(
            f"{airframe.name}: cannot compute PX4 parameters ({error}); compare thrust, torque,"
            " motor and inertia with those of a similar airframe"
        ) from error


def _derive(airframe: Airframe, world: World, speed: float, battery_over_mavlink: bool) -> Parameters:
    environment = world.environment[0]
    _, _, density = air(environment, 0.0)
    result = performance(airframe.record, density, float(environment["gravity"]))
    given, known = airframe.px4.parameters, airframe.px4.airframe is not None
    factor = float(given.get("THR_MDL_FAC", 0.0 if known else round(thrust_curve_factor(airframe), 3)))
    found = geometry(airframe)
    found["MAV_TYPE"] = MAV_TYPE.get(len(airframe.rotors), QUADROTOR)
    for channel in range(CHANNELS):
        found[f"PWM_MAIN_FUNC{channel + 1}"] = FIRST_MOTOR + channel if channel < len(airframe.rotors) else 0
    hover = float(np.mean(setpoint(factor, result.hover.command)))
    found["MPC_THR_HOVER"] = round(min(max(hover, 0.1), 0.8), 3)
    if not known:
        own = _thrust(hover, factor)
        own |= _gains_and_yaw(airframe, found, result, density, factor)
        own |= _limits(airframe, result, density)
        found |= {name: value for name, value in own.items() if value != DEFAULTS.get(name)}
    found |= estimator_parameters(airframe)
    found |= _perception(airframe)
    found |= _battery(airframe, result, over_mavlink=battery_over_mavlink)
    found |= scaled_time_outs({name: DEFAULTS[name] for name in TIME_OUTS}, speed)
    if speed != 1.0:
        found[DDS_CLOCK] = 0
    found["SYS_FAILURE_EN"] = 1
    found |= _motor_failure(factor)
    undefined = [name for name, value in found.items() if math.isnan(value)]
    if undefined:
        raise ValueError(f"{undefined[0]} is not a number")
    found |= given
    for name, most in MAXIMA.items():
        if most in given and name not in given:
            found[name] = min(found.get(name, DEFAULTS[name]), given[most])
    return found


def reason_of(name: str, airframe: Airframe) -> str:
    """Return why a parameter is set for an airframe."""
    if name in airframe.px4.parameters:
        own = airframe.px4.airframe
        return "the airframe file" if own is None else f"the airframe file: PX4's own {own}"
    return next(reason for pattern, reason in REASONS.items() if re.match(pattern, name))


def _thrust(hover: float, factor: float) -> Parameters:
    """Return thrust curve and minimum thrust.

    The hover thrust is the mean of the rotors' thrust setpoints: PX4 normalises its mix so that a unit of
    collective thrust is a mean of one.  Minimum thrusts keep PX4's ratio to it, so that a powerful vehicle
    can still descend and its landing is detected (land detector: 10 % above the minimum).
    """
    share = min(hover / DEFAULTS["MPC_THR_HOVER"], 1.0)
    return {
        "THR_MDL_FAC": factor,
        "MPC_THR_MIN": round(max(DEFAULTS["MPC_THR_MIN"] * share, 0.05), 3),
        "MPC_MANTHR_MIN": round(DEFAULTS["MPC_MANTHR_MIN"] * share, 3),
    }


def _gains_and_yaw(
    airframe: Airframe, found: Parameters, result: Performance, density: float, factor: float
) -> Parameters:
    """Return the gains of the rate and attitude loops and the yaw rate limits.

    The attitude loop's gain is reduced where the rate loop would be too slow for it.  A yaw setpoint may move
    the rotors from hover to the nearer end of their range: half of it for the planned turns of automatic
    modes, all of it for the attitude loop's command to stop a turn, P times its rate.
    """
    answer = response(airframe, found, result.hover, density, factor)
    wanted = [reference_loop(axis) for axis in range(3)]
    loops = [gain_for(axis, answer, wanted[axis]) for axis in range(3)]
    gains: Parameters = {}
    for axis, name in enumerate(("ROLL", "PITCH", "YAW")):
        gains[f"MC_{name}RATE_K"] = round(float(loops[axis].factor), 3)
        gains[f"MC_{name}RATE_I"] = round(GAINS[axis][1] * float(loops[axis].integral), 4)
        gains[f"MC_{name}_P"] = round(min(ATTITUDE_GAINS[axis], float(loops[axis].crossover) / SEPARATION), 2)
    hover = float(found["MPC_THR_HOVER"])
    turning = float(answer.authority[2]) * min(hover, 1.0 - hover)
    rate = math.degrees(turning / gains["MC_YAW_P"])
    gains["MC_YAWRATE_MAX"] = round(max(min(DEFAULTS["MC_YAWRATE_MAX"], rate), 5.0), 1)
    for name in ("MPC_YAWRAUTO_MAX", "MPC_MAN_Y_MAX"):
        gains[name] = min(DEFAULTS[name], gains["MC_YAWRATE_MAX"])
    gains["MPC_YAWRAUTO_ACC"] = round(
        max(min(DEFAULTS["MPC_YAWRAUTO_ACC"], 0.5 * math.degrees(turning)), 5.0), 1
    )
    return gains


def _limits(airframe: Airframe, result: Performance, density: float) -> Parameters:
    """Return tilt, accelerations and speeds, lowered from PX4's defaults to the vehicle's performance.

    At the largest tilt the thrust carries the weight with a reserve.  At the level speed, drag balances the
    horizontal thrust at that tilt, less the same reserve; faster setpoints could not be followed.
    """
    tilt = math.degrees(math.acos(min(1.0, THRUST_RESERVE / max(result.thrust_to_weight, THRUST_RESERVE))))
    tilt = min(max(tilt, TILT_RANGE[0]), TILT_RANGE[1])
    sideways = STANDARD_GRAVITY * math.tan(math.radians(tilt))
    upwards = STANDARD_GRAVITY * (result.thrust_to_weight / THRUST_RESERVE - 1.0)
    speed = level_speed(airframe, result, density, math.radians(tilt)) / THRUST_RESERVE
    climb = _climb_speed(airframe, result, density)
    found: Parameters = {
        "MPC_TILTMAX_AIR": round(tilt, 1),
        "MPC_ACC_HOR": _lower("MPC_ACC_HOR", 0.5 * sideways, 2.0),
        "MPC_ACC_HOR_MAX": _lower("MPC_ACC_HOR_MAX", 0.8 * sideways, 2.0),
        "MPC_ACC_UP_MAX": _lower("MPC_ACC_UP_MAX", upwards, 2.0),
        "MPC_XY_VEL_MAX": _lower("MPC_XY_VEL_MAX", speed, 3.0),
        "MPC_VEL_MANUAL": _lower("MPC_VEL_MANUAL", speed, 3.0),
        "MPC_XY_CRUISE": _lower("MPC_XY_CRUISE", speed, 3.0),
        "MPC_Z_VEL_MAX_UP": _lower("MPC_Z_VEL_MAX_UP", climb, 0.5),
    }
    found["MPC_Z_V_AUTO_UP"] = found["MPC_Z_VEL_MAX_UP"]
    return found


def _lower(name: str, value: float, least: float) -> float:
    """Return the value, limited to PX4's default above and its allowed minimum below."""
    return round(max(min(DEFAULTS[name], value), least), 2)


def level_speed(airframe: Airframe, result: Performance, density: float, tilt: float) -> float:
    """Return the speed in m/s at which drag balances weight times tan(tilt), with the rotors at hover speed.

    In-plane rotor drag grows with speed, body drag with its square: W tan(tilt) = a v + b v^2.
    """
    record = airframe.record
    linear = in_plane_drag(record, result.hover.rotor_speed, density)
    square = float(record["drag_force"][0]) * density / float(record["drag_density"])
    push = airframe.mass * STANDARD_GRAVITY * math.tan(tilt)
    if square == 0.0:
        return push / linear if linear > 0.0 else math.inf
    return (-linear + math.sqrt(linear**2 + 4.0 * square * push)) / (2.0 * square)


def _climb_speed(airframe: Airframe, result: Performance, density: float) -> float:
    """Return the largest climb speed in m/s at which full thrust carries the weight with the reserve."""
    record = airframe.record
    up = -record["rotor_axis"][: len(airframe.rotors), 2]

    def reserve(speed: float) -> float:
        lift = sum(
            float(up[k]) * thrust_and_torque(record, k, float(result.full_speed[k]), speed, density)[0]
            for k in range(len(airframe.rotors))
        )
        drag = float(record["drag_force"][2]) * density / float(record["drag_density"]) * speed**2
        return lift - drag - THRUST_RESERVE * airframe.mass * STANDARD_GRAVITY

    speeds = np.arange(0.5, DEFAULTS["MPC_Z_VEL_MAX_UP"] + 0.05, 0.1)
    climbing = [float(v) for v in speeds if reserve(float(v)) >= 0.0]
    return max(climbing, default=0.5)


def _battery(airframe: Airframe, result: Performance, *, over_mavlink: bool) -> Parameters:
    """Return the battery source and the pack's parameters.

    PX4 stores a received BATTERY_STATUS with a remaining time of 0 s instead of unknown
    (mavlink_receiver.cpp, handle_message_battery_status) and would return at once.  With COM_FLTT_LOW_ACT 0
    it would still hold for COM_FAIL_ACT_T; a return time below 0 s prevents both.
    """
    battery = airframe.battery
    found: Parameters = {
        "BAT1_N_CELLS": battery.cells,
        "BAT1_V_CHARGED": battery.cell_voltage[-1],
        "BAT1_V_EMPTY": battery.cell_voltage[1],
        "BAT1_R_INTERNAL": round(min(battery.resistance / battery.cells, 0.2), 5),
    }
    if battery.capacity is not None:
        found["BAT1_CAPACITY"] = battery.capacity * 1000.0
    if over_mavlink:
        return found | {"SIM_BAT_ENABLE": 0, "RTL_TIME_MARGIN": -1_000_000}
    lasts = min(max(result.endurance, 1.0), 86400.0)
    return found | {"SIM_BAT_ENABLE": 1, "SIM_BAT_DRAIN": round(lasts, 1), "SIM_BAT_MIN_PCT": 0.0}


def reach(airframe: Airframe) -> float:
    """Radius in m of the vehicle seen from above."""
    shape = hull(airframe.vehicle())
    spheres = shape["sphere"][: int(shape["sphere_count"])]
    return float(max(math.hypot(x, y) + radius for x, y, _, radius in spheres.tolist()))


def _perception(airframe: Airframe) -> Parameters:
    """CP_*, LTEST_*, TRIG_* and MNT_*, for sensors that report obstacles or a marker, or take photos."""
    found: Parameters = {}
    for sensor in airframe.perception_sensors():
        if isinstance(sensor, RangingSpecification) and reports_obstacles(sensor):
            delay = min(TRACKING_DELAY + sensor.latency + 0.5 * sensor.exposure, LONGEST_DELAY)
            found["CP_DIST"] = round(reach(airframe) + STOPPING_MARGIN, 2)
            found["CP_DELAY"] = max(found.get("CP_DELAY", 0.0), round(delay, 2))
        elif isinstance(sensor, MarkerDetectorSpecification):
            found |= {"LTEST_MODE": STATIONARY, "LTEST_SENS_ROT": UNTURNED}
            found |= {f"LTEST_SENS_POS_{axis}": v for axis, v in zip("XYZ", sensor.position, strict=True)}
        elif isinstance(sensor, PayloadCameraSpecification):
            found |= {"TRIG_MODE": TRIGGER_ON_COMMAND, "TRIG_INTERFACE": TRIGGER_BY_MAVLINK}
            found["TRIG_MIN_INTERVA"] = round(1000.0 * sensor.interval, 1)
            if sensor.gimbal is not None:
                found |= {"MNT_MODE_IN": GIMBAL_PROTOCOL_2, "MNT_MODE_OUT": GIMBAL_DEVICE}
    return found


def _motor_failure(factor: float) -> Parameters:
    """Return what PX4's check of the motors' currents expects of the invented ones.

    The check compares a motor's current with its thrust setpoint T, and the thrust curve gives T = f c^2 +
    (1 - f) c: so 15 c exceeds 15 T by 15 f/4 at most.  Up to v1.17, FD_ACT_MOT_C2T is the least current per
    T.  In main of March 2026 it is the expected one, and FD_ACT_LOW_OFF is taken off: with its 35 A and 10 A,
    healthy motors would fail from half thrust on.  In v1.18, MOTFAIL_OFF is the accepted difference in either
    direction, and the current model has a constant, MOTFAIL_IDLE, in later versions only.
    """
    over = IDLE_CURRENT + CURRENT_SLOPE * factor / 4.0
    return {
        "FD_ACT_MOT_C2T": CURRENT_SLOPE,
        "FD_ACT_LOW_OFF": CURRENT_MARGIN,
        "MOTFAIL_C2T": CURRENT_SLOPE,
        "MOTFAIL_IDLE": IDLE_CURRENT,
        "MOTFAIL_OFF": round(over + CURRENT_MARGIN, 2),
    }


DDS_CLOCK = "UXRCE_DDS_SYNCT"
"""Whether PX4's uXRCE-DDS client follows the wall clock of its agent, which jumps and drops Offboard at other
speeds than 1; without it stamps are those of simulated time."""
TIME_OUTS = ("COM_OF_LOSS_T", "COM_OBC_LOSS_T", "COM_DL_LOSS_T", "COM_RC_LOSS_T", "COM_DISARM_PRFLT")


def scaled_time_outs(parameters: Parameters, speed: float) -> Parameters:
    """Return parameters with time-outs of processes in wall time, in the simulated seconds that PX4 counts.

    Links, and scripts that arm before they take off, run in wall time: at 20 times real time the 10 s after
    which PX4 disarms on the ground pass in half a second.
    """
    factor = max(1.0, UNLIMITED_SPEED if math.isinf(speed) else speed)
    found = {
        name: min(parameters[name] * factor, MAX_TIMEOUTS.get(name, math.inf))
        for name in TIME_OUTS
        if name in parameters
    }
    if "COM_DL_LOSS_T" in found:
        found["COM_DL_LOSS_T"] = round(found["COM_DL_LOSS_T"])
    return parameters | found


def station_time_out(speed: float) -> Parameters:
    """Return the time-out of ground stations alone, whose heartbeats come by wall time, at a speed factor."""
    return scaled_time_outs({"COM_DL_LOSS_T": DEFAULTS["COM_DL_LOSS_T"]}, speed)


def collision_prevention_mode(parameters: Parameters, known: Mapping[str, ReadJson] | None) -> Parameters:
    """MPC_POS_MODE where a PX4 prevents collisions in one mode of the sticks only.

    Up to v1.15, FlightTaskManualPosition alone does (mode 0); from v1.16 on, StickAccelerationXY (mode 4, the
    default).  The change removed mode 3.

    Args:
        known: the build's own list; None where it carries none.
    """
    if known is None or parameters.get("CP_DIST", -1.0) <= 0.0 or "MPC_POS_MODE" in parameters:
        return {}
    values = [entry["value"] for entry in known.get("MPC_POS_MODE", {}).get("values", ())]
    return {"MPC_POS_MODE": DIRECT_VELOCITY} if SMOOTHED_VELOCITY in values else {}


def check_against_build(parameters: Parameters, etc: Path, given: Parameters) -> tuple[Parameters, list[str]]:
    """Return the parameters that a PX4 build supports.

    Args:
        parameters: computed and given parameters.
        given: parameters given by name.

    Returns:
        the parameters by this PX4's names, without the computed ones that it does not have, and the names of
        those.  For a build without a list of its parameters, renamed ones are included by both names.

    Raises:
        UserError: for given parameters that it does not have, cannot store or does not allow.
    """
    known = build_parameters(etc)
    parameters = rename_for(parameters, known)
    parameters = parameters | collision_prevention_mode(parameters, known)
    if known is None:
        return parameters, []
    faults = given_faults(given, known, etc, own_battery=parameters.get("SIM_BAT_ENABLE", 0) == 1)
    if faults:
        raise UserError("parameters of PX4: " + "; ".join(faults))
    absent = [name for name in parameters if name not in known]
    return {name: value for name, value in parameters.items() if name in known}, absent
