"""One vehicle of a fleet over MAVSDK: its clock, state and local origin."""

from __future__ import annotations

import json
import math
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeAlias

import numpy as np
from mavsdk.asyncio import System as AsyncSystem
from mavsdk.plugins.mavlink_direct import MavlinkDirect, MavlinkMessage
from mavsdk.plugins.offboard import Offboard
from mavsdk.plugins.telemetry import FlightMode, Telemetry
from numpy.typing import NDArray

from sitl_bridge.core.world.geography import Projection
from sitl_bridge.session.missions.log_stamp import stamp
from sitl_bridge.session.missions.mavsdk_vehicle import SETPOINT_RATE, Vehicle, within
from sitl_bridge.swarm.formation.leave_and_rejoin import Action

Array: TypeAlias = NDArray[np.float64]
Say: TypeAlias = Callable[[str], None]

MEAN_WEIGHT = 0.05
"""Weight of a new value in the running mean of tick intervals and delays."""

SHARED_CLOCK = 0.5
"""s of difference below which two vehicles' clocks are the same: those of one simulation differ by the delay
of a message, those of vehicles that were switched on by hand by seconds."""

UNREAD = (31, 36, 62, 65, 74, 83, 85, 87, 105, 141, 231, 284, 286, 290, 291, 331)
"""Messages that this program does not read and PX4 sends to a companion computer 10 to 50 times per second
(mavlink_main.cpp, MAVLINK_MODE_ONBOARD): quaternions, motors, targets, inertial samples, odometry and others.
MAVSDK decodes each of them; for a fleet at several times real time that would take most of the time."""

SET_MESSAGE_INTERVAL = 511
"""MAV_CMD_SET_MESSAGE_INTERVAL"""


class SwarmVehicle(Vehicle):
    """A connected vehicle of a formation or of avoidance, simulated or real, in the fleet's common frame.

    Attributes:
        number: its row.
        shift: s that are added to its clock for the fleet's clock.
        origin: (3,) m NED of its local origin from the common one; nan before it is found.
        left: the action with which it left the fleet; empty before.
        stamp: s of its clock of ``local``, its position and velocity as one (6,) row.
        heard: s of the monotonic clock at which ``local`` arrived.
    """

    def __init__(
        self, raw: Any, system_id: int, url: str, number: int, say: Say, news: Callable[[SwarmVehicle], None]
    ) -> None:
        super().__init__(None, AsyncSystem(raw), system_id, url)
        # Not MAVSDK's coroutines: each setpoint, position and query would change threads.
        self.targets = Offboard(raw)
        self._state, self._direct = Telemetry(raw), MavlinkDirect(raw)
        self.number = number
        self.shift = 0.0
        self.origin: Array = np.full(3, np.nan)
        self.left: Action | str = ""
        self.stamp = math.nan
        self.local: Array = np.full(6, np.nan)
        self.heard = -math.inf
        self.fixes = 0
        self._say, self._news = say, news

    def say(self, text: str) -> None:
        """Print a line with the vehicle's number."""
        self._say(f"{stamp(self.time)} vehicle {self.number}: {text}")

    async def set_message_rates(self, rate: float) -> None:
        """Request positions at ``rate`` Hz and each message of UNREAD at 1 Hz; refusals are ignored."""
        if rate != SETPOINT_RATE:  # which was requested when the vehicle was connected
            await within(2.0, self.telemetry.set_rate_position_velocity_ned(rate))
        for message in UNREAD:
            fields = {
                "target_system": self.system_id, "target_component": 1, "confirmation": 0,
                "command": SET_MESSAGE_INTERVAL, "param1": message, "param2": 1_000_000,
                "param3": 0, "param4": 0, "param5": 0, "param6": 0, "param7": 0,
            }  # fmt: skip
            order = MavlinkMessage("COMMAND_LONG", 0, 0, self.system_id, 1, json.dumps(fields))
            await within(2.0, self.mavlink.send_message(order))

    def _local_positions(self) -> list[tuple[AsyncGenerator[Any, None], Callable[[Any], None]]]:
        # Not MAVSDK's own, which have no time stamps.
        return []

    def subscribe_positions(self) -> None:
        """Receive its positions, on MAVSDK's thread."""
        self._direct.subscribe_message("LOCAL_POSITION_NED", self._on_local)

    def _on_local(self, message: Any, _: Any) -> None:
        fields = json.loads(message.fields_json)
        row = [fields["x"], fields["y"], fields["z"], fields["vx"], fields["vy"], fields["vz"]]
        stamp = fields["time_boot_ms"] * 1e-3
        if self.stamp >= stamp or not all(map(math.isfinite, row)):
            return
        self.position, self.velocity = (row[0], row[1], row[2]), (row[3], row[4], row[5])
        self.local = np.array(row)
        self.stamp = stamp
        self.heard = time.monotonic()
        self._news(self)

    async def _read_state(self) -> None:
        state = self._state
        self.armed, self.landed = state.armed(), state.landed_state()
        self.mode, self.health = state.flight_mode(), state.health()

    def _on_global_position(self, position: Any) -> None:
        super()._on_global_position(position)
        self.fixes += 1

    @property
    def clock(self) -> float:
        """Time of its last position in s of the fleet's clock."""
        return self.stamp + self.shift

    @property
    def flying_here(self) -> bool:
        """Whether it flies by this program's setpoints, according to its telemetry."""
        return self.armed and self.mode == FlightMode.OFFBOARD and not self.left


Place: TypeAlias = tuple[float, float, float]
"""deg latitude, deg longitude, m AMSL."""


def from_place(origin: Place, places: Array) -> Array:
    """(n, 3) m NED of places (n, 3) in deg and m from an origin."""
    projection = Projection(math.radians(origin[0]), math.radians(origin[1]), origin[2])
    return np.array([[*projection.local(p[0], p[1]), projection.down(p[2])] for p in places.tolist()])


def to_place(origin: Place, away: Array) -> Place:
    """The place at (3,) m NED from an origin."""
    projection = Projection(math.radians(origin[0]), math.radians(origin[1]), origin[2])
    latitude, longitude = projection.point(float(away[0]), float(away[1]))
    return latitude, longitude, projection.altitude(float(away[2]))
