"""The commander of one vehicle: arming, modes, failsafes; what the rest of the stack and MAVLink talk to.

It decides who steers; navigator and tasks say where to, commands.py what a MAV_CMD means.  Plain Python that
runs every 50 ms of simulated time; it asks no clock and opens no socket.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from sitl_bridge.autopilot import records, vehicle_commands
from sitl_bridge.autopilot.commander_data import (
    ACCEPTED,
    CRITICAL,
    DENIED,
    EMERGENCY,
    FAILED,
    INFO,
    TEMPORARILY_REJECTED,
    UNSUPPORTED,
    WARNING,
    BatteryState,
    HealthBits,
    OffboardTarget,
    VehicleFacts,
)
from sitl_bridge.autopilot.estimate import VehicleState
from sitl_bridge.autopilot.modes import flight_modes, mission_items
from sitl_bridge.autopilot.modes.flight_modes import Mode
from sitl_bridge.autopilot.modes.land_detector import LandDetector
from sitl_bridge.autopilot.modes.mission_items import MissionFault, MissionItem
from sitl_bridge.autopilot.modes.navigator import Navigator
from sitl_bridge.autopilot.modes.takeoff import RAMP_UP, Takeoff
from sitl_bridge.autopilot.modes.tasks.automatic import AutomaticTask
from sitl_bridge.autopilot.modes.tasks.follow import FollowTask
from sitl_bridge.autopilot.modes.tasks.offboard_setpoints import (
    BlindDescent,
    descend,
    follow_offboard,
    is_meaningful,
)
from sitl_bridge.autopilot.modes.tasks.orbit import OrbitTask
from sitl_bridge.autopilot.modes.tasks.sticks import Sticks, StickTask
from sitl_bridge.autopilot.safety import arming_checks, failsafe, mission_feasibility
from sitl_bridge.autopilot.safety.geofence import Area, Geofence, read_areas
from sitl_bridge.autopilot.setpoint_output import Output
from sitl_bridge.autopilot.stack_parameters import Parameters

__all__ = [
    "ACCEPTED",
    "DENIED",
    "FAILED",
    "TEMPORARILY_REJECTED",
    "UNSUPPORTED",
    "BatteryState",
    "Commander",
    "HealthBits",
    "OffboardTarget",
    "VehicleFacts",
]

CHECK_PERIOD = 100_000
"""us between arming checks (Commander.cpp runs them at 10 Hz)."""

FENCE_PERIOD = 500_000
"""us between looks at the fence; PX4's GEOFENCE_CHECK_INTERVAL is 200 ms, a polygon costs more here."""

HOME_MOVED = 1.0
"""m a disarmed vehicle must have moved for a new home (HomePosition.cpp, kMinHomePositionChangeEPH)."""

KILL_DISARM = 5.0
"""s after a termination until it disarms (PX4's COM_KILL_DISARM)."""

BATTERY_TEXTS = {
    1: (WARNING, "Low battery level, return advised"),
    2: (CRITICAL, "Critical battery level, land now"),
    3: (EMERGENCY, "Emergency battery level, land immediately"),
}

OWN_TASKS = frozenset({flight_modes.ORBIT, flight_modes.DESCEND, flight_modes.AUTO_FOLLOW})
"""Automatic modes without a target of the navigator."""

# --- MAV_LANDED_STATE
ON_GROUND, IN_AIR, TAKING_OFF, LANDING = 1, 2, 3, 4

# --- MAV_STATE
UNINITIALISED, STANDBY, ACTIVE, CRITICAL_STATE, TERMINATED = 0, 3, 4, 5, 8


class Commander:
    """The commander of one vehicle.

    Args:
        facts: of the vehicle.
        parameters: of the vehicle; MPC_THR_HOVER becomes the vehicle's hover thrust where it is the default.

    Attributes:
        mode: the flight mode in force (a failsafe may have chosen it).
        intended: the flight mode the pilot wants.
        armed: whether the motors may turn.
        landed_state: MAV_LANDED_STATE.
        system_status: MAV_STATE.
        home: deg latitude, deg longitude, m above mean sea level; None before it is known.
        arming_problems: what keeps the vehicle from arming in the present mode, in PX4's words.
        battery_state: what was last heard of the battery.
        mission: items; also ``fence`` and ``rally``.
        mission_problem: why the mission cannot be flown now, in words; None when it can or there is none.
        failures: injected, by kind (gyroscope, accelerometer, magnetometer, barometer, gps, optical_flow,
            range_finder, motor) and instance (from 1; 0 means all): "off" or "stuck".
        health_bits: of SYS_STATUS.
        texts: (MAV_SEVERITY, text) to be sent.
        log_text: called with each of them as it is made; None without a log.
        reached: sequence numbers of mission items reached, to be sent.
        mode_changes: modes entered, to be told.
        navigator: where to; with the mission's flight.
        sticks: where they are.
        orbit: the circle flown in Orbit mode.
        follow: the target followed in Follow mode.
    """

    def __init__(self, facts: VehicleFacts, parameters: Parameters) -> None:
        self.facts = facts
        self.parameters = parameters
        values = parameters.values
        hover = parameters.infos["MPC_THR_HOVER"]
        if values["MPC_THR_HOVER"] == hover.default:
            parameters.set("MPC_THR_HOVER", max(hover.minimum, min(hover.maximum, facts.hover_thrust)))
        self._values = values
        self.texts: deque[tuple[int, str]] = deque()
        self.log_text: Callable[[int, str], None] | None = None
        self.mode_changes: deque[Mode] = deque()
        self.mode: Mode = flight_modes.AUTO_LOITER
        self.intended: Mode = flight_modes.AUTO_LOITER
        self._after_disarming: Mode = flight_modes.AUTO_LOITER
        self.armed = False
        self.home: tuple[float, float, float] | None = None
        self.arming_problems: tuple[str, ...] = ("Waiting for estimator to initialize",)
        self.battery_state = BatteryState()
        self.failures: dict[str, dict[int, str]] = {}
        self.health_bits = HealthBits()
        self.fence: tuple[MissionItem, ...] = ()
        self.rally: tuple[MissionItem, ...] = ()
        self.mission_problem: str | None = None
        self.landed_state = ON_GROUND

        self.state = VehicleState()
        self._output = Output()
        self.land = LandDetector(values)
        self._takeoff = Takeoff(values)
        self._blind = BlindDescent()
        self.navigator = Navigator(values, self.state, self.land, self.say)
        self.navigator.flight.set_home = self._set_home_by_item
        self.reached = self.navigator.flight.reached
        self._automatic = AutomaticTask(values, self.state, self.land, self._output)
        self.sticks = Sticks()
        self._stick_task = StickTask(values, self.state, self.land, self._output, self.sticks)
        self.orbit = OrbitTask(values, self.state, self._output, self._automatic)
        self.follow = FollowTask(values, self.state, self._output, self._automatic)
        self._geofence = Geofence(values)
        self._failsafe = failsafe.Failsafe(values, self.say)
        self._accuracy = arming_checks.Accuracy()
        self._troubles = failsafe.Troubles()

        self._now = -1
        self._missing = ~0
        self._asked = False
        self._had_sticks = False
        self._sticks_moved = False
        self._wants_takeoff = False
        self._flown: Mode | None = None
        self._mission_valid = False
        self._manual_home = False
        self._station_time = -1
        self._offboard: OffboardTarget | None = None
        self._offboard_time = -1
        self._checked = -CHECK_PERIOD
        self._fence_checked = -FENCE_PERIOD
        self._armed_for = 0.0
        self._landed_for = 0.0
        self._has_flown = False
        self._takeoff_time = -1
        self._terminated_for = 0.0
        self._roll_failed = self._pitch_failed = 0.0

    # ------------------------------------------------------------------ read by telemetry

    @property
    def mission(self) -> tuple[MissionItem, ...]:
        """The mission's items."""
        return self.navigator.flight.items

    @property
    def mission_current(self) -> int:
        """Sequence number of the item flown or next."""
        return self.navigator.flight.current

    @property
    def mission_finished(self) -> bool:
        """Whether the last item is done."""
        return self.navigator.flight.finished

    @property
    def failsafe(self) -> str | None:
        """Why a failsafe acts, in words; None when none does."""
        return self._failsafe.cause if self._failsafe.active else None

    @property
    def flight_time(self) -> float:
        """Seconds since take-off; 0 on the ground."""
        return (self._now - self._takeoff_time) * 1e-6 if self._takeoff_time >= 0 else 0.0

    @property
    def system_status(self) -> int:
        """MAV_STATE."""
        if self.mode is flight_modes.TERMINATION:
            return TERMINATED
        if self.armed:
            return CRITICAL_STATE if self._failsafe.active else ACTIVE
        return UNINITIALISED if self.arming_problems else STANDBY

    def say(self, severity: int, text: str) -> None:
        """Send a status text, and log it."""
        self.texts.append((severity, text))
        if self.log_text is not None:
            self.log_text(severity, text)

    # ------------------------------------------------------------------ what comes in

    def command(self, command: int, params: Sequence[float], now: int) -> int:
        """Do a MAV_CMD and return its MAV_RESULT.

        Args:
            command: MAV_CMD.
            params: seven; nan where not set. Of COMMAND_INT, the fifth and sixth are degrees.
            now: us of simulated time.
        """
        handler = vehicle_commands.HANDLERS.get(command)
        return UNSUPPORTED if handler is None else handler(self, params, now)

    def manual_control(self, x: float, y: float, z: float, r: float, now: int) -> None:
        """Take in the sticks: pitch ``x`` and roll ``y`` and yaw ``r`` -1..1, throttle ``z`` 0..1."""
        if self._values["COM_RC_IN_MODE"] == 4 or not all(map(math.isfinite, (x, y, z, r))):
            return
        sticks = self.sticks
        sticks.pitch, sticks.roll, sticks.yaw = (max(-1.0, min(1.0, value)) for value in (x, y, r))
        sticks.throttle = max(0.0, min(1.0, z))
        position = (sticks.pitch, sticks.roll, sticks.yaw, 2.0 * sticks.throttle)
        if sticks.time >= 0:
            change = 0.01 * self._values["COM_RC_STICK_OV"]
            moved = max(abs(a - b) for a, b in zip(position, sticks.last, strict=True))
            self._sticks_moved |= moved > change
            if moved > change:
                sticks.last = position
        else:
            sticks.last = position
        sticks.time = now

    def offboard(self, target: OffboardTarget, now: int) -> None:
        """Take in an offboard setpoint; one with an infinite number or without a direction is ignored."""
        if not is_meaningful(target):
            return
        self._offboard = target
        self._offboard_time = now

    def battery(self, voltage: float, current: float, remaining: float, now: int) -> None:
        """Take in a battery sample: V, A, share 0..1."""
        battery, values = self.battery_state, self._values
        battery.voltage, battery.current, battery.remaining, battery.time = voltage, current, remaining, now
        level = 0
        if remaining <= values["BAT_EMERGEN_THR"]:
            level = 3
        elif remaining <= values["BAT_CRIT_THR"]:
            level = 2
        elif remaining <= values["BAT_LOW_THR"]:
            level = 1
        if self.armed:
            level = max(level, battery.warning)  # a battery does not recover in flight
        if level > battery.warning:
            self.say(*BATTERY_TEXTS[level])
        battery.warning = level

    def ground_station_seen(self, now: int) -> None:
        """Take in a sign of life of a ground station."""
        if self._troubles.station_lost and self._station_time >= 0:
            self.say(INFO, "Data link regained")
        self._station_time = now

    # ------------------------------------------------------------------ plans

    def set_mission(self, items: Sequence[MissionItem]) -> MissionFault | None:
        """Replace the mission, unless it is faulty; then it stays and the first fault is returned."""
        fault = mission_items.check_transfer(items, mission_items.MISSION)
        if fault is None and items:
            verdict = mission_feasibility.check_mission(
                items, self.home, self.land.landed, self._geofence, self._values
            )
            fault = verdict.fault
            for warning in verdict.warnings:
                self.say(CRITICAL, warning)
        if fault is not None:
            self.say(CRITICAL, fault.reason)
            return fault
        self.navigator.flight.set_items(tuple(items), max(self._now, 0))
        self._check_mission()
        if not items and self.mode is flight_modes.AUTO_MISSION and self.armed:
            self.change_mode(flight_modes.AUTO_LOITER)
        return None

    def set_fence(self, items: Sequence[MissionItem]) -> MissionFault | None:
        """Replace the fence; see :meth:`set_mission`.

        Of a fence that can be read, the areas that home or the vehicle break already are discarded with a
        text, as in PX4 (Geofence::_updateFence), and the others are in force.
        """
        areas, fault = read_areas(items)
        if fault is not None:
            self.say(CRITICAL, fault.reason)
            return fault
        self.fence = tuple(items)
        self._geofence.areas = tuple(area for area in areas if self._can_keep_to(area))
        self._fence_checked = -FENCE_PERIOD
        self._check_mission()
        return None

    def set_rally(self, items: Sequence[MissionItem]) -> MissionFault | None:
        """Replace the rally points; see :meth:`set_mission`."""
        fault = mission_items.check_transfer(items, mission_items.RALLY)
        if fault is not None:
            self.say(CRITICAL, fault.reason)
            return fault
        self.rally = self.navigator.rally = tuple(items)
        return None

    def set_current(self, seq: int) -> bool:
        """Make a mission item the current one; False where there is no such item."""
        return self.navigator.flight.set_current(seq)

    def _can_keep_to(self, area: Area) -> bool:
        """Whether home and, in the air, the vehicle are on the allowed side of an area; says if not."""
        state = self.state
        if self.home is not None and not area.allows(*self.home[:2]):
            self.say(CRITICAL, "Geofence invalid, doesn't contain Home position")
            return False
        if self.land.landed or state.projection is None or not self._values["GF_ACTION"]:
            return True
        if not area.allows(*state.projection.point(state.x, state.y)):
            self.say(CRITICAL, "Geofence invalid, doesn't contain current vehicle position")
            return False
        return True

    def _check_mission(self) -> None:
        """Whether the present mission can be flown from here, with the present home and fence."""
        self._mission_valid = False
        self._missing |= flight_modes.MISSION
        self.mission_problem = None
        if not self.mission:
            return
        if self.home is None:
            self.mission_problem = "Not yet ready for mission, no position lock"
            return
        verdict = mission_feasibility.check_mission(
            self.mission, self.home, self.land.landed, self._geofence, self._values
        )
        if verdict.fault is not None:
            self.mission_problem = verdict.fault.reason
            self.say(CRITICAL, verdict.fault.reason)
        else:
            self._mission_valid = True
            self._missing &= ~flight_modes.MISSION

    # ------------------------------------------------------------------ modes and arming

    def change_mode(self, mode: Mode, force: bool = False) -> bool:
        """Ask for a flight mode; False if it cannot be flown now."""
        self._asked = True
        self._update_needs()
        allowed = (
            force or not self.armed or not mode.needs & ~flight_modes.NO_ARMING & self._missing
        ) and self.mode is not flight_modes.TERMINATION
        if allowed:
            self.intended = mode
            if not mode.needs & flight_modes.NO_ARMING or mode is flight_modes.TERMINATION:
                self._after_disarming = mode
        return allowed

    def refuse_mode(self, mode: Mode) -> None:
        """Say that a mode cannot be flown now."""
        self.say(CRITICAL, f"Switching to {mode.name} is currently not available")

    def follow_intention(self) -> None:
        """Make the intended mode the one in force now, where no failsafe decides."""
        mode = self._failsafe.mode(self.intended)
        if mode is not self.mode:
            self.mode = mode
            self.mode_changes.append(mode)

    @property
    def mission_missing(self) -> bool:
        """Whether there is no mission that could be flown."""
        return not self._mission_valid

    def breach_at(self, latitude: float, longitude: float, altitude: float) -> str | None:
        """How a place (deg, deg, m AMSL; nan for the present) breaks the fence; None where not."""
        projection = self.state.projection
        if projection is None or not self._geofence.active:
            return None
        here = projection.point(self.state.x, self.state.y)
        if not (math.isfinite(latitude) and math.isfinite(longitude)):
            latitude, longitude = here
        if not math.isfinite(altitude):
            altitude = projection.altitude(self.state.z)
        return self._geofence.breach(latitude, longitude, altitude, self.home)

    def reposition(
        self, latitude: float, longitude: float, altitude: float, yaw: float, speed: float
    ) -> None:
        """Hold at a place: deg, deg, m above mean sea level, rad, m/s; nan keeps what is.

        The mode must be Hold already, or intended.
        """
        self.follow_intention()
        self._switch_task(self.mode)
        if self.mode is flight_modes.AUTO_LOITER:
            self.navigator.reposition(latitude, longitude, altitude, yaw, speed)

    def arm(self, reason: str) -> bool:
        """Arm, unless a check fails; False if one does."""
        if self.armed:
            return True
        self._update_needs()
        self._update_checks()
        problem = self._stick_problem()
        if problem is not None:
            self.say(CRITICAL, f"Arming denied: {problem}")
            return False
        if self.arming_problems:
            self.say(CRITICAL, "Arming denied: Resolve system health failures first")
            for text in self.arming_problems:
                self.say(CRITICAL, f"Preflight Fail: {text}")
            return False
        self.armed = True
        self._armed_for = self._landed_for = 0.0
        self._has_flown = False
        self.say(INFO, f"Armed by {reason}")
        if self._values["COM_HOME_EN"]:
            self.set_home_here()
        return True

    def _stick_problem(self) -> str | None:
        if not self.mode.manual or self._missing & flight_modes.MANUAL_CONTROL:
            return None
        dead = 0.5 * self._values["MPC_HOLD_DZ"]
        if self.mode in (flight_modes.ALTITUDE_CONTROL, flight_modes.POSITION_CONTROL):
            return "throttle above center" if self.sticks.throttle > 0.5 + dead else None
        return "high throttle" if self.sticks.throttle > dead else None

    def disarm(self, reason: str, forced: bool = False) -> bool:
        """Disarm; False where the vehicle is in the air and it is not ``forced``."""
        if not self.armed:
            return True
        if not forced and not (self.land.landed or self.land.maybe_landed):
            self.say(CRITICAL, "Disarming denied: not landed")
            return False
        self.armed = False
        self._takeoff_time = -1
        self._has_flown = False
        self.intended = self._after_disarming
        self.navigator.flight.disarmed()
        self.say(INFO, f"Disarmed by {reason}")
        return True

    # ------------------------------------------------------------------ home

    def set_home_here(self, forced: bool = False) -> bool:
        """Set home to where the vehicle is; False where that is not known."""
        state = self.state
        if self._manual_home and not forced:
            return False
        if self._missing & flight_modes.GLOBAL_POSITION or state.projection is None:
            return False
        self._manual_home = False
        self._set_home((*state.projection.point(state.x, state.y), state.projection.altitude(state.z)))
        return True

    def set_home_at(self, latitude: float, longitude: float, altitude: float) -> None:
        """Set home to a place: deg, deg, m above mean sea level."""
        self._manual_home = True
        self._set_home((latitude, longitude, altitude))

    def _set_home_by_item(self, item: MissionItem) -> None:
        if item.param1 > 0.5:
            self.set_home_here(forced=True)
        elif abs(item.x) <= 90.0 and abs(item.y) <= 180.0:
            self.set_home_at(item.x, item.y, item.z)

    def _set_home(self, home: tuple[float, float, float]) -> None:
        self.home = self.navigator.home = home
        self._check_mission()

    def _home_local(self) -> tuple[float, float, float] | None:
        projection = self.state.projection
        if self.home is None or projection is None:
            return None
        return (*projection.local(*self.home[:2]), projection.down(self.home[2]))

    def _update_home(self) -> None:
        if not self._values["COM_HOME_EN"]:
            return
        if not self.armed and self.land.landed:
            home, state = self._home_local(), self.state
            if (
                home is None
                or math.hypot(home[0] - state.x, home[1] - state.y) > max(2.0 * state.eph, HOME_MOVED)
                or abs(home[2] - state.z) > max(2.0 * state.eph, HOME_MOVED)
            ):
                self.set_home_here()
        elif self.home is None and self._values["COM_HOME_IN_AIR"]:
            self.set_home_here()

    # ------------------------------------------------------------------ the update

    def update(self, now: int, estimate: Any, setpoint: Any, thrust: float = math.nan) -> None:
        """Advance to ``now`` and say what the controller is to follow.

        Args:
            now: us of simulated time; to be called every 50 ms.
            estimate: () ESTIMATE record, read.
            setpoint: () SETPOINT record, written.
            thrust: 0..1, share of full thrust that the controller asks for now; the land detector listens to
                it. nan where it is not known.
        """
        dt = (now - self._now) * 1e-6 if self._now >= 0 else 0.0
        self._now = now
        self.state.read(estimate, records.GLOBAL)
        self._update_landed(thrust, dt)
        self._update_links()
        self._update_home()
        self._update_troubles(dt)
        self._auto_disarm(dt)
        self._decide(dt)
        if now - self._checked >= CHECK_PERIOD:
            self._checked = now
            self._update_checks()
        self._fly(dt)
        self._output.on_ground = self.land.carried
        self._output.write(setpoint)

    def _update_landed(self, thrust: float, dt: float) -> None:
        land, output = self.land, self._output
        was_landed = land.landed
        if not self.armed:
            land.disarmed()
        else:
            if output.level <= records.IDLE:
                thrust = 0.0
            elif output.level != records.TRAJECTORY:
                thrust = output.thrust
            elif math.isnan(thrust):
                thrust = 1.0
            land.update(self.state, output, thrust, output.level <= records.TRAJECTORY, dt)
            if was_landed and not land.landed:
                self._took_off()
            elif land.landed and not was_landed:
                self.say(INFO, "Landing detected")
        if land.landed:
            self.landed_state = ON_GROUND
        elif self._takeoff.state == RAMP_UP or self.mode is flight_modes.AUTO_TAKEOFF:
            self.landed_state = TAKING_OFF
        elif self.mode in (flight_modes.AUTO_LAND, flight_modes.DESCEND):
            self.landed_state = LANDING
        else:
            self.landed_state = IN_AIR

    def _took_off(self) -> None:
        self.say(INFO, "Takeoff detected")
        self._has_flown = True
        if self._takeoff_time < 0:
            self._takeoff_time = self._now
        if self._values["COM_HOME_EN"]:
            self.set_home_here()

    def _update_links(self) -> None:
        now, values, troubles = self._now, self._values, self._troubles
        sticks = self.sticks
        lost = self._sticks_lost()
        if lost != troubles.manual_lost and self._had_sticks:
            self.say(INFO, "Manual control lost" if lost else "Manual control regained")
        troubles.manual_lost = lost
        self._had_sticks |= not lost
        if lost:
            sticks.centre()
            self._sticks_moved = False
        lost = self._station_time < 0 or now - self._station_time > values["COM_DL_LOSS_T"] * 1e6
        if lost and not troubles.station_lost:
            self.say(INFO, "Connection to ground control station lost")
        troubles.station_lost = lost

    def _update_troubles(self, dt: float) -> None:
        state, values, troubles = self.state, self._values, self._troubles
        self._accuracy.update(state, values)
        ground = 0.0
        if self.home is not None and state.projection is not None:
            ground = state.projection.down(self.home[2])
        self._blind.update(state, ground, dt)
        self._update_needs()
        troubles.battery = self.battery_state.warning
        troubles.motor = "motor" in self.failures
        troubles.mission_failed = self.navigator.flight.failed
        limit = values["COM_FLT_TIME_MAX"]
        troubles.flight_time = limit >= 0 and self.flight_time > limit
        self._roll_failed = self._tilted_for(state.roll, values["FD_FAIL_R"], self._roll_failed, dt)
        self._pitch_failed = self._tilted_for(state.pitch, values["FD_FAIL_P"], self._pitch_failed, dt)
        troubles.attitude = (
            self._roll_failed >= values["FD_FAIL_R_TTRI"] or self._pitch_failed >= values["FD_FAIL_P_TTRI"]
        )
        if self._now - self._fence_checked >= FENCE_PERIOD:
            self._fence_checked = self._now
            troubles.fence = self._fence_breach()

    def _update_needs(self) -> None:
        """Find the needs of modes that are not met, with all setpoints and plans that have come so far."""
        self._missing = self._troubles.missing = arming_checks.missing_needs(
            self.state,
            self._accuracy,
            self.home is not None,
            self._mission_valid,
            self._offboard_available(),
            not self._sticks_lost(),
        )

    def _sticks_lost(self) -> bool:
        return self.sticks.time < 0 or self._now - self.sticks.time > self._values["COM_RC_LOSS_T"] * 1e6

    def _tilted_for(self, angle: float, limit: float, before: float, dt: float) -> float:
        """Seconds an angle in rad has exceeded a limit in deg; acrobatics are allowed in Acro."""
        if limit <= 0.0 or abs(angle) <= math.radians(limit) or self.mode is flight_modes.ACRO:
            return 0.0
        return before + dt

    def _fence_breach(self) -> str | None:
        projection = self.state.projection
        if not self._geofence.active or projection is None or self._missing & flight_modes.GLOBAL_POSITION:
            return None
        here = projection.point(self.state.x, self.state.y)
        breach = self._geofence.breach(*here, projection.altitude(self.state.z), self.home)
        if breach is not None and breach != self._troubles.fence and self._values["GF_ACTION"]:
            self.say(CRITICAL, f"Geofence violation: {breach}")
        return breach

    def _offboard_available(self) -> bool:
        target = self._offboard
        if target is None or self._now - self._offboard_time > self._values["COM_OF_LOSS_T"] * 1e6:
            return False
        if target.attitude is not None or target.angular_velocity is not None:
            return True
        if any(map(math.isfinite, target.position)):
            return self._accuracy.position
        if any(map(math.isfinite, target.velocity)):
            return self._accuracy.velocity
        return any(map(math.isfinite, target.acceleration))

    def _auto_disarm(self, dt: float) -> None:
        if not self.armed:
            return
        values, landed = self._values, self.land.landed
        self._armed_for += dt
        self._landed_for = self._landed_for + dt if landed else 0.0
        amid_mission = self.mode is flight_modes.AUTO_MISSION and not self.mission_finished
        if self._has_flown:
            after = values["COM_DISARM_LAND"]
            if 0.0 < after <= self._landed_for and not amid_mission:
                self.disarm("auto disarm land")
        elif 0.0 < values["COM_DISARM_PRFLT"] <= self._armed_for - values["COM_SPOOLUP_TIME"]:
            self.disarm("auto disarm preflight")
        self._terminated_for = self._terminated_for + dt if self.mode is flight_modes.TERMINATION else 0.0
        if self._terminated_for >= KILL_DISARM:
            self.disarm("lockdown", forced=True)

    def _update_checks(self) -> None:
        battery = self.battery_state
        self.arming_problems = arming_checks.arming_problems(
            self.mode,
            self._missing,
            self.state,
            self._values,
            (battery.warning, battery.remaining),
            self.failures,
            self._troubles.fence,
            self._geofence.needs_home,
            self._troubles.station_lost,
        )
        arming_checks.health(
            self.facts,
            self._missing,
            self.sticks.time >= 0,
            battery.warning,
            self.failures,
            not self.arming_problems,
            self.health_bits,
        )

    # ------------------------------------------------------------------ who steers

    def _decide(self, dt: float) -> None:
        """Find the mode in force."""
        wish, self.navigator.wish = self.navigator.wish, None
        if wish is not None:
            self._grant(wish)
        moved = self._sticks_moved and self._override_allowed()
        self._sticks_moved = False
        if moved and not self._failsafe.active:
            self.change_mode(flight_modes.POSITION_CONTROL)
            self.say(INFO, "Pilot took over using sticks")
        self.intended = self._failsafe.update(
            self.intended, self._asked, moved, self.armed, self.mission_finished, self._troubles, dt
        )
        self._asked = False
        if self._failsafe.action == failsafe.DISARM:
            self.disarm("failsafe", forced=True)
        if self._failsafe.mode(self.intended) is not self.mode:
            self._checked = self._now - CHECK_PERIOD
        self.follow_intention()

    def _grant(self, wish: Mode) -> None:
        """What follows by itself: hold after a take-off or mission, a return that a mission asks for."""
        asked = self._asked
        if wish is flight_modes.AUTO_RTL:
            if self.change_mode(wish):
                self.say(INFO, "Returning to launch")
        elif (
            self.mode is flight_modes.AUTO_TAKEOFF
            and self._values["COM_TAKEOFF_ACT"] == 1
            and self._mission_valid
        ):
            self.change_mode(flight_modes.AUTO_MISSION)
        else:
            self.change_mode(wish)
        self._asked = asked

    def _override_allowed(self) -> bool:
        enabled = int(self._values["COM_RC_OVERRIDE"])
        if not self.armed or self._missing & flight_modes.MANUAL_CONTROL:
            return False
        if self.mode is flight_modes.OFFBOARD:
            return bool(enabled & 2)
        return self.mode.automatic and bool(enabled & 1)

    # ------------------------------------------------------------------ where to

    def _fly(self, dt: float) -> None:
        """Make the output of the mode in force."""
        mode, output = self.mode, self._output
        self._set_limits()
        self._switch_task(mode)
        if not self.armed or mode is flight_modes.TERMINATION:
            self._takeoff.update(False, True, False, dt)
            output.clear(records.OFF)
            return
        self._takeoff.update(True, self.land.landed, self._wants_takeoff, dt)
        ramping = self._takeoff.state == RAMP_UP
        if mode is flight_modes.OFFBOARD:
            target = self._offboard
            self._wants_takeoff = target is not None and follow_offboard(
                target, self.state, self.land, output
            )
        elif mode is flight_modes.DESCEND:
            self._wants_takeoff = False
            descend(self._values, self.state, self.land, self._blind, output)
        elif mode is flight_modes.ORBIT:
            self._wants_takeoff = False
            self.orbit.update(dt)
        elif mode is flight_modes.AUTO_FOLLOW:
            self._wants_takeoff = False
            home = self._home_local()
            self.follow.update(self.state.z if home is None else home[2], self._now, dt)
        elif mode.automatic:
            self._fly_automatic(ramping, dt)
        else:
            self._fly_by_sticks(mode, ramping, dt)
        if output.level == records.TRAJECTORY:
            if self.land.held_up:
                output.stay_level()
            self._takeoff.shape(output)
        elif self._takeoff.on_ground and not self._has_thrust(output):
            output.clear(records.IDLE)
        if self.land.maybe_landed and output.level == records.TRAJECTORY and not ramping:
            output.clear(records.IDLE)

    def _has_thrust(self, output: Output) -> bool:
        """Whether a setpoint without climb control may lift the vehicle: after spooling up, by its thrust."""
        return self._armed_for >= self._values["COM_SPOOLUP_TIME"] and (
            output.thrust > self._values["MPC_MANTHR_MIN"] + 0.01
        )

    def _fly_automatic(self, ramping: bool, dt: float) -> None:
        if self._takeoff.on_ground:
            self._automatic.settle()
        self.navigator.update(self._now)
        self._automatic.update(self.navigator.target, self._home_local(), ramping, dt)
        self._wants_takeoff = self._automatic.wants_takeoff

    def _fly_by_sticks(self, mode: Mode, ramping: bool, dt: float) -> None:
        task = self._stick_task
        if mode is flight_modes.POSITION_CONTROL:
            task.position(ramping, dt)
        elif mode is flight_modes.ALTITUDE_CONTROL:
            task.altitude(ramping, dt)
        elif mode is flight_modes.ACRO:
            task.rates()
        else:
            task.attitude(dt)
        self._wants_takeoff = task.wants_takeoff

    def _switch_task(self, mode: Mode) -> None:
        """Begin what is flown anew when the mode changes, and when the vehicle is armed."""
        flown = mode if self.armed else None
        if flown is self._flown:
            return
        automatic = flown is not None and flown.automatic and flown not in OWN_TASKS
        if self._flown is flight_modes.OFFBOARD:
            # What somebody else commanded is not taken over, as in PX4 (FlightModeManager::switchTask): its
            # acceleration would carry the vehicle away for as long as the jerk limit takes to end it.
            self._output.clear(records.IDLE)
        self._flown = flown
        self.navigator.enter(flown if automatic else None, self._now)
        self._wants_takeoff = False
        if flown is None:
            return
        if flown.automatic:
            self._automatic.begin()
            self.follow.begin()
        elif flown.manual:
            self._stick_task.begin()

    def _set_limits(self) -> None:
        output, values = self._output, self._values
        output.max_horizontal = values["MPC_XY_VEL_MAX"]
        output.max_up = values["MPC_Z_VEL_MAX_UP"]
        output.max_down = values["MPC_Z_VEL_MAX_DN"]
        near_ground = self._takeoff.state <= RAMP_UP or self.land.ground_contact
        output.max_tilt = math.radians(values["MPC_TILTMAX_LND" if near_ground else "MPC_TILTMAX_AIR"])
