# ruff: noqa: ARG002
"""The commander of one vehicle: arming, modes, commands, failsafes; what a ground station talks to.

It decides who steers; the navigator and the tasks say where to.  Plain Python that runs every 50 ms of
simulated time; it asks no clock and opens no socket.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sitl_bridge.autopilot import mission, modes
from sitl_bridge.autopilot.layout import OFF
from sitl_bridge.autopilot.mission import MissionFault, MissionItem
from sitl_bridge.autopilot.modes import Mode
from sitl_bridge.autopilot.parameters import Parameters

NAN3 = (math.nan, math.nan, math.nan)

# --- MAV_RESULT
ACCEPTED, TEMPORARILY_REJECTED, DENIED, UNSUPPORTED, FAILED = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class VehicleFacts:
    """What the commander must know of the vehicle.

    Attributes:
        name: of the airframe.
        hover_thrust: share of full thrust that hovers, 0..1.
        mass: kg.
        thrust_to_weight: full thrust over weight.
        motors: how many.
        has_gps: whether it is fitted; also the others.
    """

    name: str = "vehicle"
    hover_thrust: float = 0.5
    mass: float = 1.5
    thrust_to_weight: float = 2.0
    motors: int = 4
    has_gps: bool = True
    has_magnetometer: bool = True
    has_barometer: bool = True
    has_range_finder: bool = False
    has_optical_flow: bool = False
    has_battery: bool = True


@dataclass(frozen=True, slots=True)
class OffboardTarget:
    """What an offboard program asks for; nan is not controlled.

    ``attitude`` and ``angular_velocity`` go with ``thrust``; they come alone, without the first three.

    Attributes:
        position: m NED.
        velocity: m/s NED, or of the body's heading frame (x forward, y right, z down) with ``body_frame``.
        acceleration: m/s^2 NED, or as ``velocity``.
        yaw: rad.
        yaw_rate: rad/s.
        attitude: quaternion (w, x, y, z) body to NED.
        angular_velocity: rad/s body.
        thrust: 0..1.
        body_frame: whether velocity and acceleration turn with the vehicle's heading.
    """

    position: tuple[float, float, float] = NAN3
    velocity: tuple[float, float, float] = NAN3
    acceleration: tuple[float, float, float] = NAN3
    yaw: float = math.nan
    yaw_rate: float = math.nan
    attitude: tuple[float, float, float, float] | None = None
    angular_velocity: tuple[float, float, float] | None = None
    thrust: float = math.nan
    body_frame: bool = False


@dataclass(slots=True)
class BatteryState:
    """What was last heard of the battery.

    Attributes:
        voltage: V.
        current: A.
        remaining: 0..1.
        time: us when it was heard, -1 never.
        warning: PX4's level: 0 none, 1 low, 2 critical, 3 emergency.
    """

    voltage: float = math.nan
    current: float = math.nan
    remaining: float = math.nan
    time: int = -1
    warning: int = 0


@dataclass(slots=True)
class HealthBits:
    """MAV_SYS_STATUS_SENSOR bits of SYS_STATUS."""

    present: int = 0
    enabled: int = 0
    healthy: int = 0


@dataclass
class Commander:
    """The commander of one vehicle.

    Args:
        facts: of the vehicle.
        parameters: of the vehicle.

    Attributes:
        mode: the flight mode in force (a failsafe may have chosen it).
        armed: whether the motors may turn.
        landed_state: MAV_LANDED_STATE.
        system_status: MAV_STATE.
        home: deg latitude, deg longitude, m above mean sea level; None before it is known.
        arming_problems: what keeps the vehicle from arming in the present mode, in PX4's words.
        battery_state: what was last heard of the battery.
        mission: items; also ``fence`` and ``rally``.
        mission_current: sequence number of the item flown or next.
        mission_finished: whether the last item is done.
        failures: injected, by kind and instance: "off" or "stuck".
        health_bits: of SYS_STATUS.
        failsafe: why a failsafe acts, in words; None when none does.
        flight_time: s since take-off, 0 on the ground.
        texts: (MAV_SEVERITY, text) to be sent.
        reached: sequence numbers of mission items reached, to be sent.
        mode_changes: modes entered, to be told.
    """

    facts: VehicleFacts
    parameters: Parameters
    mode: Mode = modes.AUTO_LOITER
    armed: bool = False
    landed_state: int = 1
    system_status: int = 0
    home: tuple[float, float, float] | None = None
    arming_problems: tuple[str, ...] = ()
    battery_state: BatteryState = field(default_factory=BatteryState)
    mission: tuple[MissionItem, ...] = ()
    fence: tuple[MissionItem, ...] = ()
    rally: tuple[MissionItem, ...] = ()
    mission_current: int = 0
    mission_finished: bool = False
    failures: dict[str, dict[int, str]] = field(default_factory=dict)
    health_bits: HealthBits = field(default_factory=HealthBits)
    failsafe: str | None = None
    flight_time: float = 0.0
    texts: deque[tuple[int, str]] = field(default_factory=deque)
    reached: deque[int] = field(default_factory=deque)
    mode_changes: deque[Mode] = field(default_factory=deque)

    def update(self, now: int, estimate: Any, setpoint: Any, thrust: float = math.nan) -> None:
        """Advance to ``now`` and say what the controller is to follow.

        Args:
            now: us of simulated time; to be called every 50 ms.
            estimate: () ESTIMATE record, read.
            setpoint: () SETPOINT record, written.
            thrust: 0..1, share of full thrust that the controller asks for now; the land detector listens to
                it. nan where it is not known.
        """
        setpoint["level"] = OFF

    def command(self, command: int, params: Sequence[float], now: int) -> int:
        """Do a MAV_CMD and return its MAV_RESULT.

        Args:
            command: MAV_CMD.
            params: seven; nan where not set. Of COMMAND_INT, the fifth and sixth are degrees.
            now: us of simulated time.
        """
        return UNSUPPORTED

    def manual_control(self, x: float, y: float, z: float, r: float, now: int) -> None:
        """Take in the sticks: pitch ``x`` and roll ``y`` and yaw ``r`` -1..1, throttle ``z`` 0..1."""

    def offboard(self, target: OffboardTarget, now: int) -> None:
        """Take in an offboard setpoint."""

    def battery(self, voltage: float, current: float, remaining: float, now: int) -> None:
        """Take in a battery sample: V, A, share 0..1."""
        self.battery_state = BatteryState(voltage, current, remaining, now)

    def ground_station_seen(self, now: int) -> None:
        """Take in a sign of life of a ground station."""

    def set_mission(self, items: Sequence[MissionItem]) -> MissionFault | None:
        """Replace the mission, unless it is faulty; then it stays and the first fault is returned."""
        fault = mission.check_transfer(items, mission.MISSION)
        if fault is None:
            self.mission = tuple(items)
        return fault

    def set_fence(self, items: Sequence[MissionItem]) -> MissionFault | None:
        """Replace the fence; see :meth:`set_mission`."""
        fault = mission.check_transfer(items, mission.FENCE)
        if fault is None:
            self.fence = tuple(items)
        return fault

    def set_rally(self, items: Sequence[MissionItem]) -> MissionFault | None:
        """Replace the rally points; see :meth:`set_mission`."""
        fault = mission.check_transfer(items, mission.RALLY)
        if fault is None:
            self.rally = tuple(items)
        return fault

    def set_current(self, seq: int) -> bool:
        """Make an item the current one; False where there is no such item."""
        return False
