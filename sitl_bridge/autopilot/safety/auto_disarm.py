"""Automatic disarming: after landing, without take-off, after termination (Commander.cpp)."""

from __future__ import annotations

from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.flight_modes import Mode

KILL_DISARM = 5.0
"""Time from termination to disarming, s (PX4's COM_KILL_DISARM)."""


class AutoDisarm:
    """Timer of the armed vehicle.

    Args:
        values: parameter values.

    Attributes:
        armed_for: s since arming.
        has_flown: whether the vehicle has taken off since arming.
    """

    def __init__(self, values: dict[str, float]) -> None:
        self._values = values
        self.armed_for = 0.0
        self.has_flown = False
        self._landed_for = 0.0
        self._terminated_for = 0.0

    def begin(self) -> None:
        """Reset after arming."""
        self.armed_for = self._landed_for = 0.0
        self.has_flown = False

    def update(self, mode: Mode, landed: bool, mission_finished: bool, dt: float) -> str | None:
        """Return the reason for disarming now; None if there is none.

        Args:
            mode: the active mode.
            landed: whether the vehicle is on the ground.
            mission_finished: whether the mission's last item is completed.
            dt: s since the last update.
        """
        values = self._values
        self.armed_for += dt
        self._landed_for = self._landed_for + dt if landed else 0.0
        self._terminated_for = self._terminated_for + dt if mode is flight_modes.TERMINATION else 0.0
        if self._terminated_for >= KILL_DISARM:
            return "lockdown"
        if self.has_flown:
            during_mission = mode is flight_modes.AUTO_MISSION and not mission_finished
            if 0.0 < values["COM_DISARM_LAND"] <= self._landed_for and not during_mission:
                return "auto disarm land"
        elif 0.0 < values["COM_DISARM_PRFLT"] <= self.armed_for - values["COM_SPOOLUP_TIME"]:
            return "auto disarm preflight"
        return None
