"""The Earth's magnetic field by the World Magnetic Model 2025 (pygeomag reproduces its official table)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from pygeomag import GeoMag

FIRST_YEAR, LAST_YEAR = 2025.0, 2030.0


def magnetic_field(latitude: float, longitude: float, height: float, year: float) -> NDArray[np.float64]:
    """Magnetic flux density (3,) NED in tesla by WMM2025.

    Args:
        latitude: rad, geodetic.
        longitude: rad.
        height: m above the ellipsoid.
        year: decimal year within the model's life, 2025.0 to 2030.0.

    Raises:
        ValueError: for a year outside the model's life.
    """
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise ValueError(f"WMM2025 holds from {FIRST_YEAR:.0f} to {LAST_YEAR:.0f}, not in {year:g}")
    model = GeoMag(coefficients_file="wmm/WMM_2025.COF")
    field = model.calculate(
        glat=math.degrees(latitude), glon=math.degrees(longitude), alt=height * 1e-3, time=year
    )
    return np.array([field.x, field.y, field.z]) * 1e-9
