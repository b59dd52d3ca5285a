"""The MAVLink messages with which PX4's SIH shows its vehicle to viewers, of any vehicle.

PX4 sends them by UDP to port 19410 + instance (ROMFS, init.d-posix/px4-rc.mavlink); Hawkeye and jMAVSim's
display read them there.  As in SIH, airspeeds are 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.link.mavlink import common as mavlink

COMPONENT = 1
"""MAV_COMP_ID_AUTOPILOT1."""
VEHICLE_TYPES = {
    3: mavlink.MAV_TYPE_TRICOPTER,
    4: mavlink.MAV_TYPE_QUADROTOR,
    6: mavlink.MAV_TYPE_HEXAROTOR,
    8: mavlink.MAV_TYPE_OCTOROTOR,
    12: mavlink.MAV_TYPE_DODECAROTOR,
}
"""By the number of rotors."""


class ViewerMessages:
    """The messages of one vehicle.

    Args:
        origin: latitude deg, longitude deg and altitude m of the world's origin.
        gravity: m/s^2 there.
    """

    def __init__(self, system: int, rotors: int, origin: tuple[float, float, float], gravity: float) -> None:
        self._out = mavlink.MAVLink(None, srcSystem=system, srcComponent=COMPONENT)
        self._type = VEHICLE_TYPES.get(rotors, mavlink.MAV_TYPE_GENERIC)
        self._projection = Projection(math.radians(origin[0]), math.radians(origin[1]), origin[2])
        self._gravity = gravity

    def _packed(self, message: Any) -> bytes:
        packed: bytes = message.pack(self._out)
        self._out.seq = (self._out.seq + 1) % 256
        return packed

    def heartbeat(self, row: Records) -> bytes:
        """HEARTBEAT of one ROW."""
        armed = bool(row["armed"])
        mode = mavlink.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
        state = mavlink.MAV_STATE_ACTIVE if armed else mavlink.MAV_STATE_STANDBY
        return self._packed(
            mavlink.MAVLink_heartbeat_message(
                self._type,
                mavlink.MAV_AUTOPILOT_PX4,
                mode | (mavlink.MAV_MODE_FLAG_SAFETY_ARMED if armed else 0),
                0,
                state,
                3,
            )
        )

    def state(self, row: Records) -> bytes:
        """HIL_STATE_QUATERNION of one ROW."""
        latitude, longitude, altitude = self._projection.place([float(x) for x in row["position"]])
        w, x, y, z = (float(q) for q in row["attitude"])
        force = Rotation.from_quat([x, y, z, w]).apply(np.array(row["specific_force"]))
        acceleration = (force + np.array([0.0, 0.0, self._gravity])) * 1e3 / STANDARD_GRAVITY
        return self._packed(
            mavlink.MAVLink_hil_state_quaternion_message(
                int(row["time"]),
                [w, x, y, z],
                *(float(rate) for rate in row["angular_velocity"]),
                round(latitude * 1e7),
                round(longitude * 1e7),
                round(altitude * 1e3),
                *(_short(speed * 1e2) for speed in row["velocity"]),
                0,
                0,
                *(_short(value) for value in acceleration),
            )
        )

    def controls(self, row: Records) -> bytes:
        """HIL_ACTUATOR_CONTROLS of one ROW."""
        mode = mavlink.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
        if row["armed"]:
            mode |= mavlink.MAV_MODE_FLAG_SAFETY_ARMED
        controls = [float(value) for value in np.nan_to_num(row["control"])]
        return self._packed(
            mavlink.MAVLink_hil_actuator_controls_message(int(row["time"]), controls, mode, 0)
        )


def _short(value: float) -> int:
    return round(min(max(float(value), -32768.0), 32767.0))
