"""Shared state of the parts of one vehicle's flight: modes, plans, monitoring, failsafes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.modes.land_detector import LandDetector
from sitl_bridge.autopilot.setpoint_output import Output
from sitl_bridge.plan.plan_upload import MissionItem

HOME_MOVED = 1.0
"""Distance that a disarmed vehicle must move before home is updated, m (kMinHomePositionChangeEPH)."""


class HomePosition:
    """Home of one vehicle, and the rules for updating it (PX4's HomePosition.cpp).

    Attributes:
        place: deg latitude, deg longitude, m above mean sea level; None if unknown.
        yaw: rad, heading in which a return ends; nan if unknown.
        is_accurate: whether the global position is accurate enough to become home.
        changed: called after each change.
    """

    def __init__(self, state: EstimatedState) -> None:
        self._state = state
        self.is_accurate: Callable[[], bool] = lambda: False
        self.changed: Callable[[], None] = lambda: None
        self.place: tuple[float, float, float] | None = None
        self.yaw = math.nan
        self._given = False

    def local(self) -> tuple[float, float, float] | None:
        """Home in m NED in the local frame; None if unknown."""
        projection = self._state.projection
        if self.place is None or projection is None:
            return None
        return (*projection.local(*self.place[:2]), projection.down_of_altitude(self.place[2]))

    def set_here(self, *, forced: bool = False) -> bool:
        """Set home to the vehicle's position; returns whether it was set.

        Args:
            forced: also replace a home that was set by :meth:`set_at`.
        """
        state = self._state
        if (self._given and not forced) or not self.is_accurate() or state.projection is None:
            return False
        self._given, self.yaw = False, state.yaw
        self.place = (*state.projection.point(state.x, state.y), state.projection.altitude(state.z))
        self.changed()
        return True

    def set_at(self, latitude: float, longitude: float, altitude: float, yaw: float = math.nan) -> None:
        """Set home to a position and heading: deg, deg, m above mean sea level, rad."""
        self._given, self.yaw = True, yaw
        self.place = (latitude, longitude, altitude)
        self.changed()

    def set_by_item(self, item: MissionItem) -> None:
        """Set home from a DO_SET_HOME item of a mission."""
        if item.param1 > 0.5:
            self.set_here(forced=True)
        elif abs(item.x) <= 90.0 and abs(item.y) <= 180.0:
            self.set_at(item.x, item.y, item.z)

    def update(self) -> None:
        """Move home with a vehicle that is on the ground and disarmed."""
        home, state = self.local(), self._state
        limit = max(2.0 * state.eph, HOME_MOVED)
        if (
            home is None
            or math.hypot(home[0] - state.x, home[1] - state.y) > limit
            or abs(home[2] - state.z) > limit
        ):
            self.set_here()


@dataclass
class Vehicle:
    """Data that the parts of one vehicle's flight share.

    Attributes:
        send_text: sends a status text (severity, text).
        state: estimated state, updated by the commander.
        output: setpoint for the controller; a new motion continues from its last values.
    """

    values: dict[str, float]
    send_text: Callable[[int, str], None]
    state: EstimatedState = field(default_factory=EstimatedState)
    output: Output = field(default_factory=Output)

    def __post_init__(self) -> None:
        self.land = LandDetector(self.values)
        self.home = HomePosition(self.state)


class VehiclePart:
    """Base of the parts of a vehicle's flight."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._values, self._send_text = vehicle.values, vehicle.send_text
        self._state, self._land, self._output = vehicle.state, vehicle.land, vehicle.output
        self._home = vehicle.home
