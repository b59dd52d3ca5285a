"""Offboard: what a program asks for goes to the controller as it is.  And the descent of last resort."""

from __future__ import annotations

import math

from sitl_bridge.autopilot.commander_data import OffboardTarget
from sitl_bridge.autopilot.estimate import VehicleState
from sitl_bridge.autopilot.modes.land_detector import GRAVITY, PRESS_TIME, LandDetector
from sitl_bridge.autopilot.records import HEIGHT, IDLE, LEVEL_ATTITUDE, LEVEL_RATES, TRAJECTORY
from sitl_bridge.autopilot.setpoint_output import Output

ABOVE = 0.1
"""m above the vehicle that a position must lie to ask for a take-off; less is noise of the estimate."""

BLIND_DESCENT = 0.3
"""m/s^2 of downward acceleration where no height is known (FlightTaskDescend.cpp)."""


def is_meaningful(target: OffboardTarget) -> bool:
    """Whether a target's numbers can be followed: none infinite, its attitude a rotation."""
    numbers = (*target.position, *target.velocity, *target.acceleration)
    numbers += (target.yaw, target.yaw_rate, target.thrust, *(target.angular_velocity or ()))
    if any(map(math.isinf, numbers)):
        return False
    if target.angular_velocity is not None and any(map(math.isnan, target.angular_velocity)):
        return False
    if target.attitude is None:
        return True
    size = math.sqrt(sum(part * part for part in target.attitude))
    return abs(size - 1.0) < 0.01  # false for nan, too


class OffboardSignal:
    """The latest offboard setpoint of one vehicle.

    Attributes:
        target: the setpoint; None before the first.
    """

    def __init__(self) -> None:
        self.target: OffboardTarget | None = None
        self._time = -1

    def take(self, target: OffboardTarget, now: int) -> None:
        """Take in a setpoint; one with an infinite number or without a direction is ignored."""
        if is_meaningful(target):
            self.target = target
            self._time = now

    def is_available(self, now: int, timeout: float, position: bool, velocity: bool) -> bool:
        """Whether Offboard mode can follow the signal.

        Args:
            now: us.
            timeout: s after which a setpoint is too old.
            position: whether the estimate of the position is good enough.
            velocity: whether the estimate of the velocity is.
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


def follow_offboard(target: OffboardTarget, state: VehicleState, land: LandDetector, output: Output) -> bool:
    """Put an offboard target into the output; True where it asks to leave the ground."""
    if target.attitude is not None:
        output.clear(LEVEL_ATTITUDE)
        output.attitude = target.attitude
        output.yaw_rate = target.yaw_rate
        output.thrust = max(0.0, min(1.0, target.thrust)) if math.isfinite(target.thrust) else 0.0
        return False
    if target.angular_velocity is not None:
        output.clear(LEVEL_RATES)
        output.rates = target.angular_velocity
        output.thrust = max(0.0, min(1.0, target.thrust)) if math.isfinite(target.thrust) else 0.0
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
        return output.z < state.z - ABOVE
    if math.isfinite(output.vz):
        climbs = output.vz < 0.0
        if land.press > 0.0:
            output.az = land.press + (output.az if math.isfinite(output.az) else 0.0)
        return climbs
    return math.isfinite(output.az) and output.az < 0.0


class BlindDescent:
    """How long a vehicle that has lost its height has gone down, and how long that should have taken.

    PX4 sinks on until somebody disarms it, with nearly the thrust of a hover on the ground, too.

    Attributes:
        height: m above home when it was last known.
        seconds: since then.
    """

    __slots__ = ("height", "seconds")

    def __init__(self) -> None:
        self.height = 0.0
        self.seconds = 0.0

    def update(self, state: VehicleState, home_down: float, dt: float) -> None:
        """Note the height above a home at ``home_down`` m, or that it is not known."""
        if state.valid & HEIGHT:
            self.height = max(home_down - state.z, 0.0)
            self.seconds = 0.0
        else:
            self.seconds += dt

    def overdue(self, land_speed: float) -> float:
        """s since it must be down, below 0 before.

        It must be after the time to fall so far at ``BLIND_DESCENT``, and that to sink so far at the speed of
        a landing (m/s): drag may keep it from falling faster.
        """
        due = math.sqrt(2.0 * self.height / BLIND_DESCENT) + self.height / land_speed
        return self.seconds - due


def descend(
    values: dict[str, float], state: VehicleState, land: LandDetector, blind: BlindDescent, output: Output
) -> None:
    """Go down level, without a position: the last resort of a flight that has lost it."""
    yaw = output.yaw if output.level == TRAJECTORY and math.isfinite(output.yaw) else state.yaw
    output.clear(TRAJECTORY)
    output.yaw = yaw
    output.ax = output.ay = 0.0
    if state.valid & HEIGHT:
        output.vz = values["MPC_LAND_SPEED"]
        output.az = land.press
    else:
        # Less and less thrust where it must be down, and none where that was so for as long again.
        overdue = blind.overdue(values["MPC_LAND_SPEED"]) / PRESS_TIME
        output.az = BLIND_DESCENT + GRAVITY * max(0.0, min(overdue, 1.0))
        if overdue > 2.0:
            output.clear(IDLE)
