"""Follow a target that reports its position (FOLLOW_TARGET) at an offset and a height, facing it.

After PX4's FlightTaskAutoFollowTarget and TargetEstimator: parameters, angles, limits and the estimator of
the target are PX4's; the sticks have no effect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from sitl_bridge.autopilot.modes.tasks.automatic import AutomaticTask, TrajectoryTask
from sitl_bridge.autopilot.vehicle_part import Vehicle
from sitl_bridge.base.rotations import wrap_angle

TARGET_TIMEOUT = 3.0
"""Time without a report after which the target is assumed to stand still, s (TargetEstimator.hpp)."""

MIN_COURSE_SPEED = 1.0
"""Minimum speed of the target for a course, m/s (FlightTaskAutoFollowTarget.hpp)."""

MAX_HEIGHT_ERROR = 3.0
"""Height error above which the vehicle only climbs or descends, m (FlightTaskAutoFollowTarget.hpp)."""

MIN_HEADING_DISTANCE = 1.0
"""Distance to the target below which the heading is kept, m (FlightTaskAutoFollowTarget.hpp)."""

MIN_RESPONSE = 0.1
"""Lower limit of FLW_TGT_RS (TargetEstimator.cpp)."""

POSITION_PERIOD, VELOCITY_PERIOD = 0.5, 0.1
"""Least time between two positions and between two velocities that correct the estimate, s
(TargetEstimator.hpp)."""

MAX_FUSION_TIME = 20.0
"""Longest time that a correction counts for, s (TargetEstimator.cpp)."""

MAX_ACCELERATION = 20.0
"""Of the estimate, m/s^2 (TargetEstimator.hpp)."""

TRACK_HEIGHT = 2
"""FLW_TGT_ALT_M: the height is relative to the target, not to home."""


Triple: TypeAlias = tuple[float, float, float]


@dataclass(slots=True)
class Target:
    """A target's motion, m, m/s and m/s^2 NED."""

    position: Triple
    velocity: Triple
    acceleration: Triple = (0.0, 0.0, 0.0)


class TargetEstimator:
    """Alpha-beta-gamma filter of what a target reports, which also finds a velocity that it does not tell."""

    def __init__(self, position: Triple, velocity: Triple, now: int) -> None:
        self._at = Target(position, velocity if _finite(velocity) else (0.0, 0.0, 0.0))
        self._time = self._heard = now
        self._position, self._position_time = position, now
        self._velocity, self._velocity_time = velocity, now

    def predict(self, now: int) -> Target:
        """Return the motion at a time; after a while without a report, the target stands still."""
        end = self._heard + round(TARGET_TIMEOUT * 1e6)
        at, t = self._at, (min(now, end) - self._time) * 1e-6
        velocity = _add(at.velocity, at.acceleration, t)
        position = _add(_add(at.position, at.velocity, t), at.acceleration, 0.5 * t * t)
        if now >= end:
            return Target(position, (0.0, 0.0, 0.0))
        return Target(position, velocity, at.acceleration)

    def correct(self, position: Triple, velocity: Triple, response: float, now: int) -> None:
        """Correct the motion by a report; a velocity of nan counts for nothing."""
        at = self.predict(now)
        self._time = self._heard = now
        beta = math.cbrt(max(MIN_RESPONSE, min(1.0, response)))
        if _is_due(position != self._position, now - self._position_time, POSITION_PERIOD):
            dt = min((now - self._position_time) * 1e-6, MAX_FUSION_TIME)
            error = _add(position, at.position, -1.0)
            left = 1.0 - beta
            at.position = _add(at.position, error, 1.0 - beta**3)
            at.velocity = _add(at.velocity, error, 1.5 * left**2 * (1.0 + beta) / dt)
            at.acceleration = _add(at.acceleration, error, left**3 / dt**2)
            self._position, self._position_time = position, now
        if _finite(velocity) and _is_due(
            velocity != self._velocity, now - self._velocity_time, VELOCITY_PERIOD
        ):
            dt = min((now - self._velocity_time) * 1e-6, MAX_FUSION_TIME)
            error = _add(velocity, at.velocity, -1.0)
            at.velocity = _add(at.velocity, error, 1.0 - (0.9 * beta) ** 2)
            at.acceleration = _add(at.acceleration, error, (1.0 - 0.9 * beta) ** 2 / dt)
            self._velocity, self._velocity_time = velocity, now
        excess = math.hypot(*at.acceleration) / MAX_ACCELERATION
        if excess > 1.0:
            at.acceleration = _add((0.0, 0.0, 0.0), at.acceleration, 1.0 / excess)
        self._at = at


class FollowTask(TrajectoryTask):
    """Follows a target with one vehicle."""

    def __init__(self, vehicle: Vehicle, automatic: AutomaticTask) -> None:
        super().__init__(vehicle, automatic)
        self._target: TargetEstimator | None = None
        self._course = 0.0
        self._angle = 0.0

    def begin(self) -> None:
        """Start after another mode."""
        self._course = self._angle = 0.0

    def report(self, place: Triple, velocity: Triple, now: int) -> None:
        """Update the target: deg, deg, m above mean sea level, m/s NED; nan where it tells no velocity."""
        projection = self._state.projection
        if projection is None:
            return
        position = projection.position(place)
        if self._target is None:
            self._target = TargetEstimator(position, velocity, now)
        self._target.correct(position, velocity, self._values["FLW_TGT_RS"], now)

    def update(self, now: int, dt: float) -> None:
        """Set the output for the next ``dt`` s; without a target, hold the position."""
        values, point = self._values, self._automatic.trajectory
        ux = uy = 0.0
        height = point.z
        if self._target is not None:
            target = self._target.predict(now)
            where, (vx, vy, _) = target.position, target.velocity
            x, y = self._offset_position(where, vx, vy, dt)
            home = self._home.local()
            base = where[2] if values["FLW_TGT_ALT_M"] == TRACK_HEIGHT else home[2] if home else self._state.z
            height = base - values["FLW_TGT_HT"]
            if abs(height - point.z) < MAX_HEIGHT_ERROR:
                ux, uy = self._approach(x - point.x, y - point.y, vx, vy)
            ahead, aside = where[0] - self._state.x, where[1] - self._state.y
            if math.hypot(ahead, aside) > MIN_HEADING_DISTANCE:
                self._automatic.turn(math.atan2(aside, ahead), dt)
        point.steer(ux, uy, dt, values["MPC_ACC_HOR"], values["MPC_JERK_AUTO"])
        self._climb_to(height, dt)
        self._write_output()

    def _offset_position(self, where: Triple, vx: float, vy: float, dt: float) -> tuple[float, float]:
        """Return the position beside the target; its angle changes at most with FLW_TGT_MAX_VEL."""
        values = self._values
        if math.hypot(vx, vy) >= MIN_COURSE_SPEED:
            self._course = math.atan2(vy, vx)
        distance = max(values["FLW_TGT_DST"], MIN_HEADING_DISTANCE)
        # Behind is -180 deg, as PX4's: from in front, where it begins, the vehicle turns that way.
        wanted = self._course + math.radians((values["FLW_TGT_FA"] + 180.0) % 360.0 - 180.0)
        turn = values["FLW_TGT_MAX_VEL"] / distance * dt
        self._angle += max(-turn, min(turn, wrap_angle(wanted - self._angle)))
        return where[0] + distance * math.cos(self._angle), where[1] + distance * math.sin(self._angle)

    def _approach(self, dx: float, dy: float, vx: float, vy: float) -> tuple[float, float]:
        """Return the velocity towards a moving point at the given distance.

        PX4 smooths no way to it: its position controller closes the distance at MPC_XY_VEL_MAX.
        """
        limit = self._values["MPC_XY_VEL_MAX"]
        ux, uy = self._automatic.approach(dx, dy, limit)
        ux, uy = vx + ux, vy + uy
        over = math.hypot(ux, uy) / limit if limit > 0.0 else 0.0
        return (ux / over, uy / over) if over > 1.0 else (ux, uy)


def _is_due(is_new: bool, age: int, period: float) -> bool:
    """Whether a value counts that was last heard of ``age`` us ago: one that repeats, half as often."""
    return age * 1e-6 > (period if is_new else 2.0 * period)


def _finite(values: Triple) -> bool:
    return all(map(math.isfinite, values))


def _add(vector: Triple, other: Triple, times: float) -> Triple:
    x, y, z = (a + times * b for a, b in zip(vector, other, strict=True))
    return x, y, z
