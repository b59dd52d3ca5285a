# ruff: noqa: ARG002
"""A vehicle that does as it is told, for tests of the MAVLink services, and a station that talks to it.

The vehicle has the commander's surface and no flight: its estimate jumps to where it is sent.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from pymavlink.dialects.v20 import common as mavlink

from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.commander_data import (
    ACCEPTED,
    DENIED,
    UNSUPPORTED,
    BatteryState,
    HealthBits,
    OffboardTarget,
)
from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.mavlink.services import Key, Services
from sitl_bridge.autopilot.mavlink.streams import NORMAL
from sitl_bridge.autopilot.mavlink.telemetry import TelemetrySource
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.mission_items import MissionFault, check_transfer
from sitl_bridge.autopilot.modes.tasks.orbit import Circle
from sitl_bridge.autopilot.parameters import Parameters
from sitl_bridge.link.mavlink.decoder import Decoder
from sitl_bridge.plan.plan_upload import FENCE, MISSION, RALLY, MissionItem

ZURICH = (47.397742, 8.545594, 488.0)
SENSORS = (
    mavlink.MAV_SYS_STATUS_SENSOR_3D_GYRO
    | mavlink.MAV_SYS_STATUS_SENSOR_3D_ACCEL
    | mavlink.MAV_SYS_STATUS_SENSOR_3D_MAG
    | mavlink.MAV_SYS_STATUS_SENSOR_GPS
    | mavlink.MAV_SYS_STATUS_SENSOR_ABSOLUTE_PRESSURE
)


class ObedientCommander:
    """The commander's surface; does what it is told at once and remembers it."""

    def __init__(self) -> None:
        self.parameters = Parameters()
        self.mode = self.intended = flight_modes.AUTO_LOITER
        self.orbit = SimpleNamespace(circle=Circle(3.0, 4.0, -10.0, 20.0, -2.0))
        self.state = EstimatedState()
        self.follow = SimpleNamespace(report=lambda _place, _velocity, _now: None)
        self.navigator = SimpleNamespace(payload=SimpleNamespace(triggers=deque(), commands=deque()))
        self.flight = SimpleNamespace(items=(), current=0, set_current=self.set_current)
        self.plans = SimpleNamespace(fence=(), rally=(), set_rally=self.set_rally)
        self.armed = False
        self.landed_state = 2
        self.system_status = 4
        self.arming_problems: tuple[str, ...] = ()
        self.battery_state = BatteryState()
        self.texts: deque[tuple[int, str]] = deque()
        self.reached: deque[int] = deque()
        self.commands: list[tuple[int, tuple[float, ...]]] = []
        self.targets: list[OffboardTarget] = []
        self.sticks: list[tuple[float, float, float, float]] = []
        self.stations = 0
        self.home = ZURICH
        self.unhealthy = 0
        self.refuse: dict[int, int] = {}

    @property
    def health_bits(self) -> HealthBits:
        prearm = 0 if self.arming_problems else mavlink.MAV_SYS_STATUS_PREARM_CHECK
        return HealthBits(SENSORS | self.unhealthy, SENSORS | prearm)

    def command(self, command: int, params: Sequence[float], now: int) -> int:
        self.commands.append((command, tuple(params)))
        if command in self.refuse:
            return self.refuse[command]
        if command == mavlink.MAV_CMD_COMPONENT_ARM_DISARM:
            if self.arming_problems:
                return DENIED
            self.armed = params[0] == 1
            return ACCEPTED
        if command == mavlink.MAV_CMD_DO_SET_MISSION_CURRENT:
            return ACCEPTED if self.set_current(int(params[0])) else DENIED
        if command == mavlink.MAV_CMD_DO_SET_MODE:
            mode = flight_modes.mode_of(int(params[1]), int(params[2]))
            self.mode = mode or self.mode
            return ACCEPTED if mode else DENIED
        if command == mavlink.MAV_CMD_MISSION_START:
            self.mode = flight_modes.AUTO_MISSION
            return ACCEPTED
        return UNSUPPORTED

    def manual_control(self, x: float, y: float, z: float, r: float, now: int) -> None:
        self.sticks.append((x, y, z, r))

    def send_text(self, severity: int, text: str) -> None:
        self.texts.append((severity, text))

    def offboard(self, target: OffboardTarget, now: int) -> None:
        self.targets.append(target)

    def ground_station_seen(self, now: int) -> None:
        self.stations += 1

    def battery(self, voltage: float, current: float, remaining: float, now: int) -> None:
        self.battery_state = BatteryState(voltage, current, remaining, now)

    def set_mission(self, items: Sequence[MissionItem]) -> MissionFault | None:
        return self._set(self.flight, "items", MISSION, items)

    def set_fence(self, items: Sequence[MissionItem]) -> MissionFault | None:
        return self._set(self.plans, "fence", FENCE, items)

    def set_rally(self, items: Sequence[MissionItem]) -> MissionFault | None:
        return self._set(self.plans, "rally", RALLY, items)

    def _set(self, place: Any, name: str, kind: int, items: Sequence[MissionItem]) -> MissionFault | None:
        fault = check_transfer(items, kind)
        if fault is None:
            setattr(place, name, tuple(items))
        else:
            self.texts.append((2, fault.reason))  # as the commander does
        return fault

    def set_current(self, seq: int) -> bool:
        if not 0 <= seq < len(self.flight.items):
            return False
        self.flight.current = seq
        return True


def source(system_id: int = 1) -> TelemetrySource:
    """A vehicle that hovers 10 m over Zurich, 3 m north and 4 m east of home."""
    estimate = np.zeros((), records.ESTIMATE)
    estimate["valid"] = (1 << 6) - 1
    estimate["attitude"] = (math.cos(0.25), 0.0, 0.0, math.sin(0.25))  # yaw 0.5 rad
    estimate["position"] = (3.0, 4.0, -10.0)
    estimate["velocity"] = (1.0, -2.0, 0.5)
    estimate["origin"] = (math.radians(ZURICH[0]), math.radians(ZURICH[1]), ZURICH[2])
    estimate["position_deviation"] = (0.3, 0.4, 0.6)
    estimate["height_above_ground"] = math.nan
    setpoint = np.zeros((), records.SETPOINT)
    setpoint["level"] = records.TRAJECTORY
    setpoint["position"] = (3.0, 4.0, math.nan)
    setpoint["velocity"] = (math.nan, math.nan, 0.5)
    setpoint["acceleration"] = math.nan
    setpoint["yaw_rate"] = math.nan
    measurement = np.zeros((), records.MEASUREMENT)
    measurement["accelerometer"] = (0.0, 0.0, -9.81)
    measurement["magnetometer"] = (21e-6, 1e-6, 43e-6)
    measurement["pressure"] = 95600.0
    measurement["latitude"] = math.radians(ZURICH[0])
    measurement["longitude"] = math.radians(ZURICH[1])
    measurement["altitude"] = 498.0
    measurement["gps_velocity"] = (1.0, -2.0, 0.5)
    measurement["fix"], measurement["satellites"] = 3, 12
    measurement["eph"], measurement["epv"] = 0.9, 1.4
    controls = np.zeros(16)
    controls[:4] = (0.5, 0.51, 0.52, 0.53)
    commander = ObedientCommander()
    commander.battery(16.2, 11.5, 0.83, 0)
    return TelemetrySource(
        system_id, 4, cast("Commander", commander), estimate, setpoint, measurement, controls
    )


class Station:
    """A ground station over a link that may lose, repeat and reorder frames.

    Args:
        services: of the vehicle it talks to.
        address: its own, one for each station.
        system: MAVLink system id of the station.
        losses: says of each frame, in both directions, how often it arrives: 0, 1, 2.
        rates: Hz by message id of what the vehicle sends by itself.
    """

    def __init__(
        self,
        services: Services,
        address: int = 50000,
        system: int = 255,
        losses: Callable[[], int] = lambda: 1,
        rates: dict[int, float] = NORMAL,
    ) -> None:
        self.services = services
        self.key: Key = (18570, ("127.0.0.1", address))
        self.losses = losses
        self.sender = mavlink.MAVLink(None, srcSystem=system, srcComponent=190)
        self.vehicle = mavlink.MAVLink(None, srcSystem=services.source.system_id, srcComponent=1)
        self.decoder = Decoder()
        self.parser = mavlink.MAVLink(None)
        self.heard: list[Any] = []
        services.link(self.key, rates)

    @property
    def commander(self) -> ObedientCommander:
        """Of the vehicle."""
        return cast(ObedientCommander, self.services.source.commander)

    def send(self, message: Any, now: int, wall: int) -> None:
        """Send a message and take the answers in."""
        frame = message.pack(self.sender)
        self.sender.seq = (self.sender.seq + 1) % 256
        for _ in range(self.losses()):
            for arrived in self.decoder.messages(frame):
                self.take(self.services.handle(self.key, arrived, now, wall))

    def take(self, messages: Sequence[Any]) -> None:
        """Hear messages of the vehicle, over the lossy way."""
        for message in messages:
            frame = message.pack(self.vehicle)
            for _ in range(self.losses()):
                self.heard.append(decode(frame, self.parser))

    def of(self, kind: str) -> list[Any]:
        """The messages received of one kind."""
        return [message for message in self.heard if message.get_type() == kind]

    def ask(self, message: Any, kind: str, now: int = 1_000_000, wall: int = 1_000_000) -> Any:
        """Send a message and return the last answer of a kind, or None."""
        self.heard.clear()
        self.send(message, now, wall)
        answers = self.of(kind)
        return answers[-1] if answers else None


def decode(frame: bytes, parser: Any) -> Any:
    """A frame as pymavlink reads it, to check how it was written; what it lacks by the dialect."""
    message = parser.decode(bytearray(frame))
    return Decoder().message(frame) if isinstance(message, mavlink.MAVLink_unknown) else message
