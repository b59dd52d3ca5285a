"""The commander of one vehicle: arming, the mode in force, failsafes.

It decides which mode is in force; the flight mode manager flies it.  Plain Python that runs every 50 ms of
simulated time, without a clock or a socket.  What each MAV_CMD does, and its MAV_RESULT, follows PX4
(Commander.cpp, navigator_main.cpp, FlightTaskOrbit.cpp); commands about the link are in mavlink/.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.commander_data import (
    ACCEPTED,
    CRITICAL,
    DENIED,
    INFO,
    TEMPORARILY_REJECTED,
    UNSUPPORTED,
    WARNING,
    BatteryState,
    HealthBits,
    OffboardTarget,
    VehicleFacts,
)
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.flight_mode_manager import FlightModeManager
from sitl_bridge.autopilot.modes.flight_modes import Mode
from sitl_bridge.autopilot.modes.mission_items import MissionFault
from sitl_bridge.autopilot.modes.payload_control import REGIONS, TRIGGERS
from sitl_bridge.autopilot.modes.tasks.orbit import LEAST_RADIUS, UNCHANGED, Circle
from sitl_bridge.autopilot.parameters import Parameters
from sitl_bridge.autopilot.safety import arming_checks, failsafe
from sitl_bridge.autopilot.safety.condition_monitor import TEXTS, ConditionMonitor, warning_level
from sitl_bridge.autopilot.safety.failsafe import AutoDisarm
from sitl_bridge.autopilot.safety.geofence import Geofence
from sitl_bridge.autopilot.safety.plans import Plans
from sitl_bridge.autopilot.vehicle_part import Vehicle
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.plan.plan_upload import MissionItem

CHECK_PERIOD = 100_000
"""us between arming checks (Commander.cpp runs them at 10 Hz)."""


class Commander:
    """The commander of one vehicle.

    Args:
        parameters: of the vehicle; a default MPC_THR_HOVER is replaced by the vehicle's hover thrust.

    Attributes:
        mode: the flight mode in force, possibly set by a failsafe.
        intended: the flight mode that the pilot selected.
        armed: whether the motors may turn.
        landed_state: MAV_LANDED_STATE.
        arming_problems: what keeps the vehicle from arming in the present mode, in PX4's words.
        failures: injected, by kind (gyroscope, accelerometer, magnetometer, barometer, gps, optical_flow,
            range_finder, motor) and instance (from 1; 0 means all): "off" or "stuck".
        health_bits: of SYS_STATUS.
        texts: status texts (MAV_SEVERITY, text) to send.
        log_text: called with each of them as it is made; None without a log.
        reached: sequence numbers of mission items reached, to send.
        state: the vehicle's estimated state.
        navigator: sets the target of automatic modes.
        orbit: the circle of Orbit mode; ``follow`` the target of Follow mode.
        flight: the mission and its progress; ``plans`` geofence and rally points.
        home_position: where it returns to.
        geofence: where it may fly.
    """

    def __init__(self, facts: VehicleFacts, parameters: Parameters) -> None:
        self.facts = facts
        self.parameters = parameters
        values = parameters.values
        hover = parameters.infos["MPC_THR_HOVER"]
        if values["MPC_THR_HOVER"] == hover.default:
            parameters.set("MPC_THR_HOVER", max(hover.minimum, min(hover.maximum, facts.hover_thrust)))
        self.texts: deque[tuple[int, str]] = deque()
        self.log_text: Callable[[int, str], None] | None = None
        self.mode: Mode = flight_modes.AUTO_LOITER
        self.intended: Mode = flight_modes.AUTO_LOITER
        self._after_disarming: Mode = flight_modes.AUTO_LOITER
        self.armed = False
        self.arming_problems: tuple[str, ...] = ("Waiting for estimator to initialize",)
        self.battery_state = BatteryState()
        self.failures: dict[str, dict[int, str]] = {}
        self.health_bits = HealthBits(0, 0)
        self.landed_state: int = mavlink.MAV_LANDED_STATE_ON_GROUND
        self._now = -1
        self._asked = False
        self._checked = -CHECK_PERIOD
        self._takeoff_time = -1
        self._values = values
        vehicle = Vehicle(values, self.send_text)
        self.state, self.land = vehicle.state, vehicle.land
        self._modes = FlightModeManager(vehicle)
        self.navigator = self._modes.navigator
        self.sticks = self._modes.sticks
        self.orbit, self.follow = self._modes.orbit, self._modes.follow
        self.flight = self.navigator.flight
        self.reached = self.flight.reached
        self.geofence = Geofence(vehicle)
        self.plans = Plans(vehicle, self.navigator, self.geofence)
        self._monitor = ConditionMonitor(vehicle, self.sticks, self._modes.offboard, self.geofence)
        self.home_position = vehicle.home
        self.home_position.is_accurate = lambda: not self._monitor.lacks(flight_modes.GLOBAL_POSITION)
        self.home_position.changed = self.plans.check_mission
        self._failsafe = failsafe.Failsafe(vehicle)
        self._auto_disarm = AutoDisarm(values)

    # ------------------------------------------------------------------ read by telemetry

    @property
    def home(self) -> tuple[float, float, float] | None:
        """deg latitude, deg longitude, m above mean sea level; None before it is known."""
        return self.home_position.place

    @property
    def failsafe(self) -> str | None:
        """Cause of the active failsafe; None if none is active."""
        return self._failsafe.cause if self._failsafe.active else None

    @property
    def flight_time(self) -> float:
        """Seconds since take-off; 0 on the ground."""
        return (self._now - self._takeoff_time) * 1e-6 if self._takeoff_time >= 0 else 0.0

    @property
    def system_status(self) -> int:
        """MAV_STATE."""
        if self.mode is flight_modes.TERMINATION:
            return int(mavlink.MAV_STATE_FLIGHT_TERMINATION)
        if self.armed:
            return int(mavlink.MAV_STATE_CRITICAL if self._failsafe.active else mavlink.MAV_STATE_ACTIVE)
        return int(mavlink.MAV_STATE_UNINIT if self.arming_problems else mavlink.MAV_STATE_STANDBY)

    def send_text(self, severity: int, text: str) -> None:
        """Send a status text, and log it."""
        self.texts.append((severity, text))
        if self.log_text is not None:
            self.log_text(severity, text)

    # ------------------------------------------------------------------ inputs

    def command(self, command: int, params: Sequence[float], now: int) -> int:
        """Execute a MAV_CMD and return its MAV_RESULT.

        Args:
            command: MAV_CMD.
            params: seven; nan if not set. Of COMMAND_INT, the fifth and sixth are degrees.
            now: us of simulated time.
        """
        handler = HANDLERS.get(command)
        return UNSUPPORTED if handler is None else handler(self, params, now)

    def manual_control(self, x: float, y: float, z: float, r: float, now: int) -> None:
        """Take in the sticks: pitch ``x`` and roll ``y`` and yaw ``r`` -1..1, throttle ``z`` 0..1."""
        if self._values["COM_RC_IN_MODE"] == 4 or not all(map(math.isfinite, (x, y, z, r))):
            return
        self.sticks.update(x, y, r, z, now, 0.01 * self._values["COM_RC_STICK_OV"])

    def offboard(self, target: OffboardTarget, now: int) -> None:
        """Take in an offboard setpoint; one with an infinite number or without a direction is ignored."""
        self._modes.offboard.update(target, now)

    def battery(self, voltage: float, current: float, remaining: float, now: int) -> None:
        """Take in a battery sample: V, A, share 0..1."""
        battery = self.battery_state
        battery.voltage, battery.current, battery.remaining, battery.time = voltage, current, remaining, now
        level = warning_level(remaining, battery.warning, self.armed, self._values)
        if level > battery.warning:
            self.send_text(*TEXTS[level])
        battery.warning = level

    def ground_station_seen(self, now: int) -> None:
        """Take in a heartbeat of a ground station."""
        self._monitor.ground_station_seen(now)

    # ------------------------------------------------------------------ plans

    def set_mission(self, items: Sequence[MissionItem]) -> MissionFault | None:
        """Replace the mission; a faulty one is refused with its first fault, and the present one stays."""
        fault = self.plans.set_mission(items, self._now)
        if fault is None and not items and self.mode is flight_modes.AUTO_MISSION and self.armed:
            self.change_mode(flight_modes.AUTO_LOITER)
        return fault

    def set_fence(self, items: Sequence[MissionItem]) -> MissionFault | None:
        """Replace the fence; see :meth:`set_mission`."""
        fault = self.plans.set_fence(items)
        if fault is None:
            self._monitor.check_fence_soon()
        return fault

    # ------------------------------------------------------------------ modes and arming

    def change_mode(self, mode: Mode, force: bool = False) -> bool:
        """Request a flight mode; False if it cannot be flown now."""
        self._asked = True
        self._update_needs()
        possible = force or not self.armed or not self._monitor.lacks(mode.needs & ~flight_modes.NO_ARMING)
        allowed = possible and self.mode is not flight_modes.TERMINATION
        if allowed:
            self.intended = mode
            self.navigator.requested_mode = None  # what the mode before it still requests is overtaken
            if not mode.needs & flight_modes.NO_ARMING or mode is flight_modes.TERMINATION:
                self._after_disarming = mode
        return allowed

    def report_unavailable(self, mode: Mode) -> None:
        """Send the text that a mode cannot be flown now."""
        self.send_text(CRITICAL, f"Switching to {mode.name} is currently not available")

    @property
    def next_mode(self) -> Mode:
        """The intended mode, or that of the active failsafe: in force from the next update on."""
        return self._failsafe.mode(self.intended)

    def follow_intention(self) -> None:
        """Put the next mode in force now."""
        self.mode = self.next_mode

    def reposition(
        self, latitude: float, longitude: float, altitude: float, yaw: float, speed: float
    ) -> None:
        """Hold at a place: deg, deg, m above mean sea level, rad, m/s; nan keeps the present value.

        The mode must be Hold already, or intended.
        """
        self.follow_intention()
        self._modes.switch(self.mode, self.armed, self._now)
        if self.mode is flight_modes.AUTO_LOITER:
            self.navigator.reposition(latitude, longitude, altitude, yaw, speed)

    def arm(self, reason: str) -> bool:
        """Arm, unless a check fails; False if one does."""
        if self.armed:
            return True
        self._update_needs()
        self._update_checks()
        missing = self._monitor.conditions.missing
        problem = arming_checks.stick_problem(self.mode, self.sticks, missing, self._values)
        if problem is not None:
            self.send_text(CRITICAL, f"Arming denied: {problem}")
            return False
        if self.arming_problems:
            self.send_text(CRITICAL, "Arming denied: Resolve system health failures first")
            self.send_arming_problems()
            return False
        self.armed = True
        self._auto_disarm.begin()
        self.send_text(INFO, f"Armed by {reason}")
        self.home_position.set_here()
        return True

    def send_arming_problems(self) -> None:
        """Send a text for each check that fails."""
        for text in self.arming_problems:
            self.send_text(CRITICAL, f"Preflight Fail: {text}")

    def disarm(self, reason: str, forced: bool = False) -> bool:
        """Disarm; False if the vehicle is in the air and ``forced`` is not set."""
        if not self.armed:
            return True
        if not forced and not (self.land.landed or self.land.maybe_landed):
            self.send_text(CRITICAL, "Disarming denied: not landed")
            return False
        self.armed = False
        self._takeoff_time = -1
        self.intended = self._after_disarming
        self.flight.note_disarmed()
        self.send_text(INFO, f"Disarmed by {reason}")
        return True

    # ------------------------------------------------------------------ the update

    def update(self, now: int, estimate: Packed, setpoint: Packed, thrust: float = math.nan) -> None:
        """Advance to ``now`` and set the setpoint of the controller.

        Args:
            now: us of simulated time; to be called every 50 ms.
            estimate: () ESTIMATE record, read.
            setpoint: () array of SETPOINT, written.
            thrust: 0..1, share of full thrust that the controller asks for now, for the land detector; nan
                if it is not known.
        """
        dt = (now - self._now) * 1e-6 if self._now >= 0 else 0.0
        self._now = now
        self.state.read(estimate)
        self._update_landed(thrust, dt)
        self._monitor.update_links(now)
        if not self.armed and self.land.landed:
            self.home_position.update()
        self._update_troubles(dt)
        self._disarm_if_due(dt)
        self._decide(dt)
        if now - self._checked >= CHECK_PERIOD:
            self._checked = now
            self._update_checks()
        self._modes.fly(self.mode, self._auto_disarm.armed_for if self.armed else None, now, dt)
        self._modes.output.on_ground = self.land.ground_load
        self._modes.output.write(setpoint)

    def _update_landed(self, thrust: float, dt: float) -> None:
        land, output = self.land, self._modes.output
        was_landed = land.landed
        if not self.armed:
            land.note_disarmed()
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
                self.send_text(INFO, "Landing detected")
        if land.landed:
            self.landed_state = mavlink.MAV_LANDED_STATE_ON_GROUND
        elif self._modes.ramping_up or self.mode is flight_modes.AUTO_TAKEOFF:
            self.landed_state = mavlink.MAV_LANDED_STATE_TAKEOFF
        elif self.mode in (flight_modes.AUTO_LAND, flight_modes.DESCEND):
            self.landed_state = mavlink.MAV_LANDED_STATE_LANDING
        else:
            self.landed_state = mavlink.MAV_LANDED_STATE_IN_AIR

    def _took_off(self) -> None:
        self.send_text(INFO, "Takeoff detected")
        self._auto_disarm.has_flown = True
        if self._takeoff_time < 0:
            self._takeoff_time = self._now
        self.home_position.set_here()

    def _update_troubles(self, dt: float) -> None:
        monitor, conditions = self._monitor, self._monitor.conditions
        monitor.update_accuracy()
        self._modes.watch_height(dt)
        self._update_needs()
        conditions.battery = self.battery_state.warning
        conditions.motor = "motor" in self.failures
        conditions.mission_failed = self.flight.failed
        limit = self._values["COM_FLT_TIME_MAX"]
        conditions.flight_time = limit >= 0 and self.flight_time > limit
        monitor.update_attitude(self.mode, dt)
        monitor.update_fence(self._now)

    def _update_needs(self) -> None:
        """Find the needs of modes that are not met, by all setpoints and plans received so far."""
        self._monitor.update_needs(self._now, self.plans.mission_valid)

    def _disarm_if_due(self, dt: float) -> None:
        if not self.armed:
            return
        reason = self._auto_disarm.update(self.mode, self.land.landed, self.flight.finished, dt)
        if reason is not None:
            self.disarm(reason, forced=self.mode is flight_modes.TERMINATION)

    def _update_checks(self) -> None:
        battery, conditions = self.battery_state, self._monitor.conditions
        needs_home = self.geofence.needs_home
        self.arming_problems = arming_checks.arming_problems(
            self.mode, conditions, self.state, self._values, battery, self.failures, needs_home
        )
        self.health_bits = arming_checks.health(
            self.facts,
            conditions.missing,
            self.sticks.time >= 0,
            battery.warning,
            self.failures,
            not self.arming_problems,
        )

    # ------------------------------------------------------------------ the mode in force

    def _decide(self, dt: float) -> None:
        requested_mode, self.navigator.requested_mode = self.navigator.requested_mode, None
        if requested_mode is not None:
            self._grant(requested_mode)
        moved = self.sticks.has_moved() and self._override_allowed()
        if moved and not self._failsafe.active:
            self.change_mode(flight_modes.POSITION_CONTROL)
            self.send_text(INFO, "Pilot took over using sticks")
        conditions = self._monitor.conditions
        self.intended = self._failsafe.update(
            self.intended, self._asked, moved, self.armed, self.flight.finished, conditions, dt
        )
        self._asked = False
        if self._failsafe.action == failsafe.DISARM:
            self.disarm("failsafe", forced=True)
        if self.next_mode is not self.mode:
            self._checked = self._now - CHECK_PERIOD
        self.follow_intention()

    def _grant(self, requested_mode: Mode) -> None:
        """Enter the mode that the navigator requests, e.g. Hold after a take-off or a mission."""
        asked = self._asked
        if requested_mode is flight_modes.AUTO_RTL:
            if self.change_mode(requested_mode):
                self.send_text(INFO, "Returning to launch")
        else:
            self.change_mode(requested_mode)
        self._asked = asked

    def _override_allowed(self) -> bool:
        enabled = int(self._values["COM_RC_OVERRIDE"])
        if not self.armed or self._monitor.lacks(flight_modes.MANUAL_CONTROL):
            return False
        if self.mode is flight_modes.OFFBOARD:
            return bool(enabled & 2)
        return self.mode.automatic and bool(enabled & 1)


UNITS = {
    mavlink.FAILURE_UNIT_SENSOR_GYRO: "gyroscope",
    mavlink.FAILURE_UNIT_SENSOR_ACCEL: "accelerometer",
    mavlink.FAILURE_UNIT_SENSOR_MAG: "magnetometer",
    mavlink.FAILURE_UNIT_SENSOR_BARO: "barometer",
    mavlink.FAILURE_UNIT_SENSOR_GPS: "gps",
    mavlink.FAILURE_UNIT_SENSOR_OPTICAL_FLOW: "optical_flow",
    mavlink.FAILURE_UNIT_SENSOR_DISTANCE_SENSOR: "range_finder",
    mavlink.FAILURE_UNIT_SYSTEM_MOTOR: "motor",
}

OK, OFF, STUCK = mavlink.FAILURE_TYPE_OK, mavlink.FAILURE_TYPE_OFF, mavlink.FAILURE_TYPE_STUCK

EVERY = 0
"""Instance number for all instances."""


def inject(
    params: Sequence[float], facts: VehicleFacts, failures: dict[str, dict[int, str]]
) -> tuple[int, str]:
    """Store a failure in ``failures`` by kind and instance (from 1, 0 for all).

    Returns:
        MAV_RESULT and a text.
    """
    if not all(map(math.isfinite, params[:2])):
        return DENIED, "Failure injection: unit and type must be given"
    unit, kind = int(params[0]), int(params[1])
    instance = int(params[2]) if math.isfinite(params[2]) else EVERY
    name = UNITS.get(unit)
    if name is None:
        return UNSUPPORTED, f"Failure injection: unit {unit} is not supported"
    how = {OK: "ok", OFF: "off", STUCK: "stuck"}.get(kind)
    if how is None or (name == "motor" and kind == STUCK):
        return UNSUPPORTED, f"Failure injection: {name} failure of type {kind} is not supported"
    if instance < 0 or (name == "motor" and instance > facts.motors):
        return DENIED, f"Failure injection: no {name} {instance}"
    present = failures.setdefault(name, {})
    if kind != OK:
        if instance == EVERY:
            present.clear()
        present[instance] = how
    elif instance == EVERY:
        present.clear()
    else:
        present.pop(instance, None)
        if name == "motor" and EVERY in present:
            del present[EVERY]
            present.update({k: "off" for k in range(1, facts.motors + 1) if k != instance})
    if not present:
        del failures[name]
    which = "all" if instance == EVERY else str(instance)
    return ACCEPTED, f"Failure injection: {name} {which} {how}"


Params: TypeAlias = Sequence[float]
Handler: TypeAlias = Callable[["Commander", Params, int], int]


def _switch(commander: Commander, mode: Mode, force: bool = False) -> int:
    if commander.change_mode(mode, force):
        return ACCEPTED
    commander.report_unavailable(mode)
    return TEMPORARILY_REJECTED


def _arm_disarm(commander: Commander, params: Params, _now: int) -> int:
    wanted = _round(params[0])
    if wanted not in (0, 1):
        commander.send_text(CRITICAL, f"Unsupported ARM_DISARM param: {params[0]:.3f}")
        return UNSUPPORTED
    if wanted == 1:
        done = commander.arm("external command")
    else:
        forced = _round(params[1]) == mavlink.FORCE_ARMING
        done = commander.disarm("external command", forced)
    return ACCEPTED if done else TEMPORARILY_REJECTED


def _round(value: float) -> int | None:
    """A parameter that encodes an integer, rounded half away from zero (C's lroundf); None if not finite."""
    if not math.isfinite(value):
        return None
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _set_mode(commander: Commander, params: Params, _now: int) -> int:
    base, main, sub = (int(value) if math.isfinite(value) else 0 for value in params[:3])
    mode = (
        flight_modes.mode_of(main, sub)
        if base & flight_modes.FLAG_CUSTOM
        else flight_modes.mode_of_base_mode(base)
    )
    if mode is None:
        commander.send_text(CRITICAL, "Unsupported auto mode" if main == 4 else "Unsupported mode")
        return TEMPORARILY_REJECTED
    return _switch(commander, mode, force=mode is flight_modes.AUTO_LAND)


def _take_off(commander: Commander, params: Params, _now: int) -> int:
    result = _switch(commander, flight_modes.AUTO_TAKEOFF)
    if result == ACCEPTED:
        commander.navigator.takeoff_altitude = params[6]
    return result


def _enter(mode: Mode, said: str = "", force: bool = False) -> Handler:
    """Switch to a mode, and say so."""

    def execute(commander: Commander, _params: Params, _now: int) -> int:
        result = _switch(commander, mode, force)
        if result == ACCEPTED and said:
            commander.send_text(INFO, said)
        return result

    return execute


def _reposition(commander: Commander, params: Params, _now: int) -> int:
    flags = int(params[1]) if math.isfinite(params[1]) else 0
    if flags != 1:  # MAV_DO_REPOSITION_FLAGS_CHANGE_MODE, and nothing else
        return UNSUPPORTED
    return _hold_at(commander, params[4], params[5], params[6], params[3], params[0])


def _change_altitude(commander: Commander, params: Params, _now: int) -> int:
    return _hold_at(commander, math.nan, math.nan, params[0], math.nan, math.nan)


def _hold_at(
    commander: Commander, latitude: float, longitude: float, altitude: float, yaw: float, speed: float
) -> int:
    result = _switch(commander, flight_modes.AUTO_LOITER)
    if result != ACCEPTED or not commander.armed:
        return result
    breach = commander.geofence.breach_at(latitude, longitude, altitude)
    if breach is not None:
        commander.send_text(CRITICAL, "Reposition is outside geofence")
        return result  # as PX4: the mode changes, the place does not
    commander.reposition(latitude, longitude, altitude, yaw, speed)
    return result


def _orbit(commander: Commander, params: Params, _now: int) -> int:
    if not commander.change_mode(flight_modes.ORBIT):
        commander.send_text(CRITICAL, "Orbit command rejected")
        return TEMPORARILY_REJECTED
    state, values = commander.state, commander.parameters.values
    before = commander.orbit.circle
    active = commander.mode is flight_modes.ORBIT
    radius = params[0] if math.isfinite(params[0]) else (before.radius if active else LEAST_RADIUS)
    speed = abs(params[1]) if math.isfinite(params[1]) else (abs(before.speed) if active else 1.0)
    clockwise = radius > 0.0 if math.isfinite(params[0]) else before.speed > 0.0
    look = int(params[2]) if math.isfinite(params[2]) else before.look
    if look == UNCHANGED:
        look = before.look if active else 0
    x, y, z = (before.x, before.y, before.z) if active else (state.x, state.y, state.z)
    if math.isfinite(params[4]) and math.isfinite(params[5]) and state.projection is not None:
        x, y = state.projection.local(params[4], params[5])
    if math.isfinite(params[6]) and state.projection is not None:
        z = state.projection.down_of_altitude(params[6])
    radius = abs(radius)
    if not LEAST_RADIUS <= radius <= values["MC_ORBIT_RAD_MAX"]:
        commander.send_text(CRITICAL, "Orbit radius limit exceeded")
        radius = max(LEAST_RADIUS, min(values["MC_ORBIT_RAD_MAX"], before.radius))
    circle = Circle(x, y, z, radius, speed if clockwise else -speed, look)
    commander.orbit.fly(circle.with_speed_limit())
    return ACCEPTED


def _start_mission(commander: Commander, params: Params, _now: int) -> int:
    if not commander.plans.mission_valid:
        commander.send_text(CRITICAL, "Mission start denied! No valid mission")
        return DENIED
    first = params[0] if math.isfinite(params[0]) else 0.0
    if not -1 <= first < len(commander.flight.items):
        return DENIED
    if first >= 0 and math.isfinite(params[0]):
        commander.flight.set_current(int(first))
    if commander.change_mode(flight_modes.AUTO_MISSION):
        commander.follow_intention()
        if commander.arm("mission start"):
            return ACCEPTED
    commander.report_unavailable(flight_modes.AUTO_MISSION)
    return TEMPORARILY_REJECTED


def _set_current(commander: Commander, params: Params, _now: int) -> int:
    if not math.isfinite(params[0]) or not commander.flight.set_current(int(params[0])):
        return DENIED
    return ACCEPTED


def _change_speed(commander: Commander, params: Params, _now: int) -> int:
    commander.navigator.target.speed = params[1] if params[1] > 0.0 else math.nan
    return ACCEPTED


def _set_home(commander: Commander, params: Params, _now: int) -> int:
    if params[0] > 0.5:
        return ACCEPTED if commander.home_position.set_here(forced=True) else TEMPORARILY_REJECTED
    latitude, longitude, altitude = params[4:7]
    if not (abs(latitude) <= 90.0 and abs(longitude) <= 180.0 and math.isfinite(altitude)):
        return DENIED
    commander.home_position.set_at(latitude, longitude, altitude, math.radians(params[3]))
    return ACCEPTED


def _terminate(commander: Commander, params: Params, _now: int) -> int:
    if not params[0] > 0.5 or not commander.armed:
        return DENIED
    return ACCEPTED if commander.change_mode(flight_modes.TERMINATION) else TEMPORARILY_REJECTED


def _inject_failure(commander: Commander, params: Params, _now: int) -> int:
    if not commander.parameters.values["SYS_FAILURE_EN"]:
        return DENIED
    result, text = inject(params, commander.facts, commander.failures)
    commander.send_text(WARNING, text)
    return result


def _payload(command: int) -> Handler:
    """Trigger the camera, or pass a command on to the components on board."""

    def execute(commander: Commander, params: Params, _now: int) -> int:
        commander.navigator.payload.command(command, params)
        return ACCEPTED

    return execute


def _run_checks(commander: Commander, _params: Params, _now: int) -> int:
    if commander.armed:
        return TEMPORARILY_REJECTED
    commander.send_arming_problems()
    return ACCEPTED


HANDLERS: dict[int, Handler] = {
    mavlink.MAV_CMD_NAV_LOITER_UNLIM: _enter(flight_modes.AUTO_LOITER),
    mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH: _enter(flight_modes.AUTO_RTL, "Returning to launch"),
    mavlink.MAV_CMD_NAV_LAND: _enter(flight_modes.AUTO_LAND, "Landing at current position", force=True),
    mavlink.MAV_CMD_NAV_TAKEOFF: _take_off,
    mavlink.MAV_CMD_DO_ORBIT: _orbit,
    mavlink.MAV_CMD_DO_SET_MODE: _set_mode,
    mavlink.MAV_CMD_DO_CHANGE_SPEED: _change_speed,
    mavlink.MAV_CMD_DO_SET_HOME: _set_home,
    mavlink.MAV_CMD_DO_FLIGHTTERMINATION: _terminate,
    mavlink.MAV_CMD_DO_CHANGE_ALTITUDE: _change_altitude,
    mavlink.MAV_CMD_DO_REPOSITION: _reposition,
    **{command: _payload(command) for command in (*TRIGGERS, *REGIONS)},
    mavlink.MAV_CMD_DO_SET_MISSION_CURRENT: _set_current,
    mavlink.MAV_CMD_MISSION_START: _start_mission,
    mavlink.MAV_CMD_COMPONENT_ARM_DISARM: _arm_disarm,
    mavlink.MAV_CMD_RUN_PREARM_CHECKS: _run_checks,
    mavlink.MAV_CMD_INJECT_FAILURE: _inject_failure,
}
"""By MAV_CMD."""
