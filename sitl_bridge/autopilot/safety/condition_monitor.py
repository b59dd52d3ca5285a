"""Detects the failsafe conditions of a vehicle: lost links, unmet requirements, attitude, geofence.

failsafe.py and arming_checks.py decide the reaction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from sitl_bridge.autopilot.commander_data import CRITICAL, EMERGENCY, INFO, WARNING
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.flight_modes import Mode
from sitl_bridge.autopilot.modes.tasks.offboard_setpoints import OffboardSignal
from sitl_bridge.autopilot.modes.tasks.sticks import Sticks
from sitl_bridge.autopilot.safety.arming_checks import Accuracy, missing_needs
from sitl_bridge.autopilot.safety.failsafe import FailsafeConditions
from sitl_bridge.autopilot.safety.geofence import Geofence
from sitl_bridge.autopilot.vehicle_part import Vehicle, VehiclePart

LOW, CRITICALLY_LOW, EMPTY = 1, 2, 3
"""battery_status.warning."""

TEXTS = {
    LOW: (WARNING, "Low battery level, return advised"),
    CRITICALLY_LOW: (CRITICAL, "Critical battery level, land now"),
    EMPTY: (EMERGENCY, "Emergency battery level, land immediately"),
}
"""MAV_SEVERITY and text when a level is entered."""


def warning_level(remaining: float, before: int, armed: bool, values: Mapping[str, float]) -> int:
    """Return the battery's warning level; it does not decrease while the vehicle is armed.

    Args:
        remaining: charge 0..1; nan if unknown.
        before: previous level.
    """
    level = 0
    if remaining <= values["BAT_EMERGEN_THR"]:
        level = EMPTY
    elif remaining <= values["BAT_CRIT_THR"]:
        level = CRITICALLY_LOW
    elif remaining <= values["BAT_LOW_THR"]:
        level = LOW
    return max(level, before) if armed else level


FENCE_PERIOD = 500_000
"""Interval between fence checks, us; PX4's GEOFENCE_CHECK_INTERVAL is 200 ms, but a polygon costs more
here."""


class ConditionMonitor(VehiclePart):
    """Detects the failsafe conditions of one vehicle.

    Args:
        geofence: the vehicle's geofence.
    """

    def __init__(
        self, vehicle: Vehicle, sticks: Sticks, offboard: OffboardSignal, geofence: Geofence
    ) -> None:
        super().__init__(vehicle)
        self._sticks = sticks
        self._offboard = offboard
        self._geofence = geofence
        self.conditions = FailsafeConditions(missing=~0)
        self._accuracy = Accuracy()
        self._had_sticks = False
        self._station_time = -1
        self._fence_checked = -FENCE_PERIOD
        self._roll_failed = self._pitch_failed = 0.0

    def lacks(self, needs: int) -> bool:
        """Return whether one of these requirements (bits of flight_modes.py) is not met."""
        return bool(self.conditions.missing & needs)

    # ------------------------------------------------------------------ links

    def ground_station_seen(self, now: int) -> None:
        """Update with a heartbeat of a ground station."""
        if self.conditions.station_lost and self._station_time >= 0:
            self._send_text(INFO, "Data link regained")
        self._station_time = now

    def update_links(self, now: int) -> None:
        """Detect lost manual control and a lost ground station; centre the sticks on loss."""
        conditions = self.conditions
        lost = self._sticks_lost(now)
        if lost != conditions.manual_lost and self._had_sticks:
            self._send_text(INFO, "Manual control lost" if lost else "Manual control regained")
        conditions.manual_lost = lost
        self._had_sticks |= not lost
        if lost:
            self._sticks.lose()
        lost = self._station_time < 0 or now - self._station_time > self._values["COM_DL_LOSS_T"] * 1e6
        if lost and not conditions.station_lost:
            self._send_text(INFO, "Connection to ground control station lost")
        conditions.station_lost = lost

    def _sticks_lost(self, now: int) -> bool:
        time = self._sticks.time
        return time < 0 or now - time > self._values["COM_RC_LOSS_T"] * 1e6

    # ------------------------------------------------------------------ estimate, plans, signals

    def update_accuracy(self) -> None:
        """Update the accuracy of the estimate; call once an update, because of its hysteresis."""
        self._accuracy.update(self._state, self._values)

    def update_needs(self, now: int, mission: bool) -> None:
        """Update the mode requirements that are not met, from all setpoints and plans received so far.

        Args:
            now: us.
        """
        accuracy = self._accuracy
        offboard = self._offboard.is_available(
            now, self._values["COM_OF_LOSS_T"], accuracy.position, accuracy.velocity
        )
        self.conditions.missing = missing_needs(
            self._state, accuracy, self._home.place is not None, mission, offboard, not self._sticks_lost(now)
        )

    def update_attitude(self, mode: Mode, dt: float) -> None:
        """Detect an attitude failure: roll or pitch beyond its limit for too long."""
        values, state = self._values, self._state
        self._roll_failed = _tilted_for(mode, state.roll, values["FD_FAIL_R"], self._roll_failed, dt)
        self._pitch_failed = _tilted_for(mode, state.pitch, values["FD_FAIL_P"], self._pitch_failed, dt)
        self.conditions.attitude = (
            self._roll_failed >= values["FD_FAIL_R_TTRI"] or self._pitch_failed >= values["FD_FAIL_P_TTRI"]
        )

    # ------------------------------------------------------------------ geofence

    def check_fence_soon(self) -> None:
        """Check the fence in the next update, because it changed."""
        self._fence_checked = -FENCE_PERIOD

    def update_fence(self, now: int) -> None:
        """Check the fence when its interval has elapsed."""
        if now - self._fence_checked >= FENCE_PERIOD:
            self._fence_checked = now
            self.conditions.fence = self._fence_breach()

    def _fence_breach(self) -> str | None:
        if self.lacks(flight_modes.GLOBAL_POSITION):
            return None
        breach = self._geofence.breach_at()
        if breach is not None and breach != self.conditions.fence and self._values["GF_ACTION"]:
            self._send_text(CRITICAL, f"Geofence violation: {breach}")
        return breach


def _tilted_for(mode: Mode, angle: float, limit: float, before: float, dt: float) -> float:
    """Return the seconds for which an angle in rad has exceeded a limit in deg; Acro has no limit."""
    if limit <= 0.0 or abs(angle) <= math.radians(limit) or mode is flight_modes.ACRO:
        return 0.0
    return before + dt
