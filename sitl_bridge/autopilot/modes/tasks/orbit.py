"""Orbit mode: approach to the circle, then circling, with the commanded heading."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sitl_bridge.autopilot.modes.smooth_motion import brake_speed
from sitl_bridge.autopilot.modes.tasks.automatic import AutomaticTask, TrajectoryTask
from sitl_bridge.autopilot.vehicle_part import Vehicle
from sitl_bridge.base.rotations import wrap_angle

CENTRE, INITIAL, UNCONTROLLED, TANGENT, STICKS, UNCHANGED = range(6)
"""ORBIT_YAW_BEHAVIOUR."""

LEAST_RADIUS = 1.0
"""m (FlightTaskOrbit.hpp)."""

GREATEST_SPEED = 10.0
"""m/s (FlightTaskOrbit.hpp)."""

MAX_ACCELERATION = 2.0
"""Largest centripetal acceleration, m/s^2 (FlightTaskOrbit.hpp)."""

CIRCLE_TOLERANCE = 0.2
"""Distance from the circle at which circling starts, m."""


@dataclass(slots=True)
class Circle:
    """A circle to fly: m NED, m, m/s."""

    x: float  # of the centre, with ``y`` and ``z``
    y: float
    z: float
    radius: float  # m
    speed: float  # m/s, positive for clockwise as seen from above
    look: int = CENTRE  # ORBIT_YAW_BEHAVIOUR

    def with_speed_limit(self) -> Circle:
        """Return the circle with its speed limited by the centripetal acceleration."""
        limit = min(GREATEST_SPEED, math.sqrt(MAX_ACCELERATION * self.radius))
        speed = math.copysign(min(abs(self.speed), limit), self.speed)
        return Circle(self.x, self.y, self.z, self.radius, speed, self.look)


class OrbitTask(TrajectoryTask):
    """Flies one vehicle around a centre.

    Attributes:
        circling: whether the vehicle has reached the circle.
    """

    def __init__(self, vehicle: Vehicle, automatic: AutomaticTask) -> None:
        super().__init__(vehicle, automatic)
        self.circle = Circle(0.0, 0.0, 0.0, LEAST_RADIUS, 1.0)
        self.circling = False
        self._angle = 0.0
        self._speed = 0.0
        self._initial_yaw = 0.0

    def fly(self, circle: Circle) -> None:
        """Start a circle."""
        self.circle = circle
        self.circling = False
        self._initial_yaw = self._state.yaw

    def update(self, dt: float) -> None:
        """Set the output for the next ``dt`` s."""
        self._climb_to(self.circle.z, dt)
        if self.circling:
            self._fly_circle(dt)
        else:
            self._approach(dt)
        self._write_output(self._turn_heading(dt))

    def _approach(self, dt: float) -> None:
        circle, point, values = self.circle, self._automatic.trajectory, self._values
        jerk = values["MPC_JERK_AUTO"]
        dx, dy = point.x - circle.x, point.y - circle.y
        away = math.hypot(dx, dy)
        if away > 1e-3:
            dx, dy = dx / away, dy / away
        else:  # at the centre: straight ahead
            dx, dy = math.cos(self._state.yaw), math.sin(self._state.yaw)
        left = circle.radius - away
        speed = math.copysign(
            min(values["MPC_XY_CRUISE"], brake_speed(abs(left), values["MPC_ACC_HOR"], jerk)), left
        )
        point.steer(speed * dx, speed * dy, dt, values["MPC_ACC_HOR"], jerk)
        level = abs(self._state.z - circle.z) < values["NAV_MC_ALT_RAD"]
        if abs(left) < CIRCLE_TOLERANCE and level and math.hypot(point.vx, point.vy) < 2.0 * CIRCLE_TOLERANCE:
            self.circling = True
            self._angle = math.atan2(point.y - circle.y, point.x - circle.x)
            self._speed = 0.0

    def _fly_circle(self, dt: float) -> None:
        circle, point, values = self.circle, self._automatic.trajectory, self._values
        change = values["MPC_ACC_HOR"] * 0.5 * dt  # the other half is for the turn
        gain = max(-change, min(change, circle.speed - self._speed))
        self._speed += gain
        self._angle = wrap_angle(self._angle + self._speed / circle.radius * dt)
        c, s = math.cos(self._angle), math.sin(self._angle)
        radius = math.hypot(point.x - circle.x, point.y - circle.y)
        radius += max(-CIRCLE_TOLERANCE * dt, min(CIRCLE_TOLERANCE * dt, circle.radius - radius))
        point.x, point.y = circle.x + radius * c, circle.y + radius * s
        point.vx, point.vy = -self._speed * s, self._speed * c
        inward = self._speed * self._speed / circle.radius
        along = gain / dt if dt > 0.0 else 0.0
        point.ax, point.ay = -inward * c - along * s, -inward * s + along * c

    def _turn_heading(self, dt: float) -> float:
        circle, point, heading = self.circle, self._automatic.trajectory, self._automatic.heading
        forward = self._speed / circle.radius if self.circling else 0.0
        dx, dy = circle.x - point.x, circle.y - point.y
        if circle.look == UNCONTROLLED:
            heading.start(self._state.yaw)
            return math.nan
        if circle.look == INITIAL:
            wanted, forward = self._initial_yaw, 0.0
        elif circle.look == TANGENT and self.circling:
            ahead = math.copysign(1.0, circle.speed)
            wanted = math.atan2(-ahead * dx, ahead * dy)
        else:
            wanted = math.atan2(dy, dx) if math.hypot(dx, dy) > 0.5 else heading.yaw
        self._automatic.turn(wanted, dt, forward)
        return heading.rate
