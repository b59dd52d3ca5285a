"""Place of a landing marker from the angles to it and the height above ground (LANDING_TARGET).

As PX4's landing_target_estimator: a filter of position and velocity relative to the vehicle for each
horizontal axis, with the vehicle's acceleration as input.  The marker stands.
"""

from __future__ import annotations

import math

from sitl_bridge.autopilot.estimate import EstimatedState

TIMEOUT = 2_000_000
"""us without an accepted measurement after which the filter starts again (LandingTargetEstimator.h)."""
GATE = 3.84
"""Squared innovation over its variance above which a measurement is rejected: 5 % of the good ones
(KalmanFilter.cpp)."""


class AxisFilter:
    """Position (m) and velocity (m/s) of the target relative to the vehicle on one axis."""

    __slots__ = ("_across", "_place", "_speed", "position", "velocity")

    def __init__(self) -> None:
        self.start(0.0, 0.0, 0.0, 0.0)

    def start(self, position: float, velocity: float, place: float, speed: float) -> None:
        """Start with a state and its variances, m^2 and (m/s)^2."""
        self.position, self.velocity = position, velocity
        self._place, self._across, self._speed = place, 0.0, speed

    def predict(self, dt: float, acceleration: float, variance: float) -> None:
        """Advance by ``dt`` s with an acceleration of the target (m/s^2) and its variance."""
        half = 0.5 * dt * dt
        self.position += self.velocity * dt + half * acceleration
        self.velocity += acceleration * dt
        self._place += dt * (2.0 * self._across + dt * self._speed) + half * half * variance
        self._across += dt * self._speed + half * dt * variance
        self._speed += dt * dt * variance

    def update(self, measured: float, variance: float) -> bool:
        """Take a measured position (m) and its variance (m^2); False if it is rejected."""
        residual = measured - self.position
        total = self._place + variance
        if residual * residual > GATE * total:
            return False
        place, across = self._place, self._across
        self.position += place / total * residual
        self.velocity += across / total * residual
        self._place -= place * place / total
        self._across -= place * across / total
        self._speed -= across * across / total
        return True


class LandingTarget:
    """The landing marker of one vehicle.

    Args:
        values: parameter values.
        state: estimated state of the vehicle.

    Attributes:
        x: m north in the local frame, ``y`` east, ``z`` down.
        time: us of the last accepted measurement; -1 before the first.
    """

    def __init__(self, values: dict[str, float], state: EstimatedState) -> None:
        self._values = values
        self._state = state
        self._angles: tuple[float, float] | None = None
        self._north, self._east = AxisFilter(), AxisFilter()
        self._updated = self._predicted = -1
        self.x = self.y = self.z = 0.0
        self.time = -1

    def report(self, forward: float, right: float) -> None:
        """Take in the angles of LANDING_TARGET, rad; as PX4, it takes them for their tangents."""
        self._angles = forward, right

    def update(self, now: int) -> None:
        """Advance to ``now`` (us) and use the last report."""
        if self._updated < 0 and self._angles is None:
            return
        state, values = self._state, self._values
        if self._updated >= 0 and now - self._updated > TIMEOUT:
            self._updated = -1
        if self._updated >= 0:
            dt = (now - self._predicted) * 1e-6
            self._north.predict(dt, -state.ax, values["LTEST_ACC_UNC"])
            self._east.predict(dt, -state.ay, values["LTEST_ACC_UNC"])
            self._predicted = now
        angles, self._angles = self._angles, None
        place = None if angles is None else self._relative(*angles)
        if place is None:
            return
        north, east, below = place
        if self._updated < 0:
            variances = values["LTEST_POS_UNC_IN"], values["LTEST_VEL_UNC_IN"]
            self._north.start(north, -state.vx, *variances)
            self._east.start(east, -state.vy, *variances)
            self._updated = self._predicted = now
            return
        variance = values["LTEST_MEAS_UNC"] * below * below
        accepted = self._north.update(north, variance), self._east.update(east, variance)
        if all(accepted):
            self._updated = self.time = now
            self.x, self.y = state.x + self._north.position, state.y + self._east.position
            self.z = state.z + below

    def _relative(self, forward: float, right: float) -> tuple[float, float, float] | None:
        """Return the measured place relative to the vehicle, m NED; None without a height above ground."""
        state, values = self._state, self._values
        below = state.height_above_ground - values["LTEST_SENS_POS_Z"]
        if not all(map(math.isfinite, (forward, right, below))):
            return None
        forward, right = forward * values["LTEST_SCALE_X"], right * values["LTEST_SCALE_Y"]
        turn = math.radians(45.0 * values["LTEST_SENS_ROT"])
        c, s = math.cos(turn), math.sin(turn)
        x, y, z = c * forward - s * right, s * forward + c * right, 1.0
        # Body to NED: roll, then pitch, then yaw.
        c, s = math.cos(state.roll), math.sin(state.roll)
        y, z = c * y - s * z, s * y + c * z
        c, s = math.cos(state.pitch), math.sin(state.pitch)
        x, z = c * x + s * z, c * z - s * x
        c, s = math.cos(state.yaw), math.sin(state.yaw)
        x, y = c * x - s * y, s * x + c * y
        if abs(z) < 1e-6:
            return None
        scale = below / z
        return scale * x + values["LTEST_SENS_POS_X"], scale * y + values["LTEST_SENS_POS_Y"], below
