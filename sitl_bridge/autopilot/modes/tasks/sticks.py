"""Manual flight: meaning of the sticks in Stabilized, Altitude, Position and Acro."""

from __future__ import annotations

import math

from sitl_bridge.autopilot.modes.smooth_motion import MovingSetpoint
from sitl_bridge.autopilot.records import LEVEL_ATTITUDE, LEVEL_RATES, POSITION, TRAJECTORY
from sitl_bridge.autopilot.vehicle_part import Vehicle, VehiclePart
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.rotations import wrap_angle

HOLD_SPEED = 0.5
"""Speed below which a vehicle with centred sticks holds its position instead of braking, m/s."""


class Sticks:
    """Stick positions: ``pitch`` forward, ``roll`` right, ``yaw`` clockwise -1..1, ``throttle`` 0..1.

    Attributes:
        time: us of the last sample; -1 if none.
        available: whether samples arrive.
        moved: whether the sticks have moved enough for a takeover since :meth:`has_moved`.
    """

    __slots__ = ("_last", "available", "moved", "pitch", "roll", "throttle", "time", "yaw")

    def __init__(self) -> None:
        self.pitch = self.roll = self.yaw = 0.0
        self.throttle = 0.0
        self.time = -1
        self.available = self.moved = False
        self._last = (0.0, 0.0, 0.0, 0.0)

    def update(self, pitch: float, roll: float, yaw: float, throttle: float, now: int, change: float) -> None:
        """Update with a sample.

        Args:
            pitch: -1..1, as ``roll`` and ``yaw``.
            roll: right.
            yaw: clockwise.
            throttle: 0..1.
            now: us.
            change: smallest change, in the range -1..1, that counts as a movement (COM_RC_STICK_OV).
        """
        self.pitch, self.roll, self.yaw = (max(-1.0, min(1.0, value)) for value in (pitch, roll, yaw))
        self.throttle = max(0.0, min(1.0, throttle))
        position = (self.pitch, self.roll, self.yaw, 2.0 * self.throttle)
        if self.time < 0:
            self._last = position
        elif max(abs(a - b) for a, b in zip(position, self._last, strict=True)) > change:
            self._last = position
            self.moved = True
        self.time = now
        self.available = True

    def lose(self) -> None:
        """Centre all sticks, of which no samples arrive."""
        self.pitch = self.roll = self.yaw = 0.0
        self.throttle = 0.5
        self.available = self.moved = False

    def has_moved(self) -> bool:
        """Return whether the sticks have moved since the last call."""
        moved, self.moved = self.moved, False
        return moved


def curve(value: float, dead_zone: float, cubic: float) -> float:
    """Map a stick position to -1..1: dead zone, then a mix of linear and cubic."""
    value = max(-1.0, min(1.0, value))
    if abs(value) <= dead_zone:
        return 0.0
    value = math.copysign((abs(value) - dead_zone) / (1.0 - dead_zone), value)
    return (1.0 - cubic) * value + cubic * value**3


def tilt_attitude(roll: float, pitch: float, yaw: float) -> tuple[float, float, float, float]:
    """Return the quaternion of a yaw followed by a tilt with the components roll and pitch, rad."""
    tilt = math.hypot(roll, pitch)
    half = 0.5 * tilt
    share = math.sin(half) / tilt if tilt > 1e-9 else 0.5
    w, x, y = math.cos(half), share * roll, share * pitch
    c, s = math.cos(0.5 * yaw), math.sin(0.5 * yaw)
    return c * w, c * x - s * y, c * y + s * x, s * w


class StickTask(VehiclePart):
    """Flies one vehicle from the sticks.

    Attributes:
        wants_takeoff: whether the throttle requests a take-off.
    """

    def __init__(self, vehicle: Vehicle, sticks: Sticks) -> None:
        super().__init__(vehicle)
        self._sticks = sticks
        self._trajectory = MovingSetpoint()
        self._yaw = math.nan
        self._place_held = False
        self._height_held = False
        self.wants_takeoff = False

    def begin(self) -> None:
        """Start from the vehicle's present state."""
        self._trajectory.start(self._state)
        self._yaw = math.nan
        self._place_held = self._height_held = False

    def rates(self) -> None:
        """Acro: sticks command rates."""
        values, sticks, output = self._values, self._sticks, self._output
        output.clear(LEVEL_RATES)
        output.rates = (
            math.radians(values["MC_ACRO_R_MAX"]) * sticks.roll,
            -math.radians(values["MC_ACRO_P_MAX"]) * sticks.pitch,
            math.radians(values["MC_ACRO_Y_MAX"]) * sticks.yaw,
        )
        output.thrust = self._thrust()

    def attitude(self, dt: float) -> None:
        """Stabilized: sticks command angles, the throttle commands thrust."""
        values, sticks, output = self._values, self._sticks, self._output
        rate = self._turn(dt)
        output.clear(LEVEL_ATTITUDE)
        tilt = math.radians(values["MPC_MAN_TILT_MAX"])
        share = min(1.0, 1.0 / max(1e-9, math.hypot(sticks.roll, sticks.pitch)))
        output.attitude = tilt_attitude(tilt * share * sticks.roll, -tilt * share * sticks.pitch, self._yaw)
        output.yaw, output.yaw_rate = self._yaw, rate
        output.thrust = self._thrust()

    def altitude(self, ramping: bool, dt: float) -> None:
        """Altitude: sticks command angles, the throttle commands the climb rate."""
        values, sticks, output, state = self._values, self._sticks, self._output, self._state
        rate = self._turn(dt)
        output.clear(TRAJECTORY)
        size = max(1.0, math.hypot(sticks.roll, sticks.pitch))
        steepest = STANDARD_GRAVITY * math.tan(math.radians(values["MPC_MAN_TILT_MAX"]))
        forward, right = steepest * sticks.pitch / size, steepest * sticks.roll / size
        c, s = math.cos(state.yaw), math.sin(state.yaw)
        output.ax, output.ay = c * forward - s * right, s * forward + c * right
        self._climb(ramping, dt)
        output.yaw, output.yaw_rate = self._yaw, rate

    def position(self, ramping: bool, dt: float) -> None:
        """Position: sticks command velocities; with centred sticks the vehicle brakes and holds."""
        values, sticks, output, state = self._values, self._sticks, self._output, self._state
        trajectory = self._trajectory
        rate = self._turn(dt)
        output.clear(TRAJECTORY)
        dead, cubic = values["MPC_HOLD_DZ"], values["MPC_XY_MAN_EXPO"]
        forward, right = curve(sticks.pitch, dead, cubic), curve(sticks.roll, dead, cubic)
        share = values["MPC_VEL_MANUAL"] / max(1.0, math.hypot(forward, right))
        c, s = math.cos(state.yaw), math.sin(state.yaw)
        ux, uy = share * (c * forward - s * right), share * (s * forward + c * right)
        if self._land.landed or ramping:
            trajectory.start(state)
            trajectory.vx = trajectory.vy = trajectory.vz = 0.0
        else:
            trajectory.steer(ux, uy, dt, values["MPC_ACC_HOR"], values["MPC_JERK_MAX"])
        still = forward == right == 0.0 and math.hypot(trajectory.vx, trajectory.vy) < HOLD_SPEED
        if not (still and self._place_held):
            trajectory.x, trajectory.y = state.x, state.y
        self._place_held = still
        output.vx, output.vy = trajectory.vx, trajectory.vy
        output.ax, output.ay = trajectory.ax, trajectory.ay
        if still and state.valid & POSITION:
            output.x, output.y = trajectory.x, trajectory.y
        self._climb(ramping, dt)
        output.yaw, output.yaw_rate = self._yaw, rate

    # ------------------------------------------------------------------ single axes

    def _climb(self, ramping: bool, dt: float) -> None:
        values, output, state, trajectory = self._values, self._output, self._state, self._trajectory
        up = curve(2.0 * self._sticks.throttle - 1.0, values["MPC_HOLD_DZ"], values["MPC_Z_MAN_EXPO"])
        self.wants_takeoff = up > 0.0
        climb = -up * (values["MPC_Z_VEL_MAX_UP"] if up > 0.0 else values["MPC_Z_VEL_MAX_DN"])
        height = state.height_above_ground
        if climb > 0.0 and height == height:  # nan: height above ground unknown
            low, high = values["MPC_LAND_ALT2"], values["MPC_LAND_ALT1"]
            share = max(0.0, min(1.0, (height - low) / (high - low))) if high > low else 1.0
            slow = values["MPC_LAND_SPEED"]
            climb = min(climb, slow + share * (values["MPC_Z_VEL_MAX_DN"] - slow))
        if self._land.landed or ramping:
            trajectory.z, trajectory.vz, trajectory.az = state.z, 0.0, 0.0
            if self._land.landed:
                climb = max(climb, 0.0)
        if not ramping:
            trajectory.climb(
                climb, dt, values["MPC_ACC_UP_MAX"], values["MPC_ACC_DOWN_MAX"], values["MPC_JERK_MAX"]
            )
        still = up == 0.0 and abs(trajectory.vz) < HOLD_SPEED
        if not (still and self._height_held):
            trajectory.z = state.z
        self._height_held = still
        output.z = trajectory.z if still else math.nan
        output.vz, output.az = trajectory.vz, trajectory.az + self._land.press

    def _turn(self, dt: float) -> float:
        values = self._values
        stick = curve(self._sticks.yaw, values["MPC_HOLD_DZ"], values["MPC_YAW_EXPO"])
        rate = stick * math.radians(values["MPC_MAN_Y_MAX"])
        if self._land.landed or not math.isfinite(self._yaw):
            self._yaw = self._state.yaw
        self._yaw = wrap_angle(self._yaw + rate * dt)
        return rate

    def _thrust(self) -> float:
        """Return the thrust 0..1 of the throttle: minimum at the bottom, hover in the middle."""
        values = self._values
        throttle = max(0.0, min(1.0, self._sticks.throttle))
        least, hover, most = values["MPC_MANTHR_MIN"], values["MPC_THR_HOVER"], values["MPC_THR_MAX"]
        if throttle < 0.5:
            return least + 2.0 * throttle * (hover - least)
        return hover + (2.0 * throttle - 1.0) * (most - hover)
