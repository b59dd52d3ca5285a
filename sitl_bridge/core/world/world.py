"""The world of a run: place, air, magnetic field and wind, as the compiled step reads them."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.quantities import STRICT, Positive
from sitl_bridge.core.world.atmosphere import SEA_LEVEL_PRESSURE, SEA_LEVEL_TEMPERATURE
from sitl_bridge.core.world.custom_wind import WindFunction
from sitl_bridge.core.world.earth import (
    FIRST_YEAR,
    LAST_YEAR,
    ROTATION_RATE,
    curvatures,
    ecef,
    geodetic_of,
    gravity,
    magnetic_field,
    ned_of,
    ned_to_ecef_rotation,
)
from sitl_bridge.core.world.records import ENVIRONMENT, START, WIND
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import SceneSpecification
from sitl_bridge.core.world.wind import Gust, Wind, WindSpecification

SLOPE_REACH = 1000.0
"""m from the origin, at which gravity and magnetic field are evaluated for their slopes."""


NORTHERNMOST = 89.5
"""deg of latitude, the northernmost and southernmost at which PX4 was flown."""
HOUR = 3_600_000_000
"""us."""


def utc_of(year: float) -> int:
    """UTC in us since 1970 of a decimal year, to the hour."""
    first = datetime(int(year), 1, 1, tzinfo=UTC)
    length = datetime(int(year) + 1, 1, 1, tzinfo=UTC) - first
    return round((first.timestamp() + (year - int(year)) * length.total_seconds()) * 1e6 / HOUR) * HOUR


class Origin(BaseModel):
    """Origin of the world's NED frame, on the ground.  Default: the home of PX4's simulators."""

    model_config = STRICT

    latitude: float = Field(
        47.397742,
        ge=-NORTHERNMOST,
        le=NORTHERNMOST,
        description="deg, WGS-84; beyond 89.5, where every way is south, no flight stack navigates",
    )
    longitude: float = Field(8.545594, ge=-180.0, le=180.0, description="deg")
    altitude: float = Field(488.0, ge=-500.0, le=9000.0, description="m AMSL")


def parse_origin(text: str) -> Origin:
    """Origin of a command line: ``LAT,LON,ALT`` in deg, deg and m above mean sea level.

    Raises:
        UserError: for any other text.
    """
    try:
        latitude, longitude, altitude = (float(part) for part in text.split(","))
        return Origin(latitude=latitude, longitude=longitude, altitude=altitude)
    except ValueError as error:
        bounds = "latitude -90 to 90 deg, longitude -180 to 180 deg, altitude -500 to 9000 m"
        raise UserError(f"--home {text!r}: write LAT,LON,ALT, as in 47.3977,8.5456,488 ({bounds})") from error


class UniformField(BaseModel):
    """A magnetic field that is the same everywhere (hector_quadrotor, section 3.3)."""

    model_config = STRICT

    declination: float = Field(ge=-180.0, le=180.0, description="deg east of north")
    inclination: float = Field(ge=-90.0, le=90.0, description="deg below the horizon")
    strength: Positive = Field(description="uT")

    def ned(self) -> Floats:
        """Flux density (3,) NED in T."""
        east, down = math.radians(self.declination), math.radians(self.inclination)
        level = math.cos(down)
        return (
            1e-6 * self.strength * np.array([level * math.cos(east), level * math.sin(east), math.sin(down)])
        )


class WorldSpecification(BaseModel):
    """A world as a file or a command line describes it."""

    model_config = STRICT

    origin: Origin = Field(Origin(), description="of the NED frame, on the ground")
    year: float = Field(
        2025.0, ge=FIRST_YEAR, le=LAST_YEAR, description="decimal year of the field and of UTC"
    )
    magnetic_field: UniformField | None = Field(None, description="in place of WMM2025's of place and year")
    earth_rotation: bool = Field(True, description="gyroscopes and motion feel the Earth's rotation")
    sea_level_temperature: float = Field(SEA_LEVEL_TEMPERATURE, gt=200.0, lt=340.0, description="K")
    sea_level_pressure: float = Field(SEA_LEVEL_PRESSURE, gt=8e4, lt=1.1e5, description="Pa")
    wind: Wind = Field(WindSpecification(), description="all parts add up; calm without")
    scene: SceneSpecification = Field(
        SceneSpecification(), description="what stands in it; level ground alone"
    )


class World:
    """A world ready for the compiled step.

    Attributes:
        environment: (1,) ENVIRONMENT.
        wind: (1,) WIND, written in place by ``set_wind``.
        wind_series: (k, 4) recorded wind.
        scene: what stands in it.

    Args:
        specification: what it is like.
        gusts: in addition to those of its wind.
        start: us of simulated time at which the run begins; gusts and series count from there.

    Raises:
        UserError: when a recorded wind cannot be read, a wind of the user's own cannot be loaded, or a
            file of the scene was not read.
    """

    def __init__(
        self,
        specification: WorldSpecification | None = None,
        gusts: tuple[Gust, ...] = (),
        *,
        start: int = START,
    ) -> None:
        self.specification = specification or WorldSpecification()
        if gusts:
            wind = self.specification.wind
            wind = wind.model_copy(update={"gusts": wind.gusts + gusts})
            self.specification = self.specification.model_copy(update={"wind": wind})
        origin = self.specification.origin
        latitude, longitude = math.radians(origin.latitude), math.radians(origin.longitude)
        self.environment = np.zeros(1, ENVIRONMENT)
        record = self.environment[0]
        record["latitude"], record["longitude"], record["height"] = latitude, longitude, origin.altitude
        record["gravity"] = gravity(latitude, origin.altitude)
        record["sea_level_temperature"] = self.specification.sea_level_temperature
        record["sea_level_pressure"] = self.specification.sea_level_pressure
        own, year = self.specification.magnetic_field, self.specification.year
        record["magnetic_field"] = (
            magnetic_field(latitude, longitude, origin.altitude, year) if own is None else own.ned()
        )
        if self.specification.earth_rotation:
            record["earth_rate"] = ROTATION_RATE * math.cos(latitude), -ROTATION_RATE * math.sin(latitude)
        self._set_slopes(record)
        record["utc"] = utc_of(self.specification.year)
        record["curvature"] = curvatures(latitude)
        record["origin_ecef"] = ecef(latitude, longitude, origin.altitude)
        record["ned_to_ecef"] = ned_to_ecef_rotation(latitude, longitude)
        self.scene = Scene(self.specification.scene)
        record["scene"] = self.scene.record[0]
        self.wind = np.zeros(1, WIND)
        self.wind_series = np.zeros((0, 4))
        self._wind_functions: list[WindFunction] = []
        self.set_wind(self.specification.wind, start)

    def set_wind(self, specification: WindSpecification, now: int) -> None:
        """Let another wind blow from ``now`` (us) on; turbulence goes on without a jump of its state."""
        series = specification.load_series()
        wind = specification.pack(now)
        wind[0]["series_start"] = now
        if specification.series is not None and specification.series.repeat:
            wind[0]["series_period"] = round((series[-1, 0] - series[0, 0]) * 1e6)
        if specification.custom is not None:
            # Those of earlier winds are kept: a step that runs right now may call them.
            self._wind_functions.append(WindFunction(specification.custom))
            wind[0]["custom"] = self._wind_functions[-1].address
        self.wind[:] = wind
        self.wind_series = series

    def raise_wind_failure(self) -> None:
        """Raise what a wind of the user's own raised in a step, if it did.

        Raises:
            UserError: naming the wind and its error.
        """
        for function in self._wind_functions:
            function.raise_failure()

    def _set_slopes(self, record: Records) -> None:
        """Gradients of gravity and magnetic field at the origin, by differences over twice SLOPE_REACH."""
        year = self.specification.year
        for axis in range(3):
            ends = []
            for side in (SLOPE_REACH, -SLOPE_REACH):
                place = np.zeros(3)
                place[axis] = side
                latitude, longitude, height = self.geodetic(place)
                at = math.radians(latitude), math.radians(longitude), height
                ends.append((gravity(at[0], height), magnetic_field(*at, year)))
            (g_ahead, field_ahead), (g_behind, field_behind) = ends
            if self.specification.magnetic_field is None:
                record["magnetic_slope"][:, axis] = (field_ahead - field_behind) / (2.0 * SLOPE_REACH)
            if axis != 1:
                record["gravity_slope"][axis // 2] = (g_ahead - g_behind) / (2.0 * SLOPE_REACH)

    @property
    def _origin(self) -> tuple[float, float, float]:
        origin = self.specification.origin
        return origin.latitude, origin.longitude, origin.altitude

    def geodetic(self, ned: Floats) -> tuple[float, float, float]:
        """Latitude deg, longitude deg and height m of a point (3,) NED in m."""
        latitude, longitude, height = geodetic_of(ned[0], ned[1], ned[2], self._origin)
        return float(latitude), float(longitude), float(height)

    def ned(self, latitude: float, longitude: float, height: float) -> Floats:
        """Point (3,) NED in m of a latitude deg, longitude deg and height m."""
        return np.array(ned_of(latitude, longitude, height, self._origin))
