"""The International Standard Atmosphere: temperature, pressure and density by height.

No wind here (wind.py), and no humidity.
"""

from __future__ import annotations

import math

from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.world.records import Environment

SEA_LEVEL_TEMPERATURE = 288.15
"""K, ISO 2533:1975."""
SEA_LEVEL_PRESSURE = 101325.0
"""Pa, ISO 2533:1975."""
LAPSE_RATE = 0.0065
"""K/m up to 11 km, ISO 2533:1975."""
GAS_CONSTANT = 287.05287
"""J/(kg K) of dry air, ISO 2533:1975."""
EARTH_RADIUS = 6356766.0
"""m, nominal, of ISO 2533:1975."""
TROPOPAUSE = 11000.0
"""m of geopotential height, where the isothermal layer begins, ISO 2533:1975."""
PRESSURE_EXPONENT = STANDARD_GRAVITY / (GAS_CONSTANT * LAPSE_RATE)
"""5.25588."""


@compiled
def air_at_height(
    height: float, sea_level_temperature: float, sea_level_pressure: float
) -> tuple[float, float, float]:
    """Still air at a height above mean sea level, by ISO 2533 with an offset of sea-level values.

    Args:
        height: m AMSL, geometric; the atmosphere's is the geopotential one, r h/(r + h); valid to 20 km.
        sea_level_temperature: K.
        sea_level_pressure: Pa.

    Returns:
        temperature in K, static pressure in Pa, density in kg/m^3.
    """
    height *= EARTH_RADIUS / (EARTH_RADIUS + height)
    layer = min(height, TROPOPAUSE)
    temperature = sea_level_temperature - LAPSE_RATE * layer
    pressure = sea_level_pressure * math.pow(temperature / sea_level_temperature, PRESSURE_EXPONENT)
    if height > TROPOPAUSE:
        pressure *= math.exp(-STANDARD_GRAVITY * (height - TROPOPAUSE) / (GAS_CONSTANT * temperature))
    return temperature, pressure, pressure / (GAS_CONSTANT * temperature)


@compiled
def air(environment: Environment, down: float) -> tuple[float, float, float]:
    """Air at ``down`` metres below the world's origin: temperature K, pressure Pa, density kg/m^3."""
    return air_at_height(
        environment.height - down, environment.sea_level_temperature, environment.sea_level_pressure
    )


@compiled
def pressure_altitude(pressure: float) -> float:
    """Geopotential height in m at which the standard troposphere has ``pressure`` (Pa)."""
    return (
        SEA_LEVEL_TEMPERATURE
        / LAPSE_RATE
        * (1.0 - math.pow(pressure / SEA_LEVEL_PRESSURE, 1.0 / PRESSURE_EXPONENT))
    )
