"""Runs the active mode: its flight task, the take-off ramp and the limits of the setpoint.

The commander selects the mode.  The name is PX4's (FlightModeManager).
"""

from __future__ import annotations

import math

from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.flight_modes import Mode
from sitl_bridge.autopilot.modes.navigator import Navigator
from sitl_bridge.autopilot.modes.tasks.automatic import AutomaticTask
from sitl_bridge.autopilot.modes.tasks.follow import FollowTask
from sitl_bridge.autopilot.modes.tasks.offboard_setpoints import (
    BlindDescent,
    OffboardSignal,
    descend,
    follow_offboard,
)
from sitl_bridge.autopilot.modes.tasks.orbit import OrbitTask
from sitl_bridge.autopilot.modes.tasks.sticks import Sticks, StickTask
from sitl_bridge.autopilot.records import IDLE
from sitl_bridge.autopilot.setpoint_output import Output
from sitl_bridge.autopilot.vehicle_part import Vehicle, VehiclePart
from sitl_bridge.base.constants import STANDARD_GRAVITY

DISARMED, SPOOL_UP, READY, RAMP_UP, FLIGHT = 1, 2, 3, 4, 5

HOVER_SHARE = 0.5
"""Share of MPC_TKO_RAMP_T at which PX4's ramp exceeds hover thrust; it rises linearly to the take-off
climb."""


class Takeoff:
    """Take-off state of one vehicle.

    Attributes:
        state: one of the above.
    """

    __slots__ = ("_progress", "_time", "_values", "state")

    def __init__(self, values: dict[str, float]) -> None:
        self._values = values
        self._time = 0.0
        self._progress = 0.0
        self.state = DISARMED

    def update(self, armed: bool, landed: bool, wanted: bool, dt: float) -> None:
        """Update the state; ``wanted`` is whether the setpoint requests a take-off."""
        self._time = self._time + dt if armed else 0.0
        if not armed:
            self.state = DISARMED
        elif self.state == DISARMED:
            self.state = SPOOL_UP if landed else FLIGHT
        elif self.state == SPOOL_UP:
            if self._time >= self._values["COM_SPOOLUP_TIME"]:
                self.state = READY
        elif self.state == READY:
            if not landed:
                self.state = FLIGHT
            elif wanted:
                self.state = RAMP_UP
                self._progress = 0.0
        elif self.state == RAMP_UP:
            ramp = HOVER_SHARE * self._values["MPC_TKO_RAMP_T"]
            self._progress += dt / ramp if ramp > 0.0 else 1.0
            if self._progress >= 1.0:
                self.state = FLIGHT
        elif landed:
            self.state = READY

    @property
    def on_ground(self) -> bool:
        """Whether the motors may only idle."""
        return self.state < RAMP_UP

    def shape(self, output: Output) -> None:
        """Keep a climb-controlled setpoint on the ground until the sequence allows flight."""
        if self.on_ground:
            output.clear(IDLE)
        elif self.state == RAMP_UP:
            output.vx = output.vy = output.vz = 0.0
            output.ax = output.ay = 0.0
            output.az = STANDARD_GRAVITY * (1.0 - self._progress)


OWN_TASKS = frozenset({flight_modes.ORBIT, flight_modes.DESCEND, flight_modes.AUTO_FOLLOW})
"""Automatic modes that do not use the navigator's target."""
STICK_TASKS = frozenset({flight_modes.ALTITUDE_CONTROL, flight_modes.POSITION_CONTROL})
"""Modes whose task does not start without sticks; the vehicle then descends, as in PX4
(FlightModeManager::start_flight_task)."""


class FlightModeManager(VehiclePart):
    """Runs the active mode of one vehicle."""

    def __init__(self, vehicle: Vehicle) -> None:
        super().__init__(vehicle)
        self.output = vehicle.output
        self.navigator = Navigator(vehicle)
        self.sticks = Sticks()
        self.offboard = OffboardSignal()
        self._takeoff = Takeoff(vehicle.values)
        self._blind_descent = BlindDescent()
        self._automatic = AutomaticTask(vehicle)
        self._stick_task = StickTask(vehicle, self.sticks)
        self.orbit = OrbitTask(vehicle, self._automatic)
        self.follow = FollowTask(vehicle, self._automatic)
        self._wants_takeoff = False
        self._flown: Mode | None = None

    @property
    def ramping_up(self) -> bool:
        """Whether the thrust ramps up for a take-off."""
        return self._takeoff.state == RAMP_UP

    def watch_height(self, dt: float) -> None:
        """Update the height above home, which times a descent without a height estimate."""
        projection, home = self._state.projection, self._home.place
        ground = projection.down_of_altitude(home[2]) if home is not None and projection is not None else 0.0
        self._blind_descent.update(self._state, ground, dt)

    def fly(self, mode: Mode, armed_for: float | None, now: int, dt: float) -> None:
        """Run the active mode for one update and set the output.

        Args:
            armed_for: s since arming; None while disarmed.
            now: us.
            dt: s since the last update.
        """
        output = self.output
        self._set_limits()
        if mode in STICK_TASKS and not self.sticks.available:
            mode = flight_modes.DESCEND
        self.switch(mode, armed_for is not None, now)
        if armed_for is None or mode is flight_modes.TERMINATION:
            self._takeoff.update(False, True, False, dt)
            output.clear(records.OFF)
            return
        self._takeoff.update(True, self._land.landed, self._wants_takeoff, dt)
        self._run_task(mode, now, dt)
        if output.level == records.TRAJECTORY:
            if self._land.descent_blocked:
                output.stay_level()
            self._takeoff.shape(output)
        elif self._takeoff.on_ground and not self._has_thrust(armed_for):
            output.clear(records.IDLE)
        if self._land.maybe_landed and output.level == records.TRAJECTORY and not self.ramping_up:
            output.clear(records.IDLE)

    def _run_task(self, mode: Mode, now: int, dt: float) -> None:
        self._wants_takeoff = False
        if mode is flight_modes.OFFBOARD:
            if self.offboard.target is not None:
                self._wants_takeoff = follow_offboard(
                    self.offboard.target, self._state, self._land, self.output
                )
        elif mode is flight_modes.DESCEND:
            descend(self._values, self._state, self._land, self._blind_descent, self.output)
        elif mode is flight_modes.ORBIT:
            self.orbit.update(dt)
        elif mode is flight_modes.AUTO_FOLLOW:
            self.follow.update(now, dt)
        elif mode.automatic:
            self._fly_automatic(now, dt)
        else:
            self._fly_by_sticks(mode, dt)

    def _has_thrust(self, armed_for: float) -> bool:
        """Return whether the thrust setpoint is large enough for lift-off, after spool-up."""
        return armed_for >= self._values["COM_SPOOLUP_TIME"] and (
            self.output.thrust > self._values["MPC_MANTHR_MIN"] + 0.01
        )

    def _fly_automatic(self, now: int, dt: float) -> None:
        if self._takeoff.on_ground:
            self._automatic.hold_here()
        self.navigator.update(now)
        self._automatic.update(self.navigator.target, self.ramping_up, dt)
        self._wants_takeoff = self._automatic.wants_takeoff

    def _fly_by_sticks(self, mode: Mode, dt: float) -> None:
        task = self._stick_task
        if mode is flight_modes.POSITION_CONTROL:
            task.position(self.ramping_up, dt)
        elif mode is flight_modes.ALTITUDE_CONTROL:
            task.altitude(self.ramping_up, dt)
        elif mode is flight_modes.ACRO:
            task.rates()
        else:
            task.attitude(dt)
        self._wants_takeoff = task.wants_takeoff

    def switch(self, mode: Mode, armed: bool, now: int) -> None:
        """Start the task of a mode if the mode changed or the vehicle was armed."""
        flown = mode if armed else None
        if flown is self._flown:
            return
        automatic = flown is not None and flown.automatic and flown not in OWN_TASKS
        if self._flown is flight_modes.OFFBOARD:
            # An offboard setpoint is not continued, as in PX4 (FlightModeManager::switchTask): its
            # acceleration would move the vehicle away until the jerk limit reduced it.
            self.output.clear(records.IDLE)
        self._flown = flown
        self.navigator.enter(flown if automatic else None, now)
        self._wants_takeoff = False
        if flown is None:
            return
        if flown.automatic:
            self._automatic.begin()
            self.follow.begin()
        elif flown.manual:
            self._stick_task.begin()

    def _set_limits(self) -> None:
        output, values = self.output, self._values
        output.max_horizontal = values["MPC_XY_VEL_MAX"]
        output.max_up = values["MPC_Z_VEL_MAX_UP"]
        output.max_down = values["MPC_Z_VEL_MAX_DN"]
        near_ground = self._takeoff.state <= RAMP_UP or self._land.ground_contact
        output.max_tilt = math.radians(values["MPC_TILTMAX_LND" if near_ground else "MPC_TILTMAX_AIR"])
