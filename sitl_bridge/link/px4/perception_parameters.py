"""PX4 parameters that follow from the sensors that see the scene."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.core.dynamics.proximity import hull
from sitl_bridge.core.sensors.perception.marker_detector import MarkerDetectorSpecification
from sitl_bridge.core.sensors.perception.obstacle_map import RangingSpecification, reports_obstacles
from sitl_bridge.core.sensors.perception.payload_camera import PayloadCameraSpecification
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.control_effectiveness import Parameters

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


def reach(airframe: Airframe) -> float:
    """Radius in m of the vehicle seen from above."""
    shape = hull(airframe.vehicle())
    spheres = shape["sphere"][: int(shape["sphere_count"])]
    return float(max(math.hypot(x, y) + radius for x, y, _, radius in spheres.tolist()))


def collision_prevention(airframe: Airframe) -> Parameters:
    """CP_DIST and CP_DELAY, where a sensor reports obstacles."""
    sensors = [s for s in airframe.seeing_sensors() if isinstance(s, RangingSpecification)]
    late = [s.latency + 0.5 * s.exposure for s in sensors if reports_obstacles(s)]
    if not late:
        return {}
    return {
        "CP_DIST": round(reach(airframe) + STOPPING_MARGIN, 2),
        "CP_DELAY": round(min(TRACKING_DELAY + max(late), LONGEST_DELAY), 2),
    }


def landing_target(airframe: Airframe) -> Parameters:
    """LTEST_*, where a sensor reports a landing marker."""
    found: Parameters = {}
    for sensor in airframe.seeing_sensors():
        if isinstance(sensor, MarkerDetectorSpecification):
            found |= {"LTEST_MODE": STATIONARY, "LTEST_SENS_ROT": UNTURNED}
            found |= {f"LTEST_SENS_POS_{axis}": v for axis, v in zip("XYZ", sensor.position, strict=True)}
    return found


def perception_parameters(airframe: Airframe) -> Parameters:
    """CP_*, LTEST_*, TRIG_* and MNT_*, for sensors that report obstacles or a marker, or take photos."""
    found: Parameters = {**collision_prevention(airframe), **landing_target(airframe)}
    for sensor in airframe.seeing_sensors():
        if isinstance(sensor, PayloadCameraSpecification):
            found |= {"TRIG_MODE": TRIGGER_ON_COMMAND, "TRIG_INTERFACE": TRIGGER_BY_MAVLINK}
            found["TRIG_MIN_INTERVA"] = round(1000.0 * sensor.interval, 1)
            if sensor.gimbal is not None:
                found |= {"MNT_MODE_IN": GIMBAL_PROTOCOL_2, "MNT_MODE_OUT": GIMBAL_DEVICE}
    return found


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
