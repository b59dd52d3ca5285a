"""Landing on a marker: search, approach, descent above it; states and PLD_* are PX4's (precland.cpp)."""

from __future__ import annotations

import math

from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.modes.land_detector import LandDetector
from sitl_bridge.autopilot.modes.landing_target import LandingTarget
from sitl_bridge.autopilot.modes.position_target import GO, GROUND, PositionTarget

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
