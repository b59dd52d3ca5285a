"""What each MAV_CMD does to a vehicle, and its MAV_RESULT.

Results follow PX4 (Commander.cpp, navigator_main.cpp, FlightTaskOrbit.cpp).  Commands about messages and the
protocol itself are in mavlink/.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from sitl_bridge.autopilot.commander_data import (
    ACCEPTED,
    CRITICAL,
    DENIED,
    FAILED,
    INFO,
    TEMPORARILY_REJECTED,
    UNSUPPORTED,
    WARNING,
    VehicleFacts,
)
from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.flight_modes import Mode
from sitl_bridge.autopilot.modes.mission_items import MissionItem
from sitl_bridge.autopilot.modes.navigator import Navigator
from sitl_bridge.autopilot.modes.payload_control import REGIONS, TRIGGERS
from sitl_bridge.autopilot.modes.tasks.orbit import LEAST_RADIUS, UNCHANGED, Circle, OrbitTask
from sitl_bridge.autopilot.safety.failure_injection import inject
from sitl_bridge.autopilot.stack_parameters import Parameters


class Commanded(Protocol):
    """What commands use of a commander; see there."""

    facts: VehicleFacts
    parameters: Parameters
    mode: Mode
    armed: bool
    state: EstimatedState
    failures: dict[str, dict[int, str]]
    navigator: Navigator
    orbit: OrbitTask

    @property
    def mission(self) -> tuple[MissionItem, ...]: ...  # noqa: D102
    @property
    def mission_missing(self) -> bool: ...  # noqa: D102
    def send_text(self, severity: int, text: str) -> None: ...  # noqa: D102
    def change_mode(self, mode: Mode, force: bool = False) -> bool: ...  # noqa: D102
    def refuse_mode(self, mode: Mode) -> None: ...  # noqa: D102
    def follow_intention(self) -> None: ...  # noqa: D102
    def arm(self, reason: str) -> bool: ...  # noqa: D102
    def disarm(self, reason: str, forced: bool = False) -> bool: ...  # noqa: D102
    def set_current(self, seq: int) -> bool: ...  # noqa: D102
    def set_home_here(self, forced: bool = False) -> bool: ...  # noqa: D102
    def set_home_at(self, latitude: float, longitude: float, altitude: float) -> None: ...  # noqa: D102
    def breach_at(self, latitude: float, longitude: float, altitude: float) -> str | None: ...  # noqa: D102
    def reposition(  # noqa: D102
        self, latitude: float, longitude: float, altitude: float, yaw: float, speed: float
    ) -> None: ...


Params: TypeAlias = Sequence[float]
Handler: TypeAlias = Callable[[Commanded, Params, int], int]

FORCE = 21196
"""ARM_DISARM's second parameter that skips checks."""

STANDARD_MODES = {
    1: flight_modes.POSITION_CONTROL,
    4: flight_modes.ALTITUDE_CONTROL,
    5: flight_modes.AUTO_RTL,
    6: flight_modes.AUTO_MISSION,
    7: flight_modes.AUTO_LAND,
    8: flight_modes.AUTO_TAKEOFF,
}
"""MAV_STANDARD_MODE; an orbit needs more than its mode."""


def _switch(commander: Commanded, mode: Mode, force: bool = False) -> int:
    if commander.change_mode(mode, force):
        return ACCEPTED
    commander.refuse_mode(mode)
    return TEMPORARILY_REJECTED


def _arm_disarm(commander: Commanded, params: Params, _now: int) -> int:
    wanted = _rounded(params[0])
    if wanted not in (0, 1):
        commander.send_text(CRITICAL, f"Unsupported ARM_DISARM param: {params[0]:.3f}")
        return UNSUPPORTED
    if wanted == 1:
        done = commander.arm("external command")
    else:
        forced = _rounded(params[1]) == FORCE
        done = commander.disarm("external command", forced)
    return ACCEPTED if done else TEMPORARILY_REJECTED


def _rounded(value: float) -> int | None:
    """A parameter that encodes an integer, rounded half away from zero (C's lroundf); None if not finite."""
    if not math.isfinite(value):
        return None
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _set_mode(commander: Commanded, params: Params, _now: int) -> int:
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


def _set_standard_mode(commander: Commanded, params: Params, _now: int) -> int:
    mode = STANDARD_MODES.get(int(params[0])) if math.isfinite(params[0]) else None
    return FAILED if mode is None else _switch(commander, mode)


def _take_off(commander: Commanded, params: Params, _now: int) -> int:
    result = _switch(commander, flight_modes.AUTO_TAKEOFF)
    if result == ACCEPTED:
        commander.navigator.takeoff_altitude = params[6]
        commander.navigator.takeoff_yaw = math.nan
    return result


def _land(commander: Commanded, _params: Params, _now: int) -> int:
    result = _switch(commander, flight_modes.AUTO_LAND, force=True)
    if result == ACCEPTED:
        commander.send_text(INFO, "Landing at current position")
    return result


def _return(commander: Commanded, _params: Params, _now: int) -> int:
    result = _switch(commander, flight_modes.AUTO_RTL)
    if result == ACCEPTED:
        commander.send_text(INFO, "Returning to launch")
    return result


def _hold(commander: Commanded, _params: Params, _now: int) -> int:
    return _switch(commander, flight_modes.AUTO_LOITER)


def _reposition(commander: Commanded, params: Params, _now: int) -> int:
    flags = int(params[1]) if math.isfinite(params[1]) else 0
    if flags != 1:  # MAV_DO_REPOSITION_FLAGS_CHANGE_MODE, and nothing else
        return UNSUPPORTED
    return _hold_at(commander, params[4], params[5], params[6], params[3], params[0])


def _change_altitude(commander: Commanded, params: Params, _now: int) -> int:
    return _hold_at(commander, math.nan, math.nan, params[0], math.nan, math.nan)


def _hold_at(
    commander: Commanded, latitude: float, longitude: float, altitude: float, yaw: float, speed: float
) -> int:
    result = _switch(commander, flight_modes.AUTO_LOITER)
    if result != ACCEPTED or not commander.armed:
        return result
    breach = commander.breach_at(latitude, longitude, altitude)
    if breach is not None:
        commander.send_text(CRITICAL, "Reposition is outside geofence")
        return result  # as PX4: the mode changes, the place does not
    commander.reposition(latitude, longitude, altitude, yaw, speed)
    return result


def _orbit(commander: Commanded, params: Params, _now: int) -> int:
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
        z = state.projection.down(params[6])
    radius = abs(radius)
    if not LEAST_RADIUS <= radius <= values["MC_ORBIT_RAD_MAX"]:
        commander.send_text(CRITICAL, "Orbit radius limit exceeded")
        radius = max(LEAST_RADIUS, min(values["MC_ORBIT_RAD_MAX"], before.radius))
    circle = Circle(x, y, z, radius, speed if clockwise else -speed, look)
    commander.orbit.fly(circle.with_speed_limit())
    return ACCEPTED


def _start_mission(commander: Commanded, params: Params, _now: int) -> int:
    if commander.mission_missing:
        commander.send_text(CRITICAL, "Mission start denied! No valid mission")
        return DENIED
    first = params[0] if math.isfinite(params[0]) else 0.0
    if not -1 <= first < len(commander.mission):
        return DENIED
    if first >= 0 and math.isfinite(params[0]):
        commander.set_current(int(first))
    if commander.change_mode(flight_modes.AUTO_MISSION):
        commander.follow_intention()
        if commander.arm("mission start"):
            return ACCEPTED
    commander.refuse_mode(flight_modes.AUTO_MISSION)
    return TEMPORARILY_REJECTED


def _pause_or_continue(commander: Commanded, params: Params, _now: int) -> int:
    if params[0] not in (0.0, 1.0):
        return DENIED
    return _switch(commander, flight_modes.AUTO_MISSION if params[0] else flight_modes.AUTO_LOITER)


def _set_current(commander: Commanded, params: Params, _now: int) -> int:
    if not math.isfinite(params[0]) or not commander.set_current(int(params[0])):
        return DENIED
    return ACCEPTED


def _change_speed(commander: Commanded, params: Params, _now: int) -> int:
    commander.navigator.target.speed = params[1] if params[1] > 0.0 else math.nan
    return ACCEPTED


def _set_home(commander: Commanded, params: Params, _now: int) -> int:
    if not commander.parameters.values["COM_HOME_EN"]:
        return DENIED
    if params[0] > 0.5:
        return ACCEPTED if commander.set_home_here(forced=True) else TEMPORARILY_REJECTED
    latitude, longitude, altitude = params[4:7]
    if not (abs(latitude) <= 90.0 and abs(longitude) <= 180.0 and math.isfinite(altitude)):
        return DENIED
    commander.set_home_at(latitude, longitude, altitude)
    return ACCEPTED


def _terminate(commander: Commanded, params: Params, _now: int) -> int:
    if not params[0] > 0.5 or not commander.armed:
        return DENIED
    return ACCEPTED if commander.change_mode(flight_modes.TERMINATION) else TEMPORARILY_REJECTED


def _inject_failure(commander: Commanded, params: Params, _now: int) -> int:
    if not commander.parameters.values["SYS_FAILURE_EN"]:
        return DENIED
    result, text = inject(params, commander.facts, commander.failures)
    commander.send_text(WARNING, text)
    return result


def _payload(command: int) -> Handler:
    """Trigger the camera, or pass a command on to the components on board."""

    def execute(commander: Commanded, params: Params, _now: int) -> int:
        commander.navigator.payload.command(command, params)
        return ACCEPTED

    return execute


def _taken(_commander: Commanded, _params: Params, _now: int) -> int:
    """Accept a command for cameras, gimbals or checks, of which the vehicle has none."""
    return ACCEPTED


HANDLERS: dict[int, Handler] = {
    17: _hold,
    20: _return,
    21: _land,
    22: _take_off,
    34: _orbit,
    80: _taken,
    176: _set_mode,
    178: _change_speed,
    179: _set_home,
    185: _terminate,
    186: _change_altitude,
    192: _reposition,
    193: _pause_or_continue,
    196: _taken,
    201: _taken,
    **{command: _payload(command) for command in (*TRIGGERS, *REGIONS)},
    224: _set_current,
    262: _set_standard_mode,
    300: _start_mission,
    400: _arm_disarm,
    401: _taken,
    420: _inject_failure,
}
"""By MAV_CMD."""
