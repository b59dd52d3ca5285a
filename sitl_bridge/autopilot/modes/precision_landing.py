"""Landing on a marker: search, approach, descent above it; states and PLD_* are PX4's (precland.cpp)."""

from __future__ import annotations

import math

from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.modes.land_detector import LandDetector
from sitl_bridge.autopilot.modes.position_target import GO, GROUND, PositionTarget

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


OPPORTUNISTIC, REQUIRED = 1, 2
"""Second parameter of a land item: land on the marker if it is seen, or search for it."""
START, APPROACH, DESCEND, TOUCH_DOWN, SEARCH, FALLBACK, DONE = range(7)
SETTLING = 2_000_000
"""us at the start before a search, and above the marker before the descent."""
SIGHTING = 1_000_000
"""us of a search after the marker was seen."""
LATE = 500_000
"""us after which the marker counts as lost near the ground."""


class PrecisionLanding:
    """A landing on a marker.

    Args:
        values: parameter values.
        state: estimated state of the vehicle.
        land: land detector.
        target: position target, set here while it is active.
        marker: the marker's place.

    Attributes:
        active: whether a landing is under way; set to False to end it.
        stage: present state.
    """

    def __init__(
        self,
        values: dict[str, float],
        state: EstimatedState,
        land: LandDetector,
        target: PositionTarget,
        marker: LandingTarget,
    ) -> None:
        self._values = values
        self._state = state
        self._land = land
        self._target = target
        self._marker = marker
        self.active = False
        self.stage = DONE
        self._mode = OPPORTUNISTIC
        self._searches = 0
        self._since = self._reached = self._acquired = -1
        self._height = 0.0
        self._seen = -1
        """us of the marker's measurement used last."""
        self._fresh = self._valid = False

    def begin(self, mode: int, now: int) -> None:
        """Begin at the present target, which is to be above the place to land on.

        A marker seen on the way within PLD_BTOUT counts.
        """
        self.active = True
        self._mode, self._searches = mode, 0
        self._target.clear_path()
        self._start(now)

    def update(self, now: int) -> None:
        """Advance to ``now`` (us) and set the target."""
        marker = self._marker
        self._fresh = marker.time != self._seen
        self._seen = marker.time
        self._valid = (self._valid or self._fresh) and (now - marker.time <= self._values["PLD_BTOUT"] * 1e6)
        if self._land.landed:
            self.stage = DONE
        elif self.stage == START:
            self._run_start(now)
        elif self.stage == APPROACH:
            self._run_approach(now)
        elif self.stage == DESCEND:
            self._run_descent(now)
        elif self.stage == SEARCH:
            self._run_search(now)

    # ------------------------------------------------------------------ states

    def _run_start(self, now: int) -> None:
        if self._fresh and self._valid:
            self._approach(now)
            return
        if self._mode == OPPORTUNISTIC:
            self._fall_back(now)
            return
        target, state, values = self._target, self._state, self._values
        if math.hypot(target.x - state.x, target.y - state.y) >= values["NAV_ACC_RAD"]:
            return
        if self._reached < 0:
            self._reached = now
        if values["PLD_SRCH_TOUT"] <= 0.0:
            self._fall_back(now)
        elif now - self._reached > SETTLING:
            self._search(now)

    def _run_approach(self, now: int) -> None:
        if self._is_above() and not self._valid:
            self._give_up(now)
            return
        if self._fresh and self._is_above():
            if self._reached < 0:
                self._reached = now
            if now - self._reached > SETTLING:
                self._set(DESCEND, now)
                return
        self._go_above()
        self._target.z = self._height

    def _run_descent(self, now: int) -> None:
        low = self._valid and self._marker.z - self._state.z < self._values["PLD_FAPPR_ALT"]
        if now - self._marker.time < LATE if low else self._valid:
            self._go_above()
            self._target.kind = GROUND
        elif low:
            self._set(TOUCH_DOWN, now)
        else:
            self._give_up(now)

    def _run_search(self, now: int) -> None:
        if self._fresh and self._valid:
            if self._acquired < 0:
                # Stop the climb, with a margin to brake.
                self._acquired = now
                self._target.z = max(self._target.z, self._state.z - 1.0)
            if now - self._acquired > SIGHTING:
                self._approach(now)
                return
        if now - self._since > self._values["PLD_SRCH_TOUT"] * 1e6:
            self._fall_back(now)

    # ------------------------------------------------------------------ changes of state

    def _set(self, stage: int, now: int) -> None:
        self.stage, self._since, self._reached = stage, now, -1

    def _start(self, now: int) -> None:
        """Wait for the marker at the target, or land where the vehicle is after PLD_MAX_SRCH searches."""
        if self._searches > self._values["PLD_MAX_SRCH"]:
            self._fall_back(now)
            return
        self._searches += 1
        self._target.kind = GO
        self._set(START, now)

    def _give_up(self, now: int) -> None:
        """Stay where the marker was lost, and start again."""
        self._stay()
        self._start(now)

    def _approach(self, now: int) -> None:
        self._height = self._state.z
        self._target.kind = GO
        self._set(APPROACH, now)

    def _search(self, now: int) -> None:
        """Climb to PLD_SRCH_ALT above the local origin."""
        self._target.kind = GO
        self._target.z = -self._values["PLD_SRCH_ALT"]
        self._acquired = -1
        self._set(SEARCH, now)

    def _fall_back(self, now: int) -> None:
        """Land where the vehicle is."""
        self._stay()
        self._target.kind = GROUND
        self._set(FALLBACK, now)

    def _stay(self) -> None:
        target, state = self._target, self._state
        target.x, target.y, target.z = state.x, state.y, state.z

    def _go_above(self) -> None:
        self._target.x, self._target.y = self._marker.x, self._marker.y

    def _is_above(self) -> bool:
        marker, state, radius = self._marker, self._state, self._values["PLD_HACC_RAD"]
        return abs(marker.x - state.x) < radius and abs(marker.y - state.y) < radius
