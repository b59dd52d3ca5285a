"""Offboard mode, which passes a program's setpoints to the controller; descent without position."""

from __future__ import annotations

import math

from sitl_bridge.autopilot.commander_data import OffboardTarget
from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.modes.land_detector import PRESS_TIME, LandDetector
from sitl_bridge.autopilot.records import HEIGHT, IDLE, LEVEL_ATTITUDE, LEVEL_RATES, TRAJECTORY
from sitl_bridge.autopilot.setpoint_output import Output
from sitl_bridge.base.constants import STANDARD_GRAVITY

MIN_TAKEOFF_HEIGHT = 0.1
"""Minimum height of a position setpoint above the vehicle for a take-off, m; less is estimation noise."""

BLIND_DESCENT = 0.3
"""Downward acceleration of a descent without a height estimate, m/s^2 (FlightTaskDescend.cpp)."""


def is_meaningful(target: OffboardTarget) -> bool:
    """Return whether a target can be followed: no infinite values and a valid attitude quaternion."""
    numbers = (*target.position, *target.velocity, *target.acceleration)
    numbers += (target.yaw, target.yaw_rate, target.thrust, *(target.angular_velocity or ()))
    if any(map(math.isinf, numbers)):
        return False
    if target.angular_velocity is not None and any(map(math.isnan, target.angular_velocity)):
        return False
    if target.attitude is None:
        return True
    size = math.sqrt(sum(part * part for part in target.attitude))
    return abs(size - 1.0) < 0.01  # false for nan


class OffboardSignal:
    """The latest offboard setpoint of one vehicle.

    Attributes:
        target: the setpoint; None before the first.
    """

    def __init__(self) -> None:
        self.target: OffboardTarget | None = None
        self._time = -1

    def update(self, target: OffboardTarget, now: int) -> None:
        """Store a setpoint; ignore one with infinite values or an invalid attitude."""
        if is_meaningful(target):
            self.target = target
            self._time = now

    def is_available(self, now: int, timeout: float, position: bool, velocity: bool) -> bool:
        """Return whether Offboard mode can follow the signal.

        Args:
            now: us.
            timeout: s after which a setpoint expires.
            position: whether the position estimate is accurate enough.
            velocity: whether the velocity estimate is accurate enough.
        """
        target = self.target
        if target is None or now - self._time > timeout * 1e6:
            return False
        if target.attitude is not None or target.angular_velocity is not None:
            return True
        if any(map(math.isfinite, target.position)):
            return position
        if any(map(math.isfinite, target.velocity)):
            return velocity
        return any(map(math.isfinite, target.acceleration))


def follow_offboard(
    target: OffboardTarget, state: EstimatedState, land: LandDetector, output: Output
) -> bool:
    """Write an offboard target to the output; return whether it requests a take-off."""
    thrust = max(0.0, min(1.0, target.thrust)) if math.isfinite(target.thrust) else 0.0
    if target.attitude is not None:
        output.clear(LEVEL_ATTITUDE)
        output.attitude, output.yaw_rate, output.thrust = target.attitude, target.yaw_rate, thrust
        return False
    if target.angular_velocity is not None:
        output.clear(LEVEL_RATES)
        output.rates, output.thrust = target.angular_velocity, thrust
        return False
    output.clear(TRAJECTORY)
    output.x, output.y, output.z = target.position
    output.vx, output.vy, output.vz = target.velocity
    output.ax, output.ay, output.az = target.acceleration
    output.yaw, output.yaw_rate = target.yaw, target.yaw_rate
    if target.body_frame:
        c, s = math.cos(state.yaw), math.sin(state.yaw)
        output.vx, output.vy = c * output.vx - s * output.vy, s * output.vx + c * output.vy
        output.ax, output.ay = c * output.ax - s * output.ay, s * output.ax + c * output.ay
    if math.isfinite(output.z):
        return output.z < state.z - MIN_TAKEOFF_HEIGHT
    if math.isfinite(output.vz):
        climbs = output.vz < 0.0
        if land.press > 0.0:
            output.az = land.press + (output.az if math.isfinite(output.az) else 0.0)
        return climbs
    return math.isfinite(output.az) and output.az < 0.0


class BlindDescent:
    """Timer of a descent with an unknown height: elapsed time and expected time to the ground.

    PX4 descends until it is disarmed, with nearly hover thrust even on the ground.

    Attributes:
        height: last known height above home, m.
        seconds: s since then.
    """

    __slots__ = ("height", "seconds")

    def __init__(self) -> None:
        self.height = 0.0
        self.seconds = 0.0

    def update(self, state: EstimatedState, home_down: float, dt: float) -> None:
        """Update with a home at ``home_down`` m: store the height, or count the time without it."""
        if state.valid & HEIGHT:
            self.height = max(home_down - state.z, 0.0)
            self.seconds = 0.0
        else:
            self.seconds += dt

    def overdue(self, land_speed: float) -> float:
        """Return the time in s since the vehicle must be on the ground; negative before.

        The expected time is the time to fall the height at ``BLIND_DESCENT`` plus the time to descend it at
        the landing speed (m/s), because drag may limit the fall.
        """
        due = math.sqrt(2.0 * self.height / BLIND_DESCENT) + self.height / land_speed
        return self.seconds - due


def descend(
    values: dict[str, float], state: EstimatedState, land: LandDetector, blind: BlindDescent, output: Output
) -> None:
    """Descend level without a position estimate: the last resort."""
    yaw = output.yaw if output.level == TRAJECTORY and math.isfinite(output.yaw) else state.yaw
    output.clear(TRAJECTORY)
    output.yaw = yaw
    output.ax = output.ay = 0.0
    if state.valid & HEIGHT:
        output.vz = values["MPC_LAND_SPEED"]
        output.az = land.press
    else:
        # Reduce the thrust from the expected touchdown, to zero after the same time again.
        overdue = blind.overdue(values["MPC_LAND_SPEED"]) / PRESS_TIME
        output.az = BLIND_DESCENT + STANDARD_GRAVITY * max(0.0, min(overdue, 1.0))
        if overdue > 2.0:
            output.clear(IDLE)
