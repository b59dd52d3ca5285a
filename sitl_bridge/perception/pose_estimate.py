"""The vehicle's pose as its flight stack estimates it, from MAVLink messages."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.rotations import quaternion_product
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.link.mavlink.decoder import AUTOPILOT
from sitl_bridge.link.mavlink.message import MavlinkMessage

KEPT = 50
"""Messages of each kind, several seconds."""
OLDEST = 1_000_000
"""us beyond which an estimate is too old for a pose."""


@dataclass(frozen=True)
class EstimatedPose:
    """A pose."""

    place: tuple[float, float, float]  # deg, deg, m above mean sea level
    height: float  # m above home
    attitude: tuple[float, float, float, float]  # w, x, y, z, body to NED


class PoseEstimate:
    """The last seconds of a flight stack's estimate.

    Args:
        system: MAVLink id of the vehicle.
    """

    def __init__(self, system: int) -> None:
        self._system = system
        self._places: deque[MavlinkMessage] = deque(maxlen=KEPT)
        self._attitudes: deque[MavlinkMessage] = deque(maxlen=KEPT)

    def handle(self, message: MavlinkMessage) -> None:
        """Take GLOBAL_POSITION_INT and ATTITUDE_QUATERNION of the flight stack."""
        if (message.get_srcSystem(), message.get_srcComponent()) != (self._system, AUTOPILOT):
            return
        if message.get_type() == "GLOBAL_POSITION_INT":
            self._places.append(message)
        elif message.get_type() == "ATTITUDE_QUATERNION":
            self._attitudes.append(message)

    def at(self, time: int) -> EstimatedPose | None:
        """The estimate at a time in us, from the nearest messages; None where there are none near it."""
        place, attitude = _nearest(self._places, time), _nearest(self._attitudes, time)
        if place is None or attitude is None:
            return None
        seconds = time * 1e-6 - place.time_boot_ms * 1e-3
        latitude, longitude, altitude = place.lat * 1e-7, place.lon * 1e-7, place.alt * 1e-3
        projection = Projection.from_degrees(latitude, longitude, altitude)
        way = [0.01 * v * seconds for v in (place.vx, place.vy, place.vz)]
        turned = _extrapolate_attitude(attitude, time * 1e-6 - attitude.time_boot_ms * 1e-3)
        return EstimatedPose(projection.place(way), place.relative_alt * 1e-3 - way[2], turned)


def _extrapolate_attitude(message: MavlinkMessage, seconds: float) -> tuple[float, float, float, float]:
    """Attitude of an ATTITUDE_QUATERNION, turned on for a while by its rates."""
    before = message.q1, message.q2, message.q3, message.q4
    half = [0.5 * seconds * rate for rate in (message.rollspeed, message.pitchspeed, message.yawspeed)]
    turned = quaternion_product(before, [1.0, *half])
    w, x, y, z = (turned / np.linalg.norm(turned)).tolist()
    return w, x, y, z


def _nearest(messages: deque[MavlinkMessage], time: int) -> MavlinkMessage | None:
    found = min(messages, key=lambda m: abs(m.time_boot_ms * 1000 - time), default=None)
    return None if found is None or abs(found.time_boot_ms * 1000 - time) > OLDEST else found
