"""Failsafes: PX4's failsafe state machine (commander/failsafe) for a multirotor.

Each condition requests an action; the most severe action with a possible mode is executed.  Before a return
or landing the vehicle holds for COM_FAIL_ACT_T, so that a pilot can take over.
"""

from __future__ import annotations

from dataclasses import dataclass

from sitl_bridge.autopilot.commander_data import CRITICAL, WARNING
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.flight_modes import Mode
from sitl_bridge.autopilot.vehicle_part import Vehicle, VehiclePart

# --- actions; those further down win
NONE, WARN, TO_POSITION, TO_ALTITUDE, TO_STABILIZED, HOLD, RETURN, LAND, DESCEND, DISARM, TERMINATE = range(
    11
)

ACTION_NAMES = (
    "none",
    "warn",
    "Position mode",
    "Altitude mode",
    "Stabilized mode",
    "Hold",
    "RTL",
    "Land",
    "Descend",
    "Disarm",
    "Terminate",
)

# --- when an action ends
WHEN_CLEARED, ON_MODE_CHANGE, NEVER = range(3)

# --- who may take over
ALWAYS, BY_MODE_SWITCH, NOBODY = range(3)

MODES = {
    TO_POSITION: flight_modes.POSITION_CONTROL,
    TO_ALTITUDE: flight_modes.ALTITUDE_CONTROL,
    TO_STABILIZED: flight_modes.STABILIZED,
    HOLD: flight_modes.AUTO_LOITER,
    RETURN: flight_modes.AUTO_RTL,
    LAND: flight_modes.AUTO_LAND,
    DESCEND: flight_modes.DESCEND,
    TERMINATE: flight_modes.TERMINATION,
}

OFFBOARD_LOST = (TO_POSITION, TO_ALTITUDE, TO_STABILIZED, RETURN, LAND, HOLD, TERMINATE, DISARM)
"""COM_OBL_RC_ACT."""

TERMINATION_OFF = 121212
"""CBRK_FLIGHTTERM."""

MODE_REQUIREMENTS = ~(flight_modes.MANUAL_CONTROL | flight_modes.NO_ARMING)
"""Requirements whose loss makes a mode impossible; the others are reported by other conditions."""


@dataclass(slots=True)
class FailsafeConditions:
    """Failsafe conditions."""

    missing: int = 0  # mode requirements (bits of flight_modes.py) that are not met
    manual_lost: bool = True  # no stick input for COM_RC_LOSS_T
    station_lost: bool = True  # no ground station for COM_DL_LOSS_T
    fence: str | None = None  # violation of the geofence; None if there is none
    battery: int = 0  # PX4's warning level
    attitude: bool = False  # whether the failure detector reports an attitude failure
    motor: bool = False  # whether a motor is known to have failed
    flight_time: bool = False  # whether the flight time exceeds COM_FLT_TIME_MAX
    mission_failed: bool = False  # whether the mission cannot be continued


@dataclass(slots=True)
class Reaction:
    """An action requested by a condition."""

    action: int
    cause: str
    ends: int = WHEN_CLEARED
    takeover: int = -1  # set when the reaction starts
    condition_present: bool = True
    seen: bool = True


def can_run(mode: Mode, missing: int) -> bool:
    """Return whether the requirements of a mode are met, apart from manual control."""
    return not mode.needs & missing & MODE_REQUIREMENTS


class Failsafe(VehiclePart):
    """The failsafes of one vehicle.

    Attributes:
        cause: text of its cause.
        takeover: whether a pilot took over from a failsafe.
    """

    def __init__(self, vehicle: Vehicle) -> None:
        super().__init__(vehicle)
        self.action = NONE
        self.cause = ""
        self.takeover = False
        self._reactions: dict[str, Reaction] = {}
        self._delay = 0.0
        self._start_delay = self._values["COM_FAIL_ACT_T"]
        self._configured = self._start_delay
        self._armed = False
        self._intended: Mode = flight_modes.AUTO_LOITER
        self._armed_for = 0.0
        self._manual_lost_at_arming = True
        self._battery_at_arming = 0

    @property
    def active(self) -> bool:
        """Whether the failsafe selects the mode."""
        return self.action > WARN

    def mode(self, intended: Mode) -> Mode:
        """Return the mode to fly while ``intended`` is selected."""
        return MODES.get(self.action, intended)

    def update(
        self,
        intended: Mode,
        mode_selected: bool,
        sticks_moved: bool,
        armed: bool,
        mission_finished: bool,
        conditions: FailsafeConditions,
        dt: float,
    ) -> Mode:
        """Select the action; return the intended mode, which a takeover may change.

        Args:
            intended: mode selected by the pilot.
            mode_selected: whether the pilot selected a mode since the last update, even the same.
            sticks_moved: whether the stick movement is large enough for a takeover.
            dt: s since the last update.
        """
        configured = self._values["COM_FAIL_ACT_T"]
        if configured != self._configured:
            self._configured = self._start_delay = configured
        self.takeover = self.takeover and armed == self._armed
        mode_selected = mode_selected or intended is not self._intended
        if mode_selected or self.takeover or armed != self._armed:
            self._reactions = {
                name: reaction
                for name, reaction in self._reactions.items()
                if reaction.condition_present or reaction.ends != ON_MODE_CHANGE
            }
        self._delay = max(0.0, self._delay - dt)
        self._note_arming(armed, conditions, dt)
        self._react(intended, mission_finished, conditions)
        if self._reactions:
            self._end_cleared()
        if self.action > HOLD or not can_run(flight_modes.AUTO_LOITER, conditions.missing) or self.takeover:
            self._delay = 0.0
        return self._select(intended, mode_selected, sticks_moved, armed, conditions.missing, dt)

    # ------------------------------------------------------------------ conditions

    def _note_arming(self, armed: bool, conditions: FailsafeConditions, dt: float) -> None:
        if armed and not self._armed:
            self._armed_for = 0.0
            self._battery_at_arming = conditions.battery
        if not armed:
            self._manual_lost_at_arming = conditions.manual_lost
        elif not conditions.manual_lost:
            self._manual_lost_at_arming = False
        self._armed_for = self._armed_for + dt if armed else 0.0
        self._armed = armed

    def _react(self, intended: Mode, mission_finished: bool, conditions: FailsafeConditions) -> None:
        values = self._values
        exceptions = int(values["COM_RCL_EXCEPT"])
        excepted = (
            (intended is flight_modes.AUTO_MISSION and exceptions & 1)
            or (intended in (flight_modes.AUTO_LOITER, flight_modes.AUTO_TAKEOFF) and exceptions & 2)
            or (intended is flight_modes.OFFBOARD and exceptions & 4)
        )
        sticks_off = values["COM_RC_IN_MODE"] == 4
        if conditions.manual_lost and not (sticks_off or excepted or self._manual_lost_at_arming):
            self._request("manual", _link_action(int(values["NAV_RCL_ACT"]), "Manual control loss"))
        station_action = int(values["NAV_DLL_ACT"])
        if conditions.station_lost and station_action and intended is not flight_modes.AUTO_LAND:
            self._request("station", _link_action(station_action, "GCS connection loss"))
        if intended is flight_modes.AUTO_MISSION:
            if conditions.mission_failed:
                self._request("mission", Reaction(RETURN, "Mission failure"))
            alone = conditions.station_lost and not station_action and (sticks_off or excepted)
            if alone and mission_finished:
                self._request("all links", Reaction(RETURN, "GCS connection loss"))
        if conditions.flight_time:
            self._request("time", Reaction(RETURN, "Maximum flight time reached"))
        if conditions.fence is not None:
            self._request("fence", _fence_action(int(values["GF_ACTION"])))
        if conditions.battery:
            self._react_to_battery(conditions.battery)
        if conditions.attitude:
            self._request("attitude", self._attitude_action())
        if conditions.motor:
            self._request("motor", _motor_action(int(values["COM_ACT_FAIL_ACT"])))
        if intended.needs & conditions.missing & MODE_REQUIREMENTS:
            self._request("mode", Reaction(*self._fallback(intended, conditions.missing), takeover=ALWAYS))

    def _react_to_battery(self, level: int) -> None:
        action = int(self._values["COM_LOW_BAT_ACT"]) if level > self._battery_at_arming else 0
        if level == 1:
            self._request("low battery", Reaction(WARN, "Low battery level"))
        elif level == 2:
            chosen = {2: LAND, 1: RETURN, 3: RETURN}.get(action, WARN)
            self._request("critical battery", Reaction(chosen, "Critical battery level"))
        else:
            chosen = {1: RETURN, 2: LAND, 3: LAND}.get(action, WARN)
            self._request("empty battery", Reaction(chosen, "Emergency battery level"))

    def _attitude_action(self) -> Reaction:
        values = self._values
        cause = "Attitude failure detected"
        if self._armed_for < values["COM_LKDOWN_TKO"] + values["COM_SPOOLUP_TIME"]:
            return Reaction(DISARM, cause)
        if values["CBRK_FLIGHTTERM"] != TERMINATION_OFF:
            return Reaction(TERMINATE, cause)
        return Reaction(WARN, cause)

    def _fallback(self, intended: Mode, missing: int) -> tuple[int, str]:
        """Return action and cause if the intended mode cannot continue."""
        action, cause = NONE, ""
        mode = intended
        if intended is flight_modes.OFFBOARD and missing & flight_modes.OFFBOARD_SIGNAL:
            action = OFFBOARD_LOST[int(self._values["COM_OBL_RC_ACT"])]
            cause = "Offboard control signal lost"
            if action == DISARM:
                return action, cause
            mode = MODES[action]
        if mode is flight_modes.POSITION_CONTROL and not can_run(mode, missing):
            cause = cause or _missing_text(mode, missing)
            action, mode = TO_ALTITUDE, flight_modes.ALTITUDE_CONTROL
        if mode is flight_modes.ALTITUDE_CONTROL and not can_run(mode, missing):
            cause = cause or _missing_text(mode, missing)
            action, mode = TO_STABILIZED, flight_modes.STABILIZED
        if not can_run(mode, missing):
            cause = cause or _missing_text(mode, missing)
            action = RETURN
        return action, cause

    def _request(self, name: str, wanted: Reaction) -> None:
        if wanted.action == NONE:
            return
        present = self._reactions.get(name)
        if present is not None:
            present.action, present.condition_present, present.seen = wanted.action, True, True
            return
        if wanted.takeover < 0:
            if self._configured > 0.1:
                if wanted.action != WARN and self._delay == 0.0:
                    self._delay = self._start_delay
                wanted.takeover = ALWAYS
            else:
                wanted.takeover = BY_MODE_SWITCH
        if wanted.action == WARN and self._armed and not name.endswith("battery"):
            self._send_text(WARNING, f"Failsafe warning: {wanted.cause}")  # the battery has its own texts
        if wanted.action >= HOLD:
            self.takeover = False
        self._reactions[name] = wanted

    def _end_cleared(self) -> None:
        """End the conditions that were not reported in this update."""
        for name, reaction in list(self._reactions.items()):
            if not reaction.seen:
                reaction.condition_present = False
                if reaction.ends == WHEN_CLEARED:
                    del self._reactions[name]
            reaction.seen = False

    # ------------------------------------------------------------------ selection

    def _select(
        self, intended: Mode, mode_selected: bool, sticks_moved: bool, armed: bool, missing: int, dt: float
    ) -> Mode:
        if self.action == TERMINATE:  # permanent
            return self._apply(TERMINATE, NONE, intended, self.cause, False)
        if not armed:
            self._count_start_delay(False, dt)
            return self._apply(NONE, NONE, intended, "", False)
        action, cause, takeover = NONE, "", ALWAYS
        for reaction in self._reactions.values():
            takeover = max(takeover, reaction.takeover)
            if reaction.action > action:
                action, cause = reaction.action, reaction.cause
        delayed = NONE
        if (
            self._delay > 0.0
            and not self.takeover
            and takeover <= BY_MODE_SWITCH
            and action in (RETURN, LAND, DESCEND, *range(2, 5))
        ):
            delayed, action, takeover = action, HOLD, BY_MODE_SWITCH
        switched = mode_selected and self.action == action
        allowed = (takeover == ALWAYS and (self.takeover or switched or sticks_moved)) or (
            takeover == BY_MODE_SWITCH and (self.takeover or switched)
        )
        taken = False
        new_intended = intended
        if allowed and action in (HOLD, RETURN, LAND, DESCEND):
            if not self.takeover and sticks_moved:
                new_intended = flight_modes.POSITION_CONTROL
            taken, delayed = True, NONE
            fallback, _ = self._fallback(new_intended, missing)
            action = max(WARN, fallback)
        chosen = _possible(action, missing)
        ending = new_intended in (flight_modes.AUTO_LAND, flight_modes.AUTO_RTL)
        if RETURN in (chosen, delayed) and ending and can_run(new_intended, missing):
            chosen, delayed = WARN, NONE  # a return would only begin again
        self._count_start_delay(delayed != NONE, dt)
        return self._apply(chosen, delayed, new_intended, cause, taken)

    def _count_start_delay(self, delaying: bool, dt: float) -> None:
        # The delay recovers more slowly than it is consumed, so that an intermittent condition finally
        # triggers.
        if delaying:
            self._start_delay = max(0.0, self._start_delay - dt)
        else:
            self._start_delay = min(self._configured, self._start_delay + 0.25 * dt)

    def _apply(self, action: int, delayed: int, new_intended: Mode, cause: str, taken: bool) -> Mode:
        if action > self.action and action > WARN:
            self._announce(action, delayed, cause)
        if self.action > WARN and action <= WARN and new_intended is flight_modes.ORBIT:
            new_intended = flight_modes.AUTO_LOITER
        self._intended = new_intended
        self.takeover = taken
        self.action = action
        self.cause = cause if action > NONE else ""
        return new_intended

    def _announce(self, action: int, delayed: int, cause: str) -> None:
        if delayed != NONE:
            seconds = round(self._delay)
            self._send_text(CRITICAL, f"Failsafe activated: entering Hold for {seconds} seconds")
            self._send_text(CRITICAL, f"{cause}: switching to {ACTION_NAMES[delayed]} in {seconds} seconds")
        else:
            self._send_text(CRITICAL, "Failsafe activated")
            self._send_text(CRITICAL, f"{cause}: switching to {ACTION_NAMES[action]}")


def _possible(action: int, missing: int) -> int:
    """Return the action, or the next more severe one whose mode can run."""
    while TO_POSITION <= action <= DESCEND and not can_run(MODES[action], missing):
        action += 1
        if action == DISARM:
            action = TERMINATE
    return action


def _missing_text(mode: Mode, missing: int) -> str:
    lacking = mode.needs & missing
    for bit, words in (
        (flight_modes.ATTITUDE, "No valid attitude estimate"),
        (flight_modes.ALTITUDE, "No valid altitude estimate"),
        (flight_modes.LOCAL_POSITION | flight_modes.RELAXED_POSITION, "No valid position estimate"),
        (flight_modes.GLOBAL_POSITION, "No valid global position estimate"),
        (flight_modes.OFFBOARD_SIGNAL, "Offboard control signal lost"),
        (flight_modes.MISSION, "No valid mission available"),
        (flight_modes.HOME, "Home position not set"),
    ):
        if lacking & bit:
            return words
    return "Mode cannot continue"


def _link_action(value: int, cause: str) -> Reaction:
    action = {1: HOLD, 2: RETURN, 3: LAND, 5: TERMINATE, 6: DISARM}.get(value, NONE)
    ends = {HOLD: WHEN_CLEARED, TERMINATE: NEVER, DISARM: WHEN_CLEARED}.get(action, ON_MODE_CHANGE)
    return Reaction(action, cause, ends, NOBODY if action in (TERMINATE, DISARM) else -1)


def _fence_action(value: int) -> Reaction:
    action = (NONE, WARN, HOLD, RETURN, TERMINATE, LAND)[value]
    takeover = {HOLD: BY_MODE_SWITCH, TERMINATE: NOBODY}.get(action, -1)
    ends = {WARN: WHEN_CLEARED, TERMINATE: NEVER}.get(action, ON_MODE_CHANGE)
    return Reaction(action, "Geofence violation", ends, takeover)


def _motor_action(value: int) -> Reaction:
    action = (WARN, HOLD, LAND, RETURN, TERMINATE)[value]
    ends = {LAND: ON_MODE_CHANGE, RETURN: ON_MODE_CHANGE, TERMINATE: NEVER}.get(action, WHEN_CLEARED)
    return Reaction(action, "Motor failure", ends)


KILL_DISARM = 5.0
"""Time from termination to disarming, s (PX4's COM_KILL_DISARM)."""


class AutoDisarm:
    """Timer of the armed vehicle.

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
