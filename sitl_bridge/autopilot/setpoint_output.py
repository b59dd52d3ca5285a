"""The setpoint as plain numbers while it is made up, and how it goes into the record."""

from __future__ import annotations

import math
from typing import Any

from sitl_bridge.autopilot.records import OFF

LEVEL_QUATERNION = (1.0, 0.0, 0.0, 0.0)


class Output:
    """The fields of SETPOINT as floats; see there."""

    __slots__ = (
        "attitude",
        "ax",
        "ay",
        "az",
        "level",
        "max_down",
        "max_horizontal",
        "max_tilt",
        "max_up",
        "on_ground",
        "rates",
        "thrust",
        "vx",
        "vy",
        "vz",
        "x",
        "y",
        "yaw",
        "yaw_rate",
        "z",
    )

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

    def write(self, setpoint: Any) -> None:
        """Into a () SETPOINT record."""
        setpoint["level"] = self.level
        setpoint["position"] = (self.x, self.y, self.z)
        setpoint["velocity"] = (self.vx, self.vy, self.vz)
        setpoint["acceleration"] = (self.ax, self.ay, self.az)
        setpoint["yaw"] = self.yaw
        setpoint["yaw_rate"] = self.yaw_rate
        setpoint["attitude"] = self.attitude
        setpoint["angular_velocity"] = self.rates
        setpoint["thrust"] = self.thrust
        setpoint["on_ground"] = self.on_ground
        setpoint["max_horizontal_speed"] = self.max_horizontal
        setpoint["max_up_speed"] = self.max_up
        setpoint["max_down_speed"] = self.max_down
        setpoint["max_tilt"] = self.max_tilt
