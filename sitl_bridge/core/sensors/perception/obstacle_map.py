"""The nearest obstacles around a vehicle, by sectors, from what a ranging sensor measures.

This is what a companion computer makes of a scan for the flight stack's collision prevention.  It knows the
vehicle's attitude and height, keeps what it has seen for a second, and reports horizontal distances.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import deque
from dataclasses import dataclass

import numpy as np
from pydantic import Field, model_validator

from sitl_bridge.base.arrays import Floats, Ints, Mask
from sitl_bridge.base.quantities import NonNegative, Positive
from sitl_bridge.core.sensors.perception.view import Arrays, PerceptionSpecification, Processor, View

SECTORS = 72
"""Of 5 deg, as OBSTACLE_DISTANCE has room for; sector 0 is ahead, its middle on the vehicle's x axis, the
next is to the right of it."""
UNKNOWN = 65535
"""Distance of a sector in which the sensor sees nothing at all."""
FARTHEST = 65534
"""cm, of the message."""
BAND = 1.5
"""m above and below the vehicle within which a point is an obstacle to level flight."""
CLEARANCE = 0.3
"""m above the ground, and below a ceiling, within which a point belongs to it."""
MEMORY = 1_000_000
"""us for which a point is kept.  A scanner that is fixed to the body sees over a wall, or under it, while the
vehicle tilts to brake or to accelerate."""


@dataclass(frozen=True)
class Returns:
    """Hits of a sensor."""

    points: Floats  # (k, 3) m NED
    sectors: Mask  # (SECTORS,) bool, those of its field of view


@dataclass(frozen=True)
class Sight:
    """Rays and where they end."""

    origins: Floats  # (n, 3) m NED, or (1, 3) for all rays
    directions: Floats  # (n, 3) unit vectors NED
    ranges: Floats  # (n,) m; inf where nothing is within the sensor's range, nan for no reading
    maximum: float  # m up to which a ray counts

    def points(self) -> Floats:
        """Return the (k, 3) places that rays met, m NED."""
        met = np.isfinite(self.ranges)
        origins = np.broadcast_to(self.origins, self.directions.shape)[met]
        return np.asarray(origins + self.ranges[met, None] * self.directions[met])


class RangingSpecification(PerceptionSpecification):
    """A sensor that measures distances."""

    obstacle_distance: bool = Field(
        False, description="report the nearest obstacles to PX4's collision prevention"
    )
    map_cell: float | None = Field(
        None,
        ge=0.01,
        le=10.0,
        description="m, edge of a cell of the occupancy map that is built in flight; none: no map",
    )
    map_range: Positive = Field(30.0, description="m up to which rays count for the map")
    minimum: NonNegative = Field(description="m")
    maximum: Positive = Field(description="m")

    @model_validator(mode="after")
    def _validate_order(self) -> RangingSpecification:
        if self.minimum >= self.maximum:
            raise ValueError("minimum must be less than maximum")
        return self

    @abstractmethod
    def sight(self, view: View, arrays: Arrays) -> Sight:
        """The rays of a sample, as many as a map needs."""

    def sight_for_map(self, view: View, arrays: Arrays) -> Sight:
        """The rays that go into the map, of a sample after its processor."""
        return self.sight(view, arrays)

    @property
    def sight_range(self) -> float:
        """m up to which rays count for the map."""
        return min(self.map_range, self.maximum)

    def sight_of_beams(
        self, view: View, beams: tuple[Floats, Floats], ranges: Floats, nearest: float | None
    ) -> Sight:
        """All beams; those without a return are free, unless some drop out or met something too near.

        Args:
            beams: tuple of origins (n, 3) or (1, 3) in m and directions (n, 3), NED.
            ranges: (n,) m, nan where nothing returned; changed.
            nearest: m from which on what is met returns; None where beams drop out.
        """
        origins, directions = beams
        if nearest is not None:
            lost = np.isnan(ranges)
            begin = origins if len(origins) == 1 else origins[lost]
            met = np.isfinite(view.caster.cast(begin, directions[lost], nearest).distance)
            ranges[lost] = np.where(met, np.nan, np.inf)
        return Sight(origins, directions, ranges, self.sight_range)

    @abstractmethod
    def returns(self, view: View, arrays: Arrays) -> Returns:
        """Return the points where a sample's rays met something."""

    def sectors_of(self, directions: Floats) -> Mask:
        """(SECTORS,) bool: those that rays (n, 3) in the sensor's axes lie in while the vehicle is level."""
        found = np.zeros(SECTORS, bool)
        turned = directions @ self.mounting().T
        found[_sector(turned[:, 0], turned[:, 1], 0.0)] = True
        return found

    def processor(self) -> Processor | None:
        """The map of obstacles, where the flight stack is to have one."""
        return ObstacleMap(self).update if self.obstacle_distance else None


def reports_obstacles(sensor: object) -> bool:
    """Whether a sensor's obstacles are for the flight stack."""
    return isinstance(sensor, RangingSpecification) and sensor.obstacle_distance


class ObstacleMap:
    """The obstacles around one vehicle.

    Args:
        sensor: that sees them.
    """

    def __init__(self, sensor: RangingSpecification) -> None:
        self._sensor = sensor
        self._seen: deque[tuple[int, Floats]] = deque()

    def update(self, view: View, arrays: Arrays) -> Arrays:
        """The sample with ``obstacles``: (SECTORS,) uint16, cm of horizontal distance from the vehicle.

        A sector of the field of view without an obstacle has the sensor's greatest distance and 1 cm.
        """
        met = self._sensor.returns(view, arrays)
        positions, rotations = view.poses.at(np.array([float(view.time)]))
        position, heading = positions[0], math.atan2(rotations[0, 1, 0], rotations[0, 0, 0])
        near = self._obstacles(view, position, met.points)
        self._seen.append((view.time, self._nearest(near, position, heading)))
        while self._seen[0][0] < view.time - MEMORY:
            self._seen.popleft()
        kept = np.concatenate([points for _, points in self._seen])
        distance = np.full(SECTORS, np.inf)
        offset = kept - position
        np.minimum.at(
            distance, _sector(offset[:, 0], offset[:, 1], heading), np.hypot(offset[:, 0], offset[:, 1])
        )
        most = min(round(100.0 * self._sensor.maximum) + 1, FARTHEST)
        free = np.where(met.sectors, most, UNKNOWN)
        known = distance <= self._sensor.maximum
        centimetres = np.floor(100.0 * np.where(known, distance, 0.0))
        return {**arrays, "obstacles": np.where(known, centimetres, free).astype(np.uint16)}

    @staticmethod
    def _obstacles(view: View, position: Floats, points: Floats) -> Floats:
        """The points that are in the way of level flight: neither the ground nor a ceiling."""
        vertical = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
        limit = BAND + CLEARANCE
        room = view.caster.cast(position[None], vertical, limit).distance
        below, above = np.clip(np.minimum(room, limit) - CLEARANCE, 0.0, BAND)
        down = points[:, 2] - position[2]
        return points[(down < below) & (down > -above)]

    @staticmethod
    def _nearest(points: Floats, position: Floats, heading: float) -> Floats:
        """The nearest point of each sector, (k, 3) with k up to SECTORS."""
        offset = points - position
        order = np.argsort(np.hypot(offset[:, 0], offset[:, 1]), kind="stable")
        _, first = np.unique(_sector(offset[order, 0], offset[order, 1], heading), return_index=True)
        return points[order[first]]


def _sector(north: Floats, east: Floats, heading: float) -> Ints:
    """Sectors (n,) of offsets, as seen with a heading in rad."""
    turns = (np.arctan2(east, north) - heading) / (2.0 * math.pi)
    return np.rint(turns * SECTORS).astype(np.int64) % SECTORS
