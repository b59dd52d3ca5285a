"""Following a target that reports where it is (FOLLOW_TARGET): beside it, at a height, looking at it.

After PX4's FlightTaskAutoFollowTarget and TargetEstimator: parameters, angles and limits are its own; the
filters are of first order here, and the sticks change nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sitl_bridge.autopilot.estimate import VehicleState
from sitl_bridge.autopilot.modes.smooth_motion import brake_speed
from sitl_bridge.autopilot.modes.tasks.automatic import AutomaticTask, TrajectoryTask
from sitl_bridge.autopilot.setpoint_output import Output

STALE = 3.0
"""s without a report after which a target is assumed to stand still (TargetEstimator.hpp)."""

MOVING = 1.0
"""m/s from which a target's velocity is its course (FlightTaskAutoFollowTarget.hpp)."""

LEVEL = 3.0
"""m of height error above which the vehicle only climbs or descends (same place)."""

NEAREST_TO_LOOK = 1.0
"""m from the target nearer than which the heading stays (same place)."""

LEAST_RESPONSE = 0.1
"""Least FLW_TGT_RS that counts (TargetEstimator.cpp)."""

TRACK_HEIGHT = 2
"""FLW_TGT_ALT_M: the height is over the target rather than over home."""


@dataclass(slots=True)
class Target:
    """A target as it is estimated: m and m/s NED, us."""

    position: tuple[float, float, float]
    velocity: tuple[float, float, float]
    time: int


class FollowTask(TrajectoryTask):
    """Flies one vehicle beside a target.

    Args:
        values: the parameters' values.
        state: the vehicle's estimated state.
        output: the setpoint.
        automatic: the task whose trajectory and heading are continued.
    """

    def __init__(
        self, values: dict[str, float], state: VehicleState, output: Output, automatic: AutomaticTask
    ) -> None:
        super().__init__(values, state, output, automatic)
        self._target: Target | None = None
        self._course = 0.0
        self._angle = math.nan

    def begin(self) -> None:
        """Take over from another mode."""
        self._angle = math.nan

    def report(
        self, place: tuple[float, float, float], velocity: tuple[float, float, float], now: int
    ) -> None:
        """Take in where the target is: deg, deg, m above mean sea level, m/s NED; nan velocities are zero."""
        projection = self._state.projection
        if projection is None:
            return
        position = projection.position(place)
        moving = all(map(math.isfinite, velocity))
        velocity = velocity if moving else (0.0, 0.0, 0.0)
        before = self._target
        if before is not None:
            share = 1.0 - max(LEAST_RESPONSE, min(1.0, self._values["FLW_TGT_RS"]))
            position = _blend(self._extrapolated(before, now), position, share)
            velocity = _blend(before.velocity, velocity, share)
        self._target = Target(position, velocity, now)

    def update(self, home_z: float, now: int, dt: float) -> None:
        """Set the output for the next ``dt`` s; without a target, the vehicle stays."""
        values, point, heading = self._values, self._automatic.trajectory, self._automatic.heading
        jerk, acceleration = values["MPC_JERK_AUTO"], values["MPC_ACC_HOR"]
        ux = uy = uz = 0.0
        target = self._target
        if target is not None:
            where = self._extrapolated(target, now)
            moving = (now - target.time) * 1e-6 <= STALE
            vx, vy = target.velocity[:2] if moving else (0.0, 0.0)
            x, y = self._station(where, vx, vy, dt)
            base = where[2] if values["FLW_TGT_ALT_M"] == TRACK_HEIGHT else home_z
            dz = base - values["FLW_TGT_HT"] - point.z
            limit = values["MPC_Z_V_AUTO_UP"] if dz < 0.0 else values["MPC_Z_V_AUTO_DN"]
            uz = math.copysign(min(limit, brake_speed(abs(dz), values["MPC_ACC_DOWN_MAX"], jerk)), dz)
            if abs(dz) < LEVEL:
                ux, uy = self._approach(x - point.x, y - point.y, vx, vy)
            ahead, aside = where[0] - self._state.x, where[1] - self._state.y
            if math.hypot(ahead, aside) > NEAREST_TO_LOOK:
                rate = math.radians(values["MPC_YAWRAUTO_MAX"])
                heading.turn(math.atan2(aside, ahead), dt, rate, math.radians(values["MPC_YAWRAUTO_ACC"]))
        point.steer(ux, uy, dt, acceleration, jerk)
        point.climb(uz, dt, values["MPC_ACC_UP_MAX"], values["MPC_ACC_DOWN_MAX"], jerk)
        self._put_out()

    def _extrapolated(self, target: Target, now: int) -> tuple[float, float, float]:
        seconds = min(max((now - target.time) * 1e-6, 0.0), STALE)
        north, east, down = (p + v * seconds for p, v in zip(target.position, target.velocity, strict=True))
        return north, east, down

    def _station(
        self, where: tuple[float, float, float], vx: float, vy: float, dt: float
    ) -> tuple[float, float]:
        """Where to be beside the target; the angle around it changes with FLW_TGT_MAX_VEL at most."""
        values = self._values
        if math.hypot(vx, vy) >= MOVING:
            self._course = math.atan2(vy, vx)
        distance = max(values["FLW_TGT_DST"], NEAREST_TO_LOOK)
        wanted = self._course + math.radians(values["FLW_TGT_FA"])
        if math.isnan(self._angle):
            self._angle = wanted
        turn = values["FLW_TGT_MAX_VEL"] / distance * dt
        self._angle += max(-turn, min(turn, math.remainder(wanted - self._angle, 2.0 * math.pi)))
        return where[0] + distance * math.cos(self._angle), where[1] + distance * math.sin(self._angle)

    def _approach(self, dx: float, dy: float, vx: float, vy: float) -> tuple[float, float]:
        """Velocity that closes a distance to a point that itself moves."""
        values = self._values
        left = math.hypot(dx, dy)
        speed = min(
            values["MPC_XY_CRUISE"], brake_speed(left, values["MPC_ACC_HOR"], values["MPC_JERK_AUTO"])
        )
        share = speed / left if left > 1e-6 else 0.0
        ux, uy = vx + share * dx, vy + share * dy
        over = math.hypot(ux, uy) / values["MPC_XY_VEL_MAX"] if values["MPC_XY_VEL_MAX"] > 0.0 else 0.0
        return (ux / over, uy / over) if over > 1.0 else (ux, uy)


def _blend(
    old: tuple[float, float, float], new: tuple[float, float, float], share: float
) -> tuple[float, float, float]:
    x, y, z = (a + share * (b - a) for a, b in zip(old, new, strict=True))
    return x, y, z
