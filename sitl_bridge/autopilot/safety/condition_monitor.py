"""Detects what is wrong with a vehicle: lost links, needs of modes that are not met, attitude, geofence.

What is done about it is decided in failsafe.py and arming_checks.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sitl_bridge.autopilot.commander_data import CRITICAL, INFO
from sitl_bridge.autopilot.estimate import VehicleState
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.flight_modes import Mode
from sitl_bridge.autopilot.modes.tasks.offboard_setpoints import OffboardSignal
from sitl_bridge.autopilot.modes.tasks.sticks import Sticks
from sitl_bridge.autopilot.safety.arming_checks import Accuracy, missing_needs
from sitl_bridge.autopilot.safety.failsafe import Troubles
from sitl_bridge.autopilot.safety.geofence import Geofence

FENCE_PERIOD = 500_000
"""us between checks of the fence; PX4's GEOFENCE_CHECK_INTERVAL is 200 ms, a polygon costs more here."""

Home = tuple[float, float, float] | None


class ConditionMonitor:
    """Detects the troubles of one vehicle.

    Args:
        values: the parameters' values.
        state: the vehicle's estimated state.
        sticks: their positions.
        offboard: the offboard signal.
        geofence: of the vehicle.
        say: sends a status text.

    Attributes:
        troubles: what is wrong now.
    """

    def __init__(
        self,
        values: dict[str, float],
        state: VehicleState,
        sticks: Sticks,
        offboard: OffboardSignal,
        geofence: Geofence,
        say: Callable[[int, str], None],
    ) -> None:
        self._values = values
        self._state = state
        self._sticks = sticks
        self._offboard = offboard
        self._geofence = geofence
        self._say = say
        self.troubles = Troubles(missing=~0)
        self._accuracy = Accuracy()
        self._had_sticks = False
        self._station_time = -1
        self._fence_checked = -FENCE_PERIOD
        self._roll_failed = self._pitch_failed = 0.0

    def lacks(self, needs: int) -> bool:
        """Whether one of these needs (bits of flight_modes.py) is not met."""
        return bool(self.troubles.missing & needs)

    # ------------------------------------------------------------------ links

    def ground_station_seen(self, now: int) -> None:
        """Take in a heartbeat of a ground station."""
        if self.troubles.station_lost and self._station_time >= 0:
            self._say(INFO, "Data link regained")
        self._station_time = now

    def update_links(self, now: int) -> None:
        """Find out whether manual control and ground station are lost; centre sticks that are."""
        troubles = self.troubles
        lost = self._sticks_lost(now)
        if lost != troubles.manual_lost and self._had_sticks:
            self._say(INFO, "Manual control lost" if lost else "Manual control regained")
        troubles.manual_lost = lost
        self._had_sticks |= not lost
        if lost:
            self._sticks.centre()
        lost = self._station_time < 0 or now - self._station_time > self._values["COM_DL_LOSS_T"] * 1e6
        if lost and not troubles.station_lost:
            self._say(INFO, "Connection to ground control station lost")
        troubles.station_lost = lost

    def _sticks_lost(self, now: int) -> bool:
        time = self._sticks.time
        return time < 0 or now - time > self._values["COM_RC_LOSS_T"] * 1e6

    # ------------------------------------------------------------------ estimate, plans, signals

    def update_accuracy(self) -> None:
        """Take in the accuracy of the estimate, once an update: it has hysteresis."""
        self._accuracy.update(self._state, self._values)

    def update_needs(self, now: int, home: Home, mission: bool) -> None:
        """Find the needs of modes that are not met, by all setpoints and plans received so far.

        Args:
            now: us.
            home: deg, deg, m; None before it is known.
            mission: whether there is a mission that can be flown.
        """
        accuracy = self._accuracy
        offboard = self._offboard.is_available(
            now, self._values["COM_OF_LOSS_T"], accuracy.position, accuracy.velocity
        )
        self.troubles.missing = missing_needs(
            self._state, accuracy, home is not None, mission, offboard, not self._sticks_lost(now)
        )

    def update_attitude(self, mode: Mode, dt: float) -> None:
        """Detect an attitude failure: a roll or pitch that stays too large for too long."""
        values, state = self._values, self._state
        self._roll_failed = _tilted_for(mode, state.roll, values["FD_FAIL_R"], self._roll_failed, dt)
        self._pitch_failed = _tilted_for(mode, state.pitch, values["FD_FAIL_P"], self._pitch_failed, dt)
        self.troubles.attitude = (
            self._roll_failed >= values["FD_FAIL_R_TTRI"] or self._pitch_failed >= values["FD_FAIL_P_TTRI"]
        )

    # ------------------------------------------------------------------ geofence

    def check_fence_soon(self) -> None:
        """Check the fence in the next update: it has changed."""
        self._fence_checked = -FENCE_PERIOD

    def update_fence(self, now: int, home: Home) -> None:
        """Check the fence if it is time."""
        if now - self._fence_checked >= FENCE_PERIOD:
            self._fence_checked = now
            self.troubles.fence = self._fence_breach(home)

    def _fence_breach(self, home: Home) -> str | None:
        projection = self._state.projection
        if not self._geofence.active or projection is None or self.lacks(flight_modes.GLOBAL_POSITION):
            return None
        here = projection.point(self._state.x, self._state.y)
        breach = self._geofence.breach(*here, projection.altitude(self._state.z), home)
        if breach is not None and breach != self.troubles.fence and self._values["GF_ACTION"]:
            self._say(CRITICAL, f"Geofence violation: {breach}")
        return breach


def _tilted_for(mode: Mode, angle: float, limit: float, before: float, dt: float) -> float:
    """Seconds for which an angle in rad has exceeded a limit in deg; Acro has no limit."""
    if limit <= 0.0 or abs(angle) <= math.radians(limit) or mode is flight_modes.ACRO:
        return 0.0
    return before + dt
