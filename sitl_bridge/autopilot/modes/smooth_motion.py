"""Smooth motion: velocities and headings that change within limits of acceleration and jerk.

What moves is the setpoint; the vehicle follows.  Nothing here knows modes or missions.
"""

from __future__ import annotations

import math

from sitl_bridge.autopilot.estimate import VehicleState

SETTLING = 4.0
"""1/s with which the last of a velocity error is closed.  Derived: five updates of 50 ms a time constant."""


def brake_speed(distance: float, acceleration: float, jerk: float, final: float = 0.0) -> float:
    """Greatest speed from which ``final`` is reached within ``distance``, all in SI units.

    Turning full acceleration into full braking takes 2 a/j, at up to v: d = (v^2 - v_f^2)/(2 a) + 2 a v/j.
    """
    if distance <= 0.0:
        return final
    reaction = 2.0 * acceleration * acceleration / jerk
    speed = math.sqrt(reaction * reaction + 2.0 * acceleration * distance + final * final) - reaction
    return speed if speed > final else final


def shaped(error: float, acceleration: float, jerk: float) -> float:
    """Acceleration that closes a velocity error (>= 0) so that it can end at rest within the jerk limit.

    a^2 = 2 j e where the error is large, joined smoothly by a = k e near its end.
    """
    knee = jerk / (SETTLING * SETTLING)
    wanted = SETTLING * error if error < knee else math.sqrt(2.0 * jerk * (error - 0.5 * knee))
    return wanted if wanted < acceleration else acceleration


class Trajectory:
    """A point that moves: m, m/s, m/s^2 NED."""

    __slots__ = ("ax", "ay", "az", "vx", "vy", "vz", "x", "y", "z")

    def __init__(self) -> None:
        self.x = self.y = self.z = 0.0
        self.vx = self.vy = self.vz = 0.0
        self.ax = self.ay = self.az = 0.0

    def start(self, state: VehicleState) -> None:
        """Begin where the vehicle is, as fast as it is."""
        self.x, self.y, self.z = state.x, state.y, state.z
        self.vx, self.vy, self.vz = state.vx, state.vy, state.vz
        self.ax = self.ay = self.az = 0.0

    def steer(self, ux: float, uy: float, dt: float, acceleration: float, jerk: float) -> None:
        """Move on horizontally for ``dt`` s, towards the velocity (``ux``, ``uy``)."""
        ex, ey = ux - self.vx, uy - self.vy
        error = math.hypot(ex, ey)
        if error > 1e-9:
            share = shaped(error, acceleration, jerk) / error
            ex *= share
            ey *= share
        dx, dy = ex - self.ax, ey - self.ay
        change = math.hypot(dx, dy)
        if change > jerk * dt:
            share = jerk * dt / change
            dx *= share
            dy *= share
        self.ax += dx
        self.ay += dy
        self.x += (self.vx + 0.5 * self.ax * dt) * dt
        self.y += (self.vy + 0.5 * self.ay * dt) * dt
        self.vx += self.ax * dt
        self.vy += self.ay * dt

    def climb(self, uz: float, dt: float, up: float, down: float, jerk: float) -> None:
        """Move on vertically for ``dt`` s towards ``uz`` m/s down, accelerating by ``up`` or ``down``."""
        error = uz - self.vz
        wanted = shaped(error, down, jerk) if error >= 0.0 else -shaped(-error, up, jerk)
        change = wanted - self.az
        limit = jerk * dt
        self.az += limit if change > limit else -limit if change < -limit else change
        self.z += (self.vz + 0.5 * self.az * dt) * dt
        self.vz += self.az * dt


class Heading:
    """A heading that turns within limits of rate and acceleration: rad, rad/s."""

    __slots__ = ("rate", "yaw")

    def __init__(self) -> None:
        self.yaw = 0.0
        self.rate = 0.0

    def start(self, yaw: float) -> None:
        """Begin at ``yaw``, at rest."""
        self.yaw = yaw
        self.rate = 0.0

    def turn(self, wanted: float, dt: float, rate: float, acceleration: float, forward: float = 0.0) -> None:
        """Turn for ``dt`` s towards ``wanted``, which itself turns with ``forward``, by the shorter way."""
        error = math.remainder(wanted - self.yaw, 2.0 * math.pi)
        away = abs(error)
        # The rate from which ``acceleration`` stops in time, joined by a straight line near the end.
        knee = acceleration / (SETTLING * SETTLING)
        target = SETTLING * away if away < knee else math.sqrt(2.0 * acceleration * (away - 0.5 * knee))
        target = forward + math.copysign(target, error)
        target = max(-rate, min(rate, target))
        limit = acceleration * dt
        self.rate += max(-limit, min(limit, target - self.rate))
        self.yaw = math.remainder(self.yaw + self.rate * dt, 2.0 * math.pi)
