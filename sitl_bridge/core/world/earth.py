"""WGS-84: gravity, and how the world's metres lie on the ellipsoid.

The world's north and east are distances along the ground from the origin (azimuthal equidistant, as in PX4's
local frame), and down is the origin's altitude less the point's: the frame bends with the Earth.  So level
ground is level everywhere, and altitude, pressure, gravity and magnetic field belong to one place.  Axes are
those of the local north, east and down; the turn of the meridians against one another, e tan(latitude)/R (0.2
deg at 20 km and 47 deg), is left out, as is the centrifugal v^2/R (1e-4 m/s^2 at 25 m/s).  The Earth turns:
gyroscopes show its rotation w = W (cos(latitude), 0, -sin(latitude)), and what moves is accelerated by
Coriolis' -2 w x v (Titterton and Weston, Strapdown Inertial Navigation Technology, section 3.5); PX4's
estimator takes both off again (EKF/ekf.cpp, predictState).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pymap3d
from numpy.typing import ArrayLike
from pygeomag import GeoMag
from pygeomag.wmm.wmm_2025 import WMM_2025

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.world.records import Environment

SEMI_MAJOR_AXIS = 6378137.0
"""m, WGS-84 (NIMA TR8350.2)."""
FLATTENING = 1.0 / 298.257223563
"""WGS-84."""
ECCENTRICITY_SQUARED = FLATTENING * (2.0 - FLATTENING)
ROTATION_RATE = 7.292115e-5
"""rad/s of the Earth, WGS-84."""
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


def ecef(latitude: float, longitude: float, height: float) -> Floats:
    """Earth-centred, earth-fixed position (3,) in m of a geodetic point (rad, rad, m)."""
    prime_vertical = SEMI_MAJOR_AXIS / math.sqrt(1.0 - ECCENTRICITY_SQUARED * math.sin(latitude) ** 2)
    return np.array(
        [
            (prime_vertical + height) * math.cos(latitude) * math.cos(longitude),
            (prime_vertical + height) * math.cos(latitude) * math.sin(longitude),
            (prime_vertical * (1.0 - ECCENTRICITY_SQUARED) + height) * math.sin(latitude),
        ]
    )


def ned_to_ecef_rotation(latitude: float, longitude: float) -> Floats:
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


def curvatures(latitude: float) -> tuple[float, float]:
    """Curvatures 1/M and 1/N in 1/m of the ellipsoid along the meridian and across it, at a latitude in rad.

    Geodesy textbooks, e.g. Torge, Geodesy, 4.1.
    """
    squared = 1.0 - ECCENTRICITY_SQUARED * math.sin(latitude) ** 2
    across = math.sqrt(squared) / SEMI_MAJOR_AXIS
    return across * squared / (1.0 - ECCENTRICITY_SQUARED), across


def _radius(north: Floats, east: Floats, origin: Sequence[float]) -> Floats:
    """Radius in m of the Earth at the origin's height towards a point, by Euler's formula."""
    along, across = curvatures(math.radians(origin[0]))
    square = np.maximum(north * north + east * east, 1e-300)
    return square / np.maximum(along * north * north + across * east * east, 1e-320) + origin[2]


def geodetic_of(
    north: ArrayLike, east: ArrayLike, down: ArrayLike, origin: Sequence[float]
) -> tuple[Floats, Floats, Floats]:
    """Latitudes and longitudes in deg and heights in m of points in m north, east and down.

    Args:
        north, east, down: m.
        origin: latitude deg, longitude deg, height m.
    """
    n, e, d = np.asarray(north, float), np.asarray(east, float), np.asarray(down, float)
    radius = _radius(n, e, origin)
    angle = np.hypot(n, e) / radius
    reach = np.sinc(angle / math.pi)
    drop = radius * 2.0 * np.sin(0.5 * angle) ** 2
    latitude, longitude, _ = pymap3d.ned2geodetic(n * reach, e * reach, drop, *origin)
    return np.asarray(latitude), np.asarray(longitude), origin[2] - d


def ned_of(
    latitude: ArrayLike, longitude: ArrayLike, height: ArrayLike, origin: Sequence[float]
) -> tuple[Floats, Floats, Floats]:
    """Metres north, east and down of points in deg and m: the inverse of ``geodetic_of``."""
    lat, lon, h = np.asarray(latitude, float), np.asarray(longitude, float), np.asarray(height, float)
    north, east, _ = (np.asarray(x) for x in pymap3d.geodetic2ned(lat, lon, origin[2], *origin))
    radius = _radius(north, east, origin)
    sine = np.minimum(np.hypot(north, east) / radius, 1.0)
    stretch = 1.0 / np.sinc(np.arcsin(sine) / math.pi)
    return north * stretch, east * stretch, origin[2] - h


@compiled
def local_gravity(environment: Environment, north: float, down: float) -> float:
    """Normal gravity in m/s^2 at a place of the world (m)."""
    return float(
        environment.gravity + environment.gravity_slope[0] * north + environment.gravity_slope[1] * down
    )


@compiled
def geodetic(environment: Environment, north: float, east: float, down: float) -> tuple[float, float, float]:
    """Geodetic latitude (rad), longitude (rad) and height (m) of a point of the world (m).

    The point is put on the sphere that fits the ellipsoid in its direction, at the origin's height; its
    latitude and longitude are Bowring's (Survey Review 23, 1976) with the parametric latitude iterated once
    more.  Within 20 km that is the geodesic to 0.01 m.
    """
    square = north * north + east * east
    bend = environment.curvature[0] * north * north + environment.curvature[1] * east * east
    drop = 0.0
    if bend > 0.0:
        radius = square / bend + environment.height
        turn = square / (radius * radius)
        # sin(a)/a and (1 - cos(a))/a^2; to a micrometre at 500 km.
        reach = 1.0 - turn / 6.0 * (1.0 - turn / 20.0)
        drop = 0.5 * square / radius * (1.0 - turn / 12.0 * (1.0 - turn / 30.0))
        north *= reach
        east *= reach
    r = environment.ned_to_ecef
    o = environment.origin_ecef
    x = o[0] + r[0, 0] * north + r[0, 1] * east + r[0, 2] * drop
    y = o[1] + r[1, 0] * north + r[1, 1] * east + r[1, 2] * drop
    z = o[2] + r[2, 0] * north + r[2, 1] * east + r[2, 2] * drop
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
    return latitude, math.atan2(y, x), environment.height - down


FIRST_YEAR, LAST_YEAR = 2025.0, 2030.0


@lru_cache(maxsize=256)
def magnetic_field(latitude: float, longitude: float, height: float, year: float) -> Floats:
    """Magnetic flux density (3,) NED in tesla by WMM2025; not to be written to.

    Args:
        latitude, longitude: rad, geodetic.
        height: m above the ellipsoid.
        year: decimal year within the model's life, 2025.0 to 2030.0.

    Raises:
        ValueError: for a year outside the model's life.
    """
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise ValueError(f"WMM2025 holds from {FIRST_YEAR:.0f} to {LAST_YEAR:.0f}, not in {year:g}")
    field = GeoMag(coefficients_data=WMM_2025).calculate(
        glat=math.degrees(latitude), glon=math.degrees(longitude), alt=height * 1e-3, time=year
    )
    found = np.array([field.x, field.y, field.z]) * 1e-9
    found.flags.writeable = False
    return found
