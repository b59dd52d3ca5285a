"""Messages with controller setpoints and outputs."""

from __future__ import annotations

import math
from typing import Any

from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.mavlink.vehicle_snapshot import Snapshot, uint16
from sitl_bridge.link.mavlink import common as mavlink

PULSE_AT_REST, PULSE_RANGE = 1000, 1000
"""Servo pulse at motor command 0 and its increase to command 1, us (PX4's simulated outputs)."""


def attitude_target(s: Snapshot) -> Any:
    """ATTITUDE_TARGET; without attitude at the trajectory level, because the controller computes its own."""
    setpoint = s.source.setpoint
    level = int(setpoint["level"])
    mask = 0 if level == records.LEVEL_RATES else 7
    mask |= 0 if level == records.LEVEL_ATTITUDE else mavlink.ATTITUDE_TARGET_TYPEMASK_ATTITUDE_IGNORE
    if level not in (records.LEVEL_ATTITUDE, records.LEVEL_RATES):
        mask |= mavlink.ATTITUDE_TARGET_TYPEMASK_THROTTLE_IGNORE
    thrust = float(setpoint["thrust"])
    return mavlink.MAVLink_attitude_target_message(
        s.boot_ms,
        mask,
        setpoint["attitude"].tolist(),
        *setpoint["angular_velocity"].tolist(),
        thrust,
    )


def position_target_local_ned(s: Snapshot) -> Any:
    """POSITION_TARGET_LOCAL_NED; uncontrolled values are nan and masked, as in PX4."""
    setpoint = s.source.setpoint
    if int(setpoint["level"]) != records.TRAJECTORY:
        return None
    values = [
        *setpoint["position"].tolist(),
        *setpoint["velocity"].tolist(),
        *setpoint["acceleration"].tolist(),
        float(setpoint["yaw"]),
        float(setpoint["yaw_rate"]),
    ]
    # bits 0 to 8 position, velocity, acceleration; 9 is "force"; 10 yaw, 11 yaw rate
    bits = [*range(9), 10, 11]
    mask = sum(1 << bit for bit, value in zip(bits, values, strict=True) if not math.isfinite(value))
    return mavlink.MAVLink_position_target_local_ned_message(
        s.boot_ms, mavlink.MAV_FRAME_LOCAL_NED, mask, *values
    )


def servo_output_raw(s: Snapshot) -> Any:
    """SERVO_OUTPUT_RAW: motor commands as pulses; 0 for unused outputs."""
    count = s.source.rotor_count
    controls = s.source.controls.tolist()[:16]
    pulses = [uint16(PULSE_AT_REST + PULSE_RANGE * value, 0) for value in controls[:count]]
    pulses += [0] * (16 - len(pulses))
    return mavlink.MAVLink_servo_output_raw_message(s.now & 0xFFFFFFFF, 0, *pulses)
