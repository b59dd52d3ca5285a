"""Collision prevention under the sticks: obstacles by sectors limit the acceleration that the sticks ask for.

Parameters (CP_*), sectors and rules are those of PX4 v1.16 (lib/collision_prevention and its documentation).
The sectors come from OBSTACLE_DISTANCE; the stick task asks for the limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sitl_bridge.autopilot.modes.smooth_motion import brake_speed

SECTORS, WIDTH = 72, 5.0
"""Sectors around the vehicle and their width in deg; the middle of the first is ahead."""
UNKNOWN = 65535
"""cm, distance of a sector without data (OBSTACLE_DISTANCE)."""
STALE = 500_000
"""us after which a sector's data no longer counts (RANGE_STREAM_TIMEOUT_US)."""
HOLD_AFTER = 5_000_000
"""us without data after which Hold is requested (TIMEOUT_HOLD_US)."""
POSITION_GAIN, VELOCITY_GAIN = 0.95, 1.8
"""1/s, PX4's defaults of MPC_XY_P and MPC_XY_VEL_P_ACC.  The gains of the built-in controllers are computed
from the airframe."""
BODY, NORTH_UP = 12, (0, 1)
"""MAV_FRAME_BODY_FRD; MAV_FRAME_GLOBAL and MAV_FRAME_LOCAL_NED, whose sectors are counted from north."""
DEFLECTED = 1e-3
"""m/s^2 of the sticks' acceleration from which they count as deflected."""

Direction = tuple[float, float]


def _sector(angle: float) -> int:
    """Return the sector of an angle in rad from ahead."""
    return round(math.degrees(angle) / WIDTH) % SECTORS


class CollisionPrevention:
    """The obstacles around one vehicle, and the limits that follow.

    Args:
        values: parameter values.

    Attributes:
        wants_hold: whether Hold is requested because there are no data.
    """

    def __init__(self, values: dict[str, float]) -> None:
        self._values = values
        self._distances = [UNKNOWN] * SECTORS
        """cm."""
        self._times = [0] * SECTORS
        """us, of the data."""
        self._ranges = [0] * SECTORS
        """cm, greatest distance of the sensor that gave the data."""
        self._seen = [False] * SECTORS
        """Whether a sensor has ever looked there."""
        self._least = UNKNOWN
        """cm, least distance that a sensor measures."""
        self._reported = -1
        """us, of the last report."""
        self._since = -1
        """us since which it is active; -1 while it is not."""
        self._asked = 0
        self.wants_hold = False

    @property
    def active(self) -> bool:
        """Whether collision prevention is switched on."""
        if self._values["CP_DIST"] > 0.0:
            return True
        self._since = -1
        return False

    # ------------------------------------------------------------------ reports

    def report(
        self,
        distances: Sequence[int],
        increment: float,
        offset: float,
        limits: tuple[int, int],
        frame: int,
        yaw: float,
        now: int,
    ) -> bool:
        """Take over OBSTACLE_DISTANCE; a sector takes the least distance of those that overlap it.

        Args:
            distances: cm, ``UNKNOWN`` where there are no data.
            increment: deg between two distances.
            offset: deg from ahead, or from north, to the first.
            limits: cm, least and greatest distance of the sensor.
            frame: MAV_FRAME.
            yaw: rad, of the vehicle.
            now: us.

        Returns:
            False for a frame that is not supported.
        """
        if frame != BODY and frame not in NORTH_UP:
            return False
        if not (math.isfinite(increment) and math.isfinite(offset)) or increment <= 0.0:
            return True
        self._reported = now
        self._least = min(self._least, limits[0])
        begin = offset - (math.degrees(yaw) if frame in NORTH_UP else 0.0)
        nearest = [UNKNOWN] * SECTORS
        for k in range(math.ceil(min(len(distances), 360.0 / increment))):
            # Edges in sectors, from the lower edge of sector 0; the margin keeps neighbours from touching.
            low = (begin + (k - 0.5) * increment) / WIDTH + 0.5
            high = low + increment / WIDTH
            first = math.floor(low + 1e-6)
            for sector in range(first, min(math.ceil(high - 1e-6), first + SECTORS)):
                nearest[sector % SECTORS] = min(nearest[sector % SECTORS], distances[k])
        for sector, distance in enumerate(nearest):
            if distance != UNKNOWN and self._replaces(sector, distance, limits[1]):
                self._distances[sector], self._times[sector] = distance, now
                self._ranges[sector], self._seen[sector] = limits[1], True
        return True

    def _replaces(self, sector: int, distance: int, reach: int) -> bool:
        """Return whether a distance by a sensor with the range ``reach`` (cm) replaces that of a sector.

        An obstacle counts more than free space, and the sensor with the shorter range more than the other.
        """
        before = self._ranges[sector]
        occupied = self._distances[sector] < before
        if distance < reach:
            return not occupied or reach <= before
        return reach == before if occupied else reach >= before

    # ------------------------------------------------------------------ the limit

    def limit(self, wanted: Direction, velocity: Direction, yaw: float, now: int) -> Direction:
        """Return the acceleration, m/s^2 north and east, that the obstacles allow.

        Args:
            wanted: by the sticks, m/s^2 north and east.
            velocity: setpoint, m/s north and east.
            yaw: rad, of the vehicle.
            now: us.
        """
        if self._since < 0:
            self._since = now
        self._forget(now)
        known = now - self._reported < STALE and any(d < UNKNOWN for d in self._distances)
        if self._reported < 0 or not known:
            self._ask_for_hold(now)
            return 0.0, 0.0
        size = math.hypot(*wanted)
        if size <= DEFLECTED:
            return wanted
        keep = max(0.01 * self._least, self._values["CP_DIST"])
        direction = (wanted[0] / size, wanted[1] / size)
        direction, sector = self._guide(direction, yaw)
        ax, ay = 0.0, 0.0
        blind = self._distances[sector] == UNKNOWN
        if not blind or (self._values["CP_GO_NO_DATA"] and not self._seen[sector]):
            ax, ay = self._slow_down(direction, size, keep, yaw)
        braking, (bx, by) = self._brake(velocity, keep, yaw, now)
        return ax + braking * bx, ay + braking * by

    def _forget(self, now: int) -> None:
        for sector, time in enumerate(self._times):
            if now - time > STALE:
                self._distances[sector] = UNKNOWN

    def _ask_for_hold(self, now: int) -> None:
        """Request Hold, once a second, where data have been missing for long."""
        if min(now - self._reported, now - self._since) > HOLD_AFTER and now - self._asked > 1_000_000:
            self._asked = now
            self.wants_hold = True

    def _guide(self, direction: Direction, yaw: float) -> tuple[Direction, int]:
        """Turn the direction by up to CP_GUIDE_ANG towards free space; return it and its sector.

        The cost of a sector is CP_DIST/2 for each sector away, less its distance and the mean of three.
        """
        distances, dist = self._distances, self._values["CP_DIST"]
        first = _sector(math.atan2(direction[1], direction[0]) - yaw)
        reach = math.floor(self._values["CP_GUIDE_ANG"] / WIDTH)
        best, chosen = math.inf, first
        for step in range(-reach, reach + 1):
            sector = (first + step) % SECTORS
            if distances[sector] == UNKNOWN:
                continue
            around = [distances[(sector + k) % SECTORS] for k in (-1, 0, 1)]
            mean = sum(100.0 * dist if d == UNKNOWN else d for d in around) / 3.0
            cost = 50.0 * dist * abs(step) - mean - distances[sector]
            if cost < best:
                best, chosen = cost, sector
        return (direction if chosen == first else self._towards(chosen, yaw)), chosen

    @staticmethod
    def _towards(sector: int, yaw: float) -> Direction:
        angle = yaw + math.radians(WIDTH * sector)
        return math.cos(angle), math.sin(angle)

    def _slow_down(self, direction: Direction, size: float, keep: float, yaw: float) -> Direction:
        """Scale the acceleration by the distance to the nearest obstacle, and to that along it."""
        nearest = min(range(SECTORS), key=self._distances.__getitem__)
        nx, ny = self._towards(nearest, yaw)
        along = direction[0] * nx + direction[1] * ny
        if along <= 0.0:
            return size * direction[0], size * direction[1]
        tx, ty = direction[0] - along * nx, direction[1] - along * ny
        beside = 0.0
        if math.hypot(tx, ty) > 1e-6:
            beside = self._scale(0.01 * self._distances[_sector(math.atan2(ty, tx) - yaw)], keep)
        ahead = along * self._scale(0.01 * self._distances[nearest], keep)
        return size * (beside * tx + ahead * nx), size * (beside * ty + ahead * ny)

    def _scale(self, distance: float, keep: float) -> float:
        """Return the share of the acceleration at a distance: quadratic above ``keep``, negative below."""
        left = distance - keep
        if left <= 0.0:
            return left
        whole = max(keep, self._values["MPC_VEL_MANUAL"] / POSITION_GAIN)
        return min((left / whole) ** 2, 1.0)

    def _brake(self, velocity: Direction, keep: float, yaw: float, now: int) -> tuple[float, Direction]:
        """Return the strongest braking, m/s^2 (0 or less), and its direction.

        In every sector the vehicle has to be able to stop ``keep`` m off, after CP_DELAY and the age of the
        data.
        """
        values = self._values
        strongest, towards = 0.0, (0.0, 0.0)
        for sector, distance in enumerate(self._distances):
            if not self._least < distance < UNKNOWN:
                continue
            direction = self._towards(sector, yaw)
            speed = velocity[0] * direction[0] + velocity[1] * direction[1]
            if speed <= 0.0:
                continue
            delay = values["CP_DELAY"]
            if distance < self._ranges[sector]:
                delay += 1e-6 * (now - self._times[sector])
            left = 0.01 * distance - keep - speed * delay
            most = brake_speed(left, values["MPC_ACC_HOR"], values["MPC_JERK_MAX"])
            braking = VELOCITY_GAIN * min(most - speed, 0.0)
            if braking < strongest:
                strongest, towards = braking, direction
        return strongest, towards
