"""The setpoint as plain numbers while it is made up, and how it goes into the record."""

from __future__ import annotations

import math

from sitl_bridge.autopilot.estimate import make_unpacker
from sitl_bridge.autopilot.records import OFF, SETPOINT
from sitl_bridge.base.kernels.record import Packed

LEVEL_QUATERNION = (1.0, 0.0, 0.0, 0.0)
_WORDS = make_unpacker(SETPOINT, SETPOINT.names or ())


class Output:
    """The fields of SETPOINT as floats; see there."""

    def __init__(self) -> None:
        self.clear(OFF)
        self.max_horizontal = self.max_up = self.max_down = self.max_tilt = self.on_ground = 0.0

    def clear(self, level: int) -> None:
        """Control nothing but the level."""
        self.level = level
        nan = math.nan
        self.x = self.y = self.z = nan
        self.vx = self.vy = self.vz = nan
        self.ax = self.ay = self.az = nan
        self.yaw = self.yaw_rate = nan
        self.attitude = LEVEL_QUATERNION
        self.rates = (0.0, 0.0, 0.0)
        self.thrust = 0.0

    def stay_level(self) -> None:
        """Give up where it is going, and stay upright."""
        self.x = self.y = self.vx = self.vy = math.nan
        self.ax = self.ay = 0.0

    def write(self, setpoint: Packed) -> None:
        """Into a () array of SETPOINT, in the order of its fields."""
        _WORDS.pack_into(
            setpoint,
            0,
            self.level,
            *(self.x, self.y, self.z),
            *(self.vx, self.vy, self.vz),
            *(self.ax, self.ay, self.az),
            self.yaw,
            self.yaw_rate,
            *self.attitude,
            *self.rates,
            self.thrust,
            self.on_ground,
            self.max_horizontal,
            self.max_up,
            self.max_down,
            self.max_tilt,
        )
