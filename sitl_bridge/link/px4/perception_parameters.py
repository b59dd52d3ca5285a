"""PX4 parameters that follow from the sensors that see the scene."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sitl_bridge.core.sensors.perception.payload_camera import PayloadCameraSpecification
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.control_effectiveness import Parameters
from sitl_bridge.core.vehicle.perception_settings import collision_prevention, landing_target

TRIGGER_ON_COMMAND, TRIGGER_BY_MAVLINK = 4, 3
"""TRIG_MODE: by distance, on command; TRIG_INTERFACE: PX4 sends CAMERA_TRIGGER."""
GIMBAL_PROTOCOL_2, GIMBAL_DEVICE = 4, 2
"""MNT_MODE_IN and MNT_MODE_OUT: PX4 manages a gimbal that is a MAVLink component."""
DIRECT_VELOCITY, SMOOTHED_VELOCITY = 0, 3
"""MPC_POS_MODE: sticks are velocities; and a mode that went when collision prevention was changed."""


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


def collision_prevention_mode(
    parameters: Parameters, known: Mapping[str, Mapping[str, Any]] | None
) -> Parameters:
    """MPC_POS_MODE where a PX4 prevents collisions in one mode of the sticks only.

    Up to v1.15, FlightTaskManualPosition alone does (mode 0); from v1.16 on, StickAccelerationXY (mode 4, the
    default).  The change removed mode 3.

    Args:
        parameters: for the build.
        known: the build's own list; None where it carries none.
    """
    if known is None or parameters.get("CP_DIST", -1.0) <= 0.0 or "MPC_POS_MODE" in parameters:
        return {}
    values = [entry["value"] for entry in known.get("MPC_POS_MODE", {}).get("values", ())]
    return {"MPC_POS_MODE": DIRECT_VELOCITY} if SMOOTHED_VELOCITY in values else {}
