"""Smooth motion to the navigator's target: straight legs, rounded corners, landings, headings.

The motion follows PX4's PositionSmoothing: a look-ahead point ("carrot") on the leg, speeds with a safe
braking distance, corners within the acceptance radius.
"""

from __future__ import annotations

import math

from sitl_bridge.autopilot.modes.position_target import GROUND, PositionTarget
from sitl_bridge.autopilot.modes.position_target import IDLE as STAY
from sitl_bridge.autopilot.modes.position_target import TAKEOFF as CLIMB_OFF
from sitl_bridge.autopilot.modes.smooth_motion import Heading, MovingSetpoint, brake_speed
from sitl_bridge.autopilot.records import IDLE, POSITION, TRAJECTORY
from sitl_bridge.autopilot.vehicle_part import Vehicle, VehiclePart
from sitl_bridge.base.constants import STANDARD_GRAVITY

MIN_LOOK_AHEAD = 5.0
"""Minimum distance along a leg to the carrot, m (PositionSmoothing.cpp)."""

TURNING_COSINE = 0.98
"""Cosine of the angle to the carrot below which the vehicle counts as turning (PositionSmoothing.cpp)."""

TAKEOFF_CLIMB = 0.3
"""Commanded climb that requests a take-off, m/s (FlightTaskAuto.cpp)."""

CONTINUATION_DISTANCE = 1.0
"""Largest distance to the previous setpoint for continuing from it, m."""


class AutomaticTask(VehiclePart):
    """Flies one vehicle to a target.

    Attributes:
        trajectory: position setpoint that moves along the path.
        wants_takeoff: whether the target is above the vehicle on the ground.
    """

    def __init__(self, vehicle: Vehicle) -> None:
        super().__init__(vehicle)
        self.trajectory = MovingSetpoint()
        self.heading = Heading()
        self.wants_takeoff = False
        self._turn_speed = math.inf
        self._resets = 0

    def begin(self) -> None:
        """Continue from the setpoint of the previous mode."""
        state, output, trajectory = self._state, self._output, self.trajectory
        trajectory.start(state)
        self.heading.start(state.yaw)
        self._turn_speed = math.inf
        self._resets = state.resets
        if output.level != TRAJECTORY:
            return
        if (
            math.isfinite(output.vx)
            and math.hypot(output.vx - state.vx, output.vy - state.vy) < CONTINUATION_DISTANCE
        ):
            trajectory.vx, trajectory.vy = output.vx, output.vy
            if math.isfinite(output.ax):
                trajectory.ax, trajectory.ay = output.ax, output.ay
        if (
            math.isfinite(output.x)
            and math.hypot(output.x - state.x, output.y - state.y) < CONTINUATION_DISTANCE
        ):
            trajectory.x, trajectory.y = output.x, output.y
        if math.isfinite(output.vz) and abs(output.vz - state.vz) < CONTINUATION_DISTANCE:
            trajectory.vz = output.vz
        if math.isfinite(output.z) and abs(output.z - state.z) < CONTINUATION_DISTANCE:
            trajectory.z = output.z
        if math.isfinite(output.yaw):
            self.heading.start(output.yaw)

    def hold_here(self) -> None:
        """Hold the vehicle's present position."""
        trajectory, state = self.trajectory, self._state
        trajectory.start(state)
        trajectory.vx = trajectory.vy = trajectory.vz = 0.0
        self.heading.start(state.yaw)

    def update(self, target: PositionTarget, ramping: bool, dt: float) -> None:
        """Set the output for the next ``dt`` s; while thrust ramps up on the ground, the trajectory waits."""
        state, output = self._state, self._output
        if state.resets != self._resets:
            self.begin()
        if target.kind == STAY:
            self.wants_takeoff = False
            self.hold_here()
            output.clear(IDLE)
            return
        self._turn(target, dt)
        if target.kind == GROUND:
            self._descend(target, dt)
        else:
            self._follow_leg(target, ramping, dt)
        self._write(target)

    # ------------------------------------------------------------------ motion

    def _follow_leg(self, target: PositionTarget, ramping: bool, dt: float) -> None:
        values, trajectory = self._values, self.trajectory
        up, climb = values["MPC_ACC_UP_MAX"], values["MPC_Z_V_AUTO_UP"]
        if target.kind == CLIMB_OFF and self._height() < values["MPC_LAND_ALT1"]:
            climb = values["MPC_TKO_SPEED"]
            ramp = values["MPC_TKO_RAMP_T"]
            up = min(up, climb / ramp) if ramp > 0.0 else up
        ux, uy, uz = self._velocity(target, up, climb)
        self.wants_takeoff = uz < -TAKEOFF_CLIMB
        if ramping:
            trajectory.z = self._state.z
            return
        dt *= self._time_rate()
        jerk = values["MPC_JERK_AUTO"]
        trajectory.steer(ux, uy, dt, values["MPC_ACC_HOR"], jerk)
        trajectory.climb(uz, dt, up, values["MPC_ACC_DOWN_MAX"], jerk)

    def _time_rate(self) -> float:
        """Return the rate of trajectory time, 0 to 1: lower if the vehicle lags behind."""
        state, trajectory = self._state, self.trajectory
        dx, dy = trajectory.x - state.x, trajectory.y - state.y
        if dx * trajectory.vx + dy * trajectory.vy <= 0.0:
            return 1.0
        return max(0.0, 1.0 - math.hypot(dx, dy) / self._values["MPC_XY_ERR_MAX"])

    def _velocity(self, target: PositionTarget, up: float, climb: float) -> tuple[float, float, float]:
        values, trajectory = self._values, self.trajectory
        x, y, z = trajectory.x, trajectory.y, trajectory.z
        rest = (target.x - x, target.y - y, target.z - z)
        left = math.sqrt(rest[0] ** 2 + rest[1] ** 2 + rest[2] ** 2)
        if left < 1e-6:
            return 0.0, 0.0, 0.0
        dx, dy, dz = self._to_carrot(target, rest, left)
        length = math.sqrt(dx * dx + dy * dy + dz * dz)
        dx, dy, dz = dx / length, dy / length, dz / length
        level, steep = math.hypot(dx, dy), abs(dz)
        speed = math.inf
        acceleration = math.inf
        if level > 1e-6:
            cruise = target.speed if target.speed == target.speed else values["MPC_XY_CRUISE"]
            speed = min(cruise, values["MPC_XY_VEL_MAX"]) / level
            acceleration = values["MPC_ACC_HOR"] / level
        if steep > 1e-6:
            limit = climb if dz < 0.0 else values["MPC_Z_V_AUTO_DN"]
            speed = min(speed, limit / steep)
            acceleration = min(acceleration, min(up, values["MPC_ACC_DOWN_MAX"]) / steep)
        corner = self._corner_speed(target, rest, left, acceleration)
        speed = min(speed, brake_speed(left, acceleration, values["MPC_JERK_AUTO"], corner))
        speed = self._slow_in_turn(speed, dx, dy, left, target.acceptance)
        return speed * dx, speed * dy, speed * dz

    def _to_carrot(
        self, target: PositionTarget, rest: tuple[float, float, float], left: float
    ) -> tuple[float, float, float]:
        """Return the vector to the carrot on the leg, or to the target if there is no leg."""
        before = target.before
        if before is None or left <= target.acceptance:
            return rest
        lx, ly, lz = target.x - before[0], target.y - before[1], target.z - before[2]
        length = math.sqrt(lx * lx + ly * ly + lz * lz)
        if length < 1e-3:
            return rest
        lx, ly, lz = lx / length, ly / length, lz / length
        along = rest[0] * lx + rest[1] * ly + rest[2] * lz  # from the foot of the perpendicular to the target
        off = (rest[0] - along * lx, rest[1] - along * ly, rest[2] - along * lz)
        squared = max(target.acceptance, MIN_LOOK_AHEAD) ** 2 - off[0] ** 2 - off[1] ** 2 - off[2] ** 2
        ahead = math.sqrt(squared) if squared > 0.0 else 0.0
        if ahead >= along:
            return rest
        carrot = (off[0] + ahead * lx, off[1] + ahead * ly, off[2] + ahead * lz)
        return carrot if max(map(abs, carrot)) > 1e-6 else rest

    def _corner_speed(
        self, target: PositionTarget, rest: tuple[float, float, float], left: float, acceleration: float
    ) -> float:
        """Return the speed at the target for a turn onto the next leg within the acceptance radius.

        The circle that touches both legs at the acceptance radius d has the radius d tan(alpha/2), with the
        angle alpha between the legs; its centripetal acceleration is MPC_XY_TRAJ_P times the limit.
        """
        after, values = target.after, self._values
        if after is None:
            return 0.0
        nx, ny, nz = after[0] - target.x, after[1] - target.y, after[2] - target.z
        length = math.sqrt(nx * nx + ny * ny + nz * nz)
        if length < 1e-3 or left < 1e-3:
            return 0.0
        cosine = -(nx * rest[0] + ny * rest[1] + nz * rest[2]) / (length * left)
        cosine = max(-1.0 + 1e-9, min(1.0, cosine))
        tangent = math.sqrt((1.0 - cosine) / (1.0 + cosine))
        turn = math.sqrt(values["MPC_XY_TRAJ_P"] * values["MPC_ACC_HOR"] * target.acceptance * tangent)
        return min(turn, brake_speed(length, acceleration, values["MPC_JERK_AUTO"]))

    def _slow_in_turn(self, speed: float, dx: float, dy: float, left: float, acceptance: float) -> float:
        trajectory = self.trajectory
        present = math.hypot(trajectory.vx, trajectory.vy)
        level = math.hypot(dx, dy)
        turning = (
            present > 0.2
            and level > 0.1
            and left > acceptance
            and trajectory.vx * dx + trajectory.vy * dy < TURNING_COSINE * present * level
        )
        if turning:
            speed = min(speed, max(self._turn_speed, 0.5))
        else:
            self._turn_speed = speed
        return speed

    # ------------------------------------------------------------------ landing

    def _height(self) -> float:
        """Return the height above ground by the range finder, else above home, in m; infinite if unknown."""
        height = self._state.height_above_ground
        if height == height:
            return height
        home = self._home.local()
        return home[2] - self._state.z if home is not None else math.inf

    def _descend(self, target: PositionTarget, dt: float) -> None:
        values, trajectory, state = self._values, self.trajectory, self._state
        self.wants_takeoff = False
        height = self._height()
        slow, fast = values["MPC_LAND_SPEED"], values["MPC_Z_VEL_MAX_DN"]
        low, high = values["MPC_LAND_ALT2"], values["MPC_LAND_ALT1"]
        share = max(0.0, min(1.0, (height - low) / (high - low))) if high > low else float(height > low)
        descent = slow + share * (fast - slow)
        if state.height_above_ground <= values["MPC_LAND_ALT3"]:
            descent = values["MPC_LAND_CRWL"]
        dx, dy = target.x - trajectory.x, target.y - trajectory.y
        jerk = values["MPC_JERK_AUTO"]
        trajectory.steer(*self.approach(dx, dy, values["MPC_XY_CRUISE"]), dt, values["MPC_ACC_HOR"], jerk)
        trajectory.climb(descent, dt, values["MPC_ACC_UP_MAX"], values["MPC_ACC_DOWN_MAX"], jerk)
        trajectory.z = state.z

    def approach(self, dx: float, dy: float, fastest: float) -> tuple[float, float]:
        """Return the horizontal velocity, at most ``fastest`` m/s, towards a point at the given distance."""
        values = self._values
        left = math.hypot(dx, dy)
        speed = min(fastest, brake_speed(left, values["MPC_ACC_HOR"], values["MPC_JERK_AUTO"]))
        share = speed / left if left > 1e-6 else 0.0
        return share * dx, share * dy

    # ------------------------------------------------------------------ heading

    def _turn(self, target: PositionTarget, dt: float) -> None:
        wanted = target.yaw
        if not math.isfinite(wanted):
            wanted = self._yaw_to(target)
        if not math.isfinite(wanted):
            wanted = self.heading.yaw  # FlightTaskAuto keeps the smoothed heading, however far it has turned
        if self._land.landed:
            self.heading.start(self._state.yaw)
            return
        self.turn(wanted, dt)

    def turn(self, wanted: float, dt: float, forward: float = 0.0) -> None:
        """Turn the heading for ``dt`` s towards ``wanted`` rad, which turns at ``forward`` rad/s."""
        rate, acceleration = self._values["MPC_YAWRAUTO_MAX"], self._values["MPC_YAWRAUTO_ACC"]
        self.heading.turn(wanted, dt, math.radians(rate), math.radians(acceleration), forward)

    def _yaw_to(self, target: PositionTarget) -> float:
        """Return the heading to the target; nan to keep the present one."""
        dx, dy = target.x - self._state.x, target.y - self._state.y
        if target.kind == GROUND or math.hypot(dx, dy) <= target.acceptance:
            return math.nan
        return math.atan2(dy, dx)

    # ------------------------------------------------------------------ output

    def _write(self, target: PositionTarget) -> None:
        output = self._output
        output.level = TRAJECTORY
        self.trajectory.write(output)
        output.yaw, output.yaw_rate = self.heading.yaw, self.heading.rate
        if target.kind == GROUND:
            output.z = math.nan
            output.az += min(self._land.press, STANDARD_GRAVITY)
            if not self._state.valid & POSITION:
                output.x = output.y = math.nan
                output.vx = output.vy = output.ax = output.ay = 0.0


class TrajectoryTask(VehiclePart):
    """Base of tasks that move the trajectory and heading of :class:`AutomaticTask` in their own way.

    Args:
        automatic: the task whose trajectory and heading are continued.
    """

    def __init__(self, vehicle: Vehicle, automatic: AutomaticTask) -> None:
        super().__init__(vehicle)
        self._automatic = automatic

    def _climb_to(self, z: float, dt: float) -> None:
        """Move the trajectory vertically for ``dt`` s towards ``z`` m down."""
        values, point = self._values, self._automatic.trajectory
        dz, jerk = z - point.z, values["MPC_JERK_AUTO"]
        limit = values["MPC_Z_V_AUTO_UP"] if dz < 0.0 else values["MPC_Z_V_AUTO_DN"]
        climb = math.copysign(min(limit, brake_speed(abs(dz), values["MPC_ACC_DOWN_MAX"], jerk)), dz)
        point.climb(climb, dt, values["MPC_ACC_UP_MAX"], values["MPC_ACC_DOWN_MAX"], jerk)

    def _write_output(self, yaw_rate: float = math.nan) -> None:
        output = self._output
        output.clear(TRAJECTORY)
        self._automatic.trajectory.write(output)
        output.yaw, output.yaw_rate = self._automatic.heading.yaw, yaw_rate
