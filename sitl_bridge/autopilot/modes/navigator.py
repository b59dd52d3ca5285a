"""Targets of the automatic modes: take-off, hold, land, return; missions are in mission_flight.py.

The navigator sets a target and the flight tasks plan the motion to it, as PX4's navigator does for a
multirotor.
"""

from __future__ import annotations

import math

from sitl_bridge.autopilot.commander_data import CRITICAL, INFO
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.flight_modes import Mode
from sitl_bridge.autopilot.modes.mission_flight import MissionFlight, has_heading
from sitl_bridge.autopilot.modes.payload_control import PayloadControl
from sitl_bridge.autopilot.modes.position_target import GO, GROUND, HOLD, IDLE, TAKEOFF, PositionTarget
from sitl_bridge.autopilot.vehicle_part import Vehicle, VehiclePart
from sitl_bridge.core.world.geography import distance
from sitl_bridge.plan.plan import Point
from sitl_bridge.plan.plan_upload import MissionItem

NAN = math.nan

BRAKING_DELAY = 0.6
"""Time before a braking vehicle decelerates, s, at any jerk limit (navigator_main.cpp)."""

# --- stages of a return (rtl_direct.cpp)
CLIMB, MOVE, TOUCH_DOWN, DONE = range(4)


class Navigator(VehiclePart):
    """The navigator of one vehicle.

    Attributes:
        requested_mode: mode requested from the commander; None if there is no request.
        rally: rally points in deg latitude, deg longitude, m above mean sea level.
        payload: camera triggers, and commands to components on board.
    """

    def __init__(self, vehicle: Vehicle) -> None:
        super().__init__(vehicle)
        self.target = PositionTarget()
        self.requested_mode: Mode | None = None
        self.rally: tuple[MissionItem, ...] = ()
        self.takeoff_altitude = NAN
        self._takeoff_margin = 0.0
        self._mode: Mode | None = None
        self._stage = DONE
        self._return_altitude = 0.0
        self._destination = (0.0, 0.0, 0.0, NAN)
        self.payload = PayloadControl(vehicle.state)
        self.flight = MissionFlight(vehicle, self.target, self.payload.command)

    # ------------------------------------------------------------------ modes

    def enter(self, mode: Mode | None, now: int) -> None:
        """Start a mode; None if no automatic mode is active."""
        before, self._mode = self._mode, mode
        if before is flight_modes.AUTO_MISSION and mode is not flight_modes.AUTO_MISSION:
            self.flight.pause()
        target = self.target
        if mode is flight_modes.AUTO_LOITER:
            if before is not flight_modes.AUTO_TAKEOFF and not (
                target.kind == HOLD and before in (flight_modes.AUTO_LOITER, flight_modes.AUTO_MISSION)
            ):
                self.stop_here()
            target.kind = HOLD if not self._land.landed else IDLE
            target.clear_path()
            if before is not flight_modes.AUTO_LOITER:
                target.speed = NAN
            return
        target.speed = NAN
        if mode is flight_modes.AUTO_TAKEOFF:
            self._begin_takeoff()
        elif mode is flight_modes.AUTO_LAND:
            self._begin_land()
        elif mode is flight_modes.AUTO_RTL:
            self._begin_return()
        elif mode is flight_modes.AUTO_MISSION:
            self.flight.begin(now)

    def update(self, now: int) -> None:
        """Update the target of the active mode, and trigger the camera."""
        self.payload.update()
        mode = self._mode
        if mode is flight_modes.AUTO_MISSION:
            self.flight.update(now)
            if self.flight.wants_return:
                self.flight.wants_return = False
                self.requested_mode = flight_modes.AUTO_RTL
            elif self.flight.finished and not self._land.landed:
                self.requested_mode = flight_modes.AUTO_LOITER
        elif mode is flight_modes.AUTO_TAKEOFF:
            self._update_takeoff()
        elif mode is flight_modes.AUTO_RTL:
            self._update_return()

    # ------------------------------------------------------------------ hold

    def stop_here(self) -> None:
        """Hold where the vehicle stops under normal braking, at its present height.

        Navigator::preproject_stop_point: v^2 / (2 a) and 0.6 s of reaction.
        """
        state, target = self._state, self.target
        speed = math.hypot(state.vx, state.vy)
        seconds = BRAKING_DELAY + 0.5 * speed / self._values["MPC_ACC_HOR"]
        target.aim(HOLD, state.x + seconds * state.vx, state.y + seconds * state.vy, state.z)
        target.acceptance = self._values["NAV_ACC_RAD"]

    def reposition(
        self, latitude: float, longitude: float, altitude: float, yaw: float, speed: float
    ) -> None:
        """Hold at another position: deg, deg, m above mean sea level, rad, m/s; nan for no change."""
        target, projection = self.target, self._state.projection
        if projection is None:
            return
        if target.kind not in (HOLD, GO, TAKEOFF) or (math.isnan(latitude) and math.isnan(altitude)):
            self.stop_here()
        if math.isfinite(latitude) and math.isfinite(longitude):
            target.x, target.y = projection.local(latitude, longitude)
            if math.isnan(altitude):
                target.z = self._state.z
        if math.isfinite(altitude):
            target.z = projection.down_of_altitude(altitude)
        target.kind = HOLD
        target.yaw = yaw
        target.speed = speed if speed > 0.0 else target.speed
        target.clear_path()

    # ------------------------------------------------------------------ take-off

    def _begin_takeoff(self) -> None:
        state, target = self._state, self.target
        height = self._values["MIS_TAKEOFF_ALT"]
        z = state.z - height
        if math.isfinite(self.takeoff_altitude) and state.projection is not None:
            z = state.projection.down_of_altitude(self.takeoff_altitude)
        else:
            self._send_text(INFO, f"Using default takeoff altitude: {height:.1f} m")
        if z > state.z:
            z = state.z
            self._send_text(CRITICAL, "Already higher than takeoff altitude")
        target.aim(TAKEOFF, state.x, state.y, z)
        target.acceptance = self._values["NAV_ACC_RAD"]
        self._takeoff_margin = min(self._values["NAV_MC_ALT_RAD"], 0.5 * (state.z - z))
        self.takeoff_altitude = NAN

    def _update_takeoff(self) -> None:
        target = self.target
        if target.kind != TAKEOFF or self._land.landed:
            return
        if self._state.z <= target.z + self._takeoff_margin:
            target.kind = HOLD
            self.requested_mode = flight_modes.AUTO_LOITER

    # ------------------------------------------------------------------ land

    def _begin_land(self) -> None:
        if self._land.landed:
            self.target.kind = IDLE
            return
        self.stop_here()
        target = self.target
        target.kind = GROUND
        dx, dy = target.x - self._state.x, target.y - self._state.y
        if math.hypot(dx, dy) > target.acceptance:
            target.yaw = math.atan2(dy, dx)  # FlightTaskAuto::_prepareLandSetpoints

    # ------------------------------------------------------------------ return

    def _begin_return(self) -> None:
        state = self._state
        self._stage = DONE
        if self._land.landed or self._home.place is None or state.projection is None:
            self.stop_here()
            self.target.kind = IDLE if self._land.landed else HOLD
            return
        here = state.projection.point(state.x, state.y)
        self._destination = self._choose_destination(here)
        away = distance(here, self._destination[:2])
        self._return_altitude = self._cone_altitude(away, state.projection.altitude(state.z))
        above = self._return_altitude - self._destination[2]
        self._send_text(
            INFO,
            f"RTL: start return at {math.ceil(self._return_altitude)} m "
            f"({math.ceil(above)} m above destination)",
        )
        below = state.projection.altitude(state.z) < self._return_altitude
        self._set_stage(CLIMB if below else MOVE)

    def _choose_destination(self, here: Point) -> tuple[float, float, float, float]:
        """Return the nearest of home and rally points, with its yaw."""
        home = self._home.place
        assert home is not None
        points = [(*home, self._home.yaw)]
        points += [(item.x, item.y, item.altitude(home[2]), NAN) for item in self.rally]
        return min(points, key=lambda point: distance(here, point[:2]))

    def _cone_altitude(self, away: float, present: float) -> float:
        """Return the return altitude in m above mean sea level (rtl.cpp, return altitude from the cone)."""
        values = self._values
        ground, acceptance = self._destination[2], values["NAV_ACC_RAD"]
        highest = ground + values["RTL_RETURN_ALT"]
        if away <= acceptance:
            wanted = ground + 2.0 * away
        else:
            wanted = highest
            angle = values["RTL_CONE_ANG"]
            if angle >= 90:
                wanted = ground + values["RTL_DESCEND_ALT"]
            elif angle > 0 and away <= values["RTL_MIN_DIST"]:
                wanted = min(highest, ground + away / math.tan(math.radians(angle)))
            wanted = max(wanted, ground + 2.0 * acceptance)
        return max(present, min(wanted, highest)) if present < highest else present

    def _set_stage(self, stage: int) -> None:
        self._stage = stage
        state, target, values = self._state, self.target, self._values
        projection = state.projection
        assert projection is not None
        latitude, longitude, _, yaw = self._destination
        north, east = projection.local(latitude, longitude)
        target.acceptance = values["NAV_ACC_RAD"]
        target.clear_path()
        target.yaw = NAN
        target.kind = GO
        if stage == CLIMB:
            self.stop_here()
            target.kind = HOLD
            target.z = projection.down_of_altitude(self._return_altitude)
            target.yaw = state.yaw
            return
        target.x, target.y = north, east
        # RtlDirect::set_rtl_item: the way's heading only on the way, and not for a short one.
        if stage != MOVE or math.hypot(north - state.x, east - state.y) < values["RTL_MIN_DIST"]:
            target.yaw = yaw
        if stage == MOVE:
            target.z = projection.down_of_altitude(self._return_altitude)
        elif stage == TOUCH_DOWN:
            target.kind = GROUND
            self._send_text(INFO, "RTL: land at destination")
        else:
            target.kind = IDLE

    def _update_return(self) -> None:
        if self._stage == DONE:
            return
        target, values = self.target, self._values
        level = abs(self._state.z - target.z) <= values["NAV_MC_ALT_RAD"]
        above = math.hypot(target.x - self._state.x, target.y - self._state.y) <= target.acceptance
        above = above and has_heading(target.yaw, self._state.yaw, values)
        if self._stage == CLIMB and level:
            self._set_stage(MOVE)
        elif self._stage == MOVE and level and above:
            self._set_stage(TOUCH_DOWN)
        elif self._stage == TOUCH_DOWN and self._land.landed:
            self._set_stage(DONE)
