"""WGS-84: gravity, and the tangent frame that the world's metres live in.

The world's NED frame is a plane tangent to the ellipsoid at the origin, so a point 1 km away at down = 0
is 8 cm above the ellipsoid.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.kernels.compiled import compiled

SEMI_MAJOR_AXIS = 6378137.0
"""m, WGS-84 (NIMA TR8350.2)."""
FLATTENING = 1.0 / 298.257223563
"""WGS-84."""
ECCENTRICITY_SQUARED = FLATTENING * (2.0 - FLATTENING)
_EQUATORIAL_GRAVITY = 9.7803253359
_SOMIGLIANA = 0.00193185265241
_GRAVITY_RATIO = 0.00344978650684


def gravity(latitude: float, height: float) -> float:
    """Normal gravity in m/s^2 at a geodetic latitude (rad) and a height above the ellipsoid (m).

    Somigliana's formula with the second-order free-air reduction, NIMA TR8350.2, eqs 4-1 and 4-3.
    """
    sine = math.sin(latitude) ** 2
    surface = _EQUATORIAL_GRAVITY * (1.0 + _SOMIGLIANA * sine) / math.sqrt(1.0 - ECCENTRICITY_SQUARED * sine)
    a = SEMI_MAJOR_AXIS
    linear = 2.0 / a * (1.0 + FLATTENING + _GRAVITY_RATIO - 2.0 * FLATTENING * sine) * height
    return surface * (1.0 - linear + 3.0 * height**2 / a**2)


def ecef(latitude: float, longitude: float, height: float) -> NDArray[np.float64]:
    """Earth-centred, earth-fixed position (3,) in m of a geodetic point (rad, rad, m)."""
    prime_vertical = SEMI_MAJOR_AXIS / math.sqrt(1.0 - ECCENTRICITY_SQUARED * math.sin(latitude) ** 2)
    return np.array(
        [
            (prime_vertical + height) * math.cos(latitude) * math.cos(longitude),
            (prime_vertical + height) * math.cos(latitude) * math.sin(longitude),
            (prime_vertical * (1.0 - ECCENTRICITY_SQUARED) + height) * math.sin(latitude),
        ]
    )


def ned_to_ecef_rotation(latitude: float, longitude: float) -> NDArray[np.float64]:
    """Rotation (3, 3) that takes NED vectors at a geodetic point (rad, rad) to ECEF."""
    sin_lat, cos_lat = math.sin(latitude), math.cos(latitude)
    sin_lon, cos_lon = math.sin(longitude), math.cos(longitude)
    return np.array(
        [
            [-sin_lat * cos_lon, -sin_lon, -cos_lat * cos_lon],
            [-sin_lat * sin_lon, cos_lon, -cos_lat * sin_lon],
            [cos_lat, 0.0, -sin_lat],
        ]
    )


@compiled
def geodetic(environment: Any, north: float, east: float, down: float) -> tuple[float, float, float]:
    """Geodetic latitude (rad), longitude (rad) and height (m) of a point of the world's NED frame (m).

    Bowring's formula (Survey Review 23, 1976) with the parametric latitude iterated once more; exact to
    well under a micrometre at the heights aircraft fly.
    """
    r = environment.ned_to_ecef
    o = environment.origin_ecef
    x = o[0] + r[0, 0] * north + r[0, 1] * east + r[0, 2] * down
    y = o[1] + r[1, 0] * north + r[1, 1] * east + r[1, 2] * down
    z = o[2] + r[2, 0] * north + r[2, 1] * east + r[2, 2] * down
    b = SEMI_MAJOR_AXIS * (1.0 - FLATTENING)
    second = ECCENTRICITY_SQUARED / (1.0 - ECCENTRICITY_SQUARED)
    p = math.sqrt(x * x + y * y)
    tan_u = z * SEMI_MAJOR_AXIS / (p * b) if p > 0.0 else math.inf
    latitude = 0.0
    for _ in range(2):
        cos_u = 1.0 / math.sqrt(1.0 + tan_u * tan_u)
        sin_u = tan_u * cos_u if math.isfinite(tan_u) else 1.0
        latitude = math.atan2(
            z + second * b * sin_u**3, p - ECCENTRICITY_SQUARED * SEMI_MAJOR_AXIS * cos_u**3
        )
        tan_u = (1.0 - FLATTENING) * math.tan(latitude)
    sin_lat = math.sin(latitude)
    cos_lat = math.cos(latitude)
    height = (
        p * cos_lat
        + z * sin_lat
        - SEMI_MAJOR_AXIS * math.sqrt(1.0 - ECCENTRICITY_SQUARED * sin_lat * sin_lat)
    )
    return latitude, math.atan2(y, x), height
