"""Between the estimator's local frame and latitude, longitude and altitude, for messages and targets."""

from __future__ import annotations

from functools import lru_cache

from sitl_bridge.autopilot.geography import Projection

Vector = tuple[float, float, float]


@lru_cache(maxsize=16)
def _projection(origin: Vector) -> Projection:
    return Projection(*origin)


def global_position(origin: Vector, position: Vector) -> Vector:
    """Latitude and longitude in degrees and altitude in m of a local position.

    Args:
        origin: latitude rad, longitude rad, altitude m.
        position: m north, east, down.
    """
    projection = _projection(origin)
    latitude, longitude = projection.point(position[0], position[1])
    return latitude, longitude, projection.altitude(position[2])


def local_position(origin: Vector, place: Vector) -> Vector:
    """Position in m north, east, down of a place.

    Args:
        origin: latitude rad, longitude rad, altitude m.
        place: latitude deg, longitude deg, altitude m.
    """
    projection = _projection(origin)
    north, east = projection.local(place[0], place[1])
    return north, east, projection.down(place[2])
