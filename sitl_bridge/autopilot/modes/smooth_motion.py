"""Smooth setpoints: velocities and headings with limited acceleration and jerk.

This module is independent of modes and missions.
"""

from __future__ import annotations

import math

from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.setpoint_output import Output
from sitl_bridge.base.rotations import wrap_angle

SETTLING = 4.0
"""Rate at which a small velocity error decays, 1/s.  Derived: five updates of 50 ms per time constant."""


def brake_speed(distance: float, acceleration: float, jerk: float, final: float = 0.0) -> float:
    """Return the largest speed from which ``final`` is reached within ``distance``, all in SI units.

    The change from full acceleration to full braking takes 2 a/j at a speed up to v: d = (v^2 - v_f^2)/(2 a)
    + 2 a v/j.
    """
    if distance <= 0.0:
        return final
    reaction = 2.0 * acceleration * acceleration / jerk
    speed = math.sqrt(reaction * reaction + 2.0 * acceleration * distance + final * final) - reaction
    return speed if speed > final else final


def limited_acceleration(error: float, acceleration: float, jerk: float) -> float:
    """Return the acceleration that reduces a velocity error (>= 0) to zero within the jerk limit.

    a^2 = 2 j e for large errors, joined smoothly by a = k e for small ones.
    """
    knee = jerk / (SETTLING * SETTLING)
    wanted = SETTLING * error if error < knee else math.sqrt(2.0 * jerk * (error - 0.5 * knee))
    return wanted if wanted < acceleration else acceleration


class MovingSetpoint:
    """A moving setpoint: m, m/s, m/s^2 NED."""

    __slots__ = ("ax", "ay", "az", "vx", "vy", "vz", "x", "y", "z")

    def __init__(self) -> None:
        self.x = self.y = self.z = 0.0
        self.vx = self.vy = self.vz = 0.0
        self.ax = self.ay = self.az = 0.0

    def start(self, state: EstimatedState) -> None:
        """Start with the vehicle's position and velocity."""
        self.x, self.y, self.z = state.x, state.y, state.z
        self.vx, self.vy, self.vz = state.vx, state.vy, state.vz
        self.ax = self.ay = self.az = 0.0

    def write(self, output: Output) -> None:
        """Set position, velocity and acceleration of the output."""
        output.x, output.y, output.z = self.x, self.y, self.z
        output.vx, output.vy, output.vz = self.vx, self.vy, self.vz
        output.ax, output.ay, output.az = self.ax, self.ay, self.az

    def steer(self, ux: float, uy: float, dt: float, acceleration: float, jerk: float) -> None:
        """Advance horizontally by ``dt`` s towards the velocity (``ux``, ``uy``)."""
        ex, ey = ux - self.vx, uy - self.vy
        error = math.hypot(ex, ey)
        if error > 1e-9:
            share = limited_acceleration(error, acceleration, jerk) / error
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
        """Advance vertically by ``dt`` s towards ``uz`` m/s down, with acceleration ``up`` or ``down``."""
        error = uz - self.vz
        wanted = (
            limited_acceleration(error, down, jerk)
            if error >= 0.0
            else -limited_acceleration(-error, up, jerk)
        )
        change = wanted - self.az
        limit = jerk * dt
        self.az += limit if change > limit else -limit if change < -limit else change
        self.z += (self.vz + 0.5 * self.az * dt) * dt
        self.vz += self.az * dt


class Heading:
    """A heading setpoint with limited rate and acceleration: rad, rad/s."""

    __slots__ = ("rate", "yaw")

    def __init__(self) -> None:
        self.yaw = 0.0
        self.rate = 0.0

    def start(self, yaw: float) -> None:
        """Start at ``yaw`` with zero rate."""
        self.yaw = yaw
        self.rate = 0.0

    def turn(self, wanted: float, dt: float, rate: float, acceleration: float, forward: float = 0.0) -> None:
        """Turn for ``dt`` s the shorter way towards ``wanted``, which turns at the rate ``forward``."""
        error = wrap_angle(wanted - self.yaw)
        # Largest rate from which ``acceleration`` can stop in time: likewise, one derivative lower.
        target = limited_acceleration(abs(error), math.inf, acceleration)
        target = forward + math.copysign(target, error)
        target = max(-rate, min(rate, target))
        limit = acceleration * dt
        self.rate += max(-limit, min(limit, target - self.rate))
        self.yaw = wrap_angle(self.yaw + self.rate * dt)
