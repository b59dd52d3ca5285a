"""Follow a target that reports its position (FOLLOW_TARGET) at an offset and a height, facing it.

After PX4's FlightTaskAutoFollowTarget and TargetEstimator: parameters, angles and limits are PX4's; the
filters are of first order and the sticks have no effect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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

TRACK_HEIGHT = 2
"""FLW_TGT_ALT_M: the height is relative to the target, not to home."""


@dataclass(slots=True)
class FollowTarget:
    """Estimated target: m and m/s NED, us."""

    position: tuple[float, float, float]
    velocity: tuple[float, float, float]
    time: int


class FollowTask(TrajectoryTask):
    """Follows a target with one vehicle."""

    def __init__(self, vehicle: Vehicle, automatic: AutomaticTask) -> None:
        super().__init__(vehicle, automatic)
        self._target: FollowTarget | None = None
        self._course = 0.0
        self._angle = math.nan

    def begin(self) -> None:
        """Start after another mode."""
        self._angle = math.nan

    def report(
        self, place: tuple[float, float, float], velocity: tuple[float, float, float], now: int
    ) -> None:
        """Update the target: deg, deg, m above mean sea level, m/s NED; nan velocities count as zero."""
        projection = self._state.projection
        if projection is None:
            return
        position = projection.position(place)
        moving = all(map(math.isfinite, velocity))
        velocity = velocity if moving else (0.0, 0.0, 0.0)
        before = self._target
        if before is not None:
            share = 1.0 - max(MIN_RESPONSE, min(1.0, self._values["FLW_TGT_RS"]))
            position = _blend(self._extrapolated(before, now), position, share)
            velocity = _blend(before.velocity, velocity, share)
        self._target = FollowTarget(position, velocity, now)

    def update(self, home_z: float, now: int, dt: float) -> None:
        """Set the output for the next ``dt`` s; without a target, hold the position."""
        values, point = self._values, self._automatic.trajectory
        ux = uy = 0.0
        height = point.z
        target = self._target
        if target is not None:
            where = self._extrapolated(target, now)
            moving = (now - target.time) * 1e-6 <= TARGET_TIMEOUT
            vx, vy = target.velocity[:2] if moving else (0.0, 0.0)
            x, y = self._offset_position(where, vx, vy, dt)
            base = where[2] if values["FLW_TGT_ALT_M"] == TRACK_HEIGHT else home_z
            height = base - values["FLW_TGT_HT"]
            if abs(height - point.z) < MAX_HEIGHT_ERROR:
                ux, uy = self._approach(x - point.x, y - point.y, vx, vy)
            ahead, aside = where[0] - self._state.x, where[1] - self._state.y
            if math.hypot(ahead, aside) > MIN_HEADING_DISTANCE:
                self._automatic.turn(math.atan2(aside, ahead), dt)
        point.steer(ux, uy, dt, values["MPC_ACC_HOR"], values["MPC_JERK_AUTO"])
        self._climb_to(height, dt)
        self._write_output()

    def _extrapolated(self, target: FollowTarget, now: int) -> tuple[float, float, float]:
        seconds = min(max((now - target.time) * 1e-6, 0.0), TARGET_TIMEOUT)
        north, east, down = (p + v * seconds for p, v in zip(target.position, target.velocity, strict=True))
        return north, east, down

    def _offset_position(
        self, where: tuple[float, float, float], vx: float, vy: float, dt: float
    ) -> tuple[float, float]:
        """Return the position beside the target; its angle changes at most with FLW_TGT_MAX_VEL."""
        values = self._values
        if math.hypot(vx, vy) >= MIN_COURSE_SPEED:
            self._course = math.atan2(vy, vx)
        distance = max(values["FLW_TGT_DST"], MIN_HEADING_DISTANCE)
        wanted = self._course + math.radians(values["FLW_TGT_FA"])
        if math.isnan(self._angle):
            self._angle = wanted
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


def _blend(
    old: tuple[float, float, float], new: tuple[float, float, float], share: float
) -> tuple[float, float, float]:
    x, y, z = (a + share * (b - a) for a, b in zip(old, new, strict=True))
    return x, y, z
