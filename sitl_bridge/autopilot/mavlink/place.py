"""Between the estimator's local frame and latitude, longitude and altitude, for messages and targets.

The local frame is tangent to the WGS-84 ellipsoid; within the kilometre or two of a flight, the radii of
curvature at its origin (Snyder, Map Projections, USGS 1395, eqs 4-18 and 4-20) leave errors under a
centimetre per 100 m of way.
"""

from __future__ import annotations

import math

from sitl_bridge.world.earth import ECCENTRICITY_SQUARED, SEMI_MAJOR_AXIS


def _radii(latitude: float, altitude: float) -> tuple[float, float]:
    """m of way per rad of latitude and of longitude."""
    sine = math.sin(latitude)
    share = 1.0 - ECCENTRICITY_SQUARED * sine * sine
    transverse = SEMI_MAJOR_AXIS / math.sqrt(share)
    meridian = transverse * (1.0 - ECCENTRICITY_SQUARED) / share
    return meridian + altitude, (transverse + altitude) * math.cos(latitude)


def global_position(
    origin: tuple[float, float, float], position: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Latitude and longitude in degrees and altitude in m of a local position.

    Args:
        origin: latitude rad, longitude rad, altitude m.
        position: m north, east, down.
    """
    north, east = _radii(origin[0], origin[2])
    return (
        math.degrees(origin[0] + position[0] / north),
        math.degrees(origin[1] + position[1] / east),
        origin[2] - position[2],
    )


def local_position(
    origin: tuple[float, float, float], place: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Position in m north, east, down of a place.

    Args:
        origin: latitude rad, longitude rad, altitude m.
        place: latitude deg, longitude deg, altitude m.
    """
    north, east = _radii(origin[0], origin[2])
    return (
        (math.radians(place[0]) - origin[0]) * north,
        (math.radians(place[1]) - origin[1]) * east,
        origin[2] - place[2],
    )
