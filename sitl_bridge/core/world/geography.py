"""Between degrees on Earth and metres around the local origin.

Heights are above mean sea level and go into the local frame as they are, as in PX4: down is the origin's
altitude less the point's, not the tangent plane's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from sitl_bridge.base.rotations import wrap_angle
from sitl_bridge.core.world.earth import ECCENTRICITY_SQUARED, SEMI_MAJOR_AXIS


class Projection:
    """Local north and east of points near an origin, on the WGS-84 ellipsoid.

    A series in the differences of latitude and longitude to second order; what it leaves out, above all the
    change of the meridian's curvature (1.5 e^2 dy^2 sin cos), is 1 mm at 1 km and 0.1 m at 10 km.

    Args:
        latitude: of the origin, rad.
        longitude: rad.
        altitude: m above mean sea level.
    """

    __slots__ = ("_cos", "_east", "_north", "_tan", "origin")

    def __init__(self, latitude: float, longitude: float, altitude: float) -> None:
        self.origin = (latitude, longitude, altitude)
        sine = math.sin(latitude)
        self._cos = math.cos(latitude)
        self._tan = math.tan(latitude)
        # Radii of curvature in the prime vertical and in the meridian (geodesy textbooks, e.g. Torge, 4.1).
        squared = 1.0 - ECCENTRICITY_SQUARED * sine * sine
        prime_vertical = SEMI_MAJOR_AXIS / math.sqrt(squared)
        self._east = prime_vertical + altitude
        self._north = prime_vertical * (1.0 - ECCENTRICITY_SQUARED) / squared + altitude

    @classmethod
    @lru_cache(maxsize=16)
    def from_radians(cls, latitude: float, longitude: float, altitude: float) -> Projection:
        """The projection about an origin (rad, rad, m), kept for those asked for again and again."""
        return cls(latitude, longitude, altitude)

    @classmethod
    def from_degrees(cls, latitude: float, longitude: float, altitude: float = 0.0) -> Projection:
        """The projection about an origin in deg, deg and m."""
        return cls.from_radians(math.radians(latitude), math.radians(longitude), altitude)

    def local(self, latitude: float, longitude: float) -> tuple[float, float]:
        """North and east in m of a point in degrees."""
        dy = math.radians(latitude) - self.origin[0]
        dx = wrap_angle(math.radians(longitude) - self.origin[1])
        return self._forward(dy, dx)

    def down_of_altitude(self, altitude: float) -> float:
        """Down in m of an altitude in m above mean sea level."""
        return self.origin[2] - altitude

    def altitude(self, down: float) -> float:
        """Altitude in m above mean sea level of a down in m."""
        return self.origin[2] - down

    def point(self, north: float, east: float) -> tuple[float, float]:
        """Latitude and longitude in degrees of a local point."""
        dy, dx = north / self._north, east / (self._east * self._cos)
        for _ in range(3):  # the inverse series, by iterating the forward one
            away_north, away_east = self._forward(dy, dx)
            dy += (north - away_north) / self._north
            dx += (east - away_east) / (self._east * self._cos)
        return math.degrees(self.origin[0] + dy), math.degrees(self.origin[1] + dx)

    def place(self, position: Sequence[float]) -> tuple[float, float, float]:
        """Latitude deg, longitude deg and altitude m of a local position in m north, east, down."""
        return *self.point(position[0], position[1]), self.altitude(position[2])

    def position(self, place: Sequence[float]) -> tuple[float, float, float]:
        """Local position in m north, east, down of a latitude deg, longitude deg and altitude m."""
        return *self.local(place[0], place[1]), self.down_of_altitude(place[2])

    def _forward(self, dy: float, dx: float) -> tuple[float, float]:
        along = self._east * self._cos * dx
        north = self._north * dy + 0.5 * along * dx * self._cos * self._tan
        return north, along * (1.0 - self._tan * dy * self._north / self._east)


def distance(here: Sequence[float], there: Sequence[float]) -> float:
    """Distance in m on the ellipsoid between two points, latitude and longitude in degrees."""
    return math.hypot(*Projection.from_degrees(here[0], here[1]).local(there[0], there[1]))
