"""Three-dimensional lidar: rings of beams that turn about the sensor's z axis."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from sitl_bridge.base.arrays import Floats, Ints, Mask, Singles
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.normal_numbers import normal_numbers
from sitl_bridge.base.quantities import NonNegative, Positive
from sitl_bridge.core.sensors.perception.lidar_odometry import LidarMotion, TurnGyroscope
from sitl_bridge.core.sensors.perception.obstacle_map import RangingSpecification, Returns, Sight
from sitl_bridge.core.sensors.perception.view import Arrays, Processor, Rate, View

LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
"""Weights of red, green and blue (ITU-R BT.709)."""
MOST_BEAMS = 1_000_000
"""Beams of a turn."""

Elevation = Annotated[float, Field(ge=-90.0, le=90.0)]


@compiled
def fill_returns(
    hits: tuple[Floats, Floats, Ints],
    rays: tuple[Floats, Floats],
    reflectivity: Floats,
    gauss: Singles,
    lost: Mask,
    limits: tuple[float, float, float, float],
) -> tuple[Singles, Singles]:
    """Points and intensities of a lidar's beams.

    Args:
        hits: tuple of distance (n,), normal (n, 3) and shape (n,).
        rays: tuple of directions NED (n, 3) and directions in the sensor's axes (n, 3).
        reflectivity: (k + 2,) 0 to 1, of the shapes, then 0 and the ground's: NOTHING and GROUND count from
            the end.
        gauss: (n,) float32, standard normal.
        lost: (n,) bool, beams without a return.
        limits: tuple of least and greatest distance in m, standard deviation in m, and the distance in m from
            which on the intensity falls with its square; 0: it does not.

    Returns:
        points (n, 3) float32 in m, sensor axes, nan for no return; intensities (n,) float32, 0 to 1, 0 for no
        return.
    """
    distance, normal, shape = hits
    world, own = rays
    least, greatest, deviation, reference = limits
    points, intensity = np.empty(own.shape, np.float32), np.empty(own.shape[0], np.float32)
    for i in range(distance.shape[0]):
        measured = distance[i] + deviation * gauss[i]
        if lost[i] or not least <= measured <= greatest:
            points[i, 0] = points[i, 1] = points[i, 2] = math.nan
            intensity[i] = 0.0
            continue
        for j in range(3):
            points[i, j] = measured * own[i, j]
        cosine = -(world[i, 0] * normal[i, 0] + world[i, 1] * normal[i, 1] + world[i, 2] * normal[i, 2])
        strength = reflectivity[shape[i]] * min(max(cosine, 0.0), 1.0)
        if reference > 0.0 and distance[i] > reference:
            strength *= (reference / distance[i]) ** 2
        intensity[i] = strength
    return points, intensity


class LidarSpecification(RangingSpecification):
    """A lidar whose column of beams turns about the sensor's z axis, clockwise from above, from the rear on.

    All beams of a column are cast at one time; the columns follow one another over the whole period, and the
    vehicle moves meanwhile.  Points are in the sensor's axes at the time of their own beam, so the cloud is
    distorted by the motion, as a driver puts it out.

    The defaults are the Velodyne VLP-16's (data sheet 63-9229: 16 rings from -15 to 15 deg, 10 turns a second
    with 0.2 deg between columns, 100 m, accuracy 0.03 m, taken here as the standard deviation).
    """

    kind: Literal["lidar"]
    rate: Rate = Field(10.0, description="Hz, turns a second")
    rings: int = Field(16, ge=1, le=256, description="beams of a column, evenly spaced")
    lowest: Elevation = Field(-15.0, description="deg above the sensor's x-y plane, of the first ring")
    highest: Elevation = Field(15.0, description="deg, of the last ring")
    elevations: tuple[Elevation, ...] = Field(
        (), max_length=256, description="deg, one a ring, in place of rings, lowest and highest"
    )
    columns: int = Field(1800, ge=4, le=16384, description="a turn")
    minimum: NonNegative = Field(0.5, description="m")
    maximum: Positive = Field(100.0, description="m")
    noise: NonNegative = Field(0.03, description="m, standard deviation of a distance")
    drop_out: float = Field(0.0, ge=0.0, le=1.0, description="share of beams that return nothing")
    rolling: bool = Field(True, description="false: all columns at once, without distortion by motion")
    ground_reflectivity: float = Field(0.3, ge=0.0, le=1.0, description="diffuse, of the level ground")
    range_law_from: NonNegative = Field(
        0.0,
        description="m beyond which the intensity falls with the square of the distance; 0: it does not, as"
        " of a calibrated instrument",
    )

    odometry: Literal["kiss-icp", "small-gicp"] | None = Field(
        None, description="estimator that follows the lidar's motion in flight; PX4 flies by its position"
    )
    odometry_gyroscope: bool = Field(
        True, description="a gyroscope at the lidar gives the estimator the rotation of each turn"
    )
    odometry_voxel: float = Field(0.5, ge=0.01, le=100.0, description="m, of the estimator's map")
    map_pose: Literal["true", "odometry"] = Field(
        "true", description="poses from which the map is built: the true ones, or those of its odometry"
    )
    cloud_format: Literal["pcd", "ply"] = Field("pcd", description="of recorded clouds")

    @model_validator(mode="after")
    def _fits(self) -> LidarSpecification:
        if self.map_pose == "odometry" and (self.odometry is None or self.map_cell is None):
            raise ValueError("map_pose: odometry needs odometry, an estimator, and map_cell")
        if self.columns * len(self.ring_elevations) > MOST_BEAMS:
            raise ValueError(f"columns times rings must be {MOST_BEAMS} at most")
        return self

    @property
    def exposure(self) -> float:
        """s of a turn whose columns follow one another, or whose rotation a gyroscope measures."""
        return max(self._sweep, 1.0 / self.rate if self._has_gyroscope else 0.0)

    @property
    def _sweep(self) -> float:
        """s from the first column to the end of the turn."""
        return 1.0 / self.rate if self.rolling else 0.0

    @property
    def _has_gyroscope(self) -> bool:
        return self.odometry is not None and self.odometry_gyroscope

    @property
    def ring_elevations(self) -> Floats:
        """(r,) rad above the sensor's x-y plane."""
        if self.elevations:
            return np.radians(self.elevations)
        return np.radians(np.linspace(self.lowest, self.highest, self.rings))

    @cached_property
    def azimuths(self) -> Floats:
        """(columns,) rad from the sensor's x axis towards y, in the order of time."""
        return 2.0 * np.pi * (np.arange(self.columns) / self.columns - 0.5)

    @cached_property
    def offsets(self) -> Floats:
        """(columns,) s from the end of the turn to each column's time; negative."""
        return self._sweep * (np.arange(self.columns) / self.columns - 1.0)

    @cached_property
    def directions(self) -> Floats:
        """(columns * rings, 3) unit vectors in the sensor's axes, column by column."""
        azimuth, elevation = np.meshgrid(self.azimuths, self.ring_elevations, indexing="ij")
        level = np.cos(elevation)
        rays = np.stack([level * np.cos(azimuth), level * np.sin(azimuth), -np.sin(elevation)], axis=-1)
        return rays.reshape(-1, 3)

    @cached_property
    def _layout(self) -> Arrays:
        """Arrays that are the same in every sample."""
        rings = len(self.ring_elevations)
        return {
            "ring": np.tile(np.arange(rings, dtype=np.uint8), self.columns),
            "offset": np.repeat(self.offsets.astype(np.float32), rings),
        }

    def measure(self, view: View) -> Arrays:
        """A turn, column by column, one entry a beam.

        ``points`` (n, 3) in m, float32, in the sensor's axes at each beam's time, nan where nothing returns;
        ``intensity`` (n,) 0 to 1; ``ring`` (n,) in the order of the elevations; ``offset`` (n,) s from the
        sample's time to the beam's.

        The intensity is the diffuse reflectivity times the cosine of the angle of incidence (Lambert), and
        beyond ``range_law_from`` times the inverse square of the distance.
        """
        directions = self.directions
        origins, turned = self.rays(view, directions, -self.offsets if self.rolling else None)
        hits = view.caster.cast(origins, turned, self.maximum + 6.0 * self.noise)
        n = len(directions)
        gauss = normal_numbers(view.random, n)
        lost = np.zeros(n, bool)
        if self.drop_out > 0.0:
            lost = view.random.random(n, np.float32) < self.drop_out
        # The shapes' own, then the ground's and nothing's, which GROUND and NOTHING count from the end.
        reflectivity = np.concatenate(
            [view.caster.shapes["color"] @ LUMINANCE, [0.0, self.ground_reflectivity]]
        )
        limits = (self.minimum, self.maximum, self.noise, self.range_law_from)
        points, intensity = fill_returns(hits[:3], (turned, directions), reflectivity, gauss, lost, limits)
        return {"points": points, "intensity": intensity, **self._layout}

    def sight(self, view: View, arrays: Arrays) -> Sight:
        """All beams, as of ``sight_of_beams``."""
        beams = self.rays(view, self.directions, -self.offsets if self.rolling else None)
        ranges = np.linalg.norm(arrays["points"].astype(float), axis=1)
        nearest = None if self.drop_out > 0.0 else self.minimum + 6.0 * self.noise
        return self.sight_of_beams(view, beams, ranges, nearest)

    def sight_for_map(self, view: View, arrays: Arrays) -> Sight:
        """The beams by the true motion, or by the estimated one; that takes a turn as seen from its end."""
        if "map_points" not in arrays:
            return self.sight(view, arrays)
        place = arrays["map_place"].astype(float)
        rays = arrays["map_points"].astype(float) - place
        ranges = np.linalg.norm(rays, axis=1)
        lost = np.isnan(ranges)
        rays[lost] = arrays["map_rays"][lost]
        rays[~lost] /= ranges[~lost, None]
        ranges[lost] = self.sight(view, arrays).ranges[lost]
        return Sight(place[None], rays, ranges, self.sight_range)

    def processor(self) -> Processor | None:
        """The map of obstacles and the estimate of the motion, as far as the flight stack is to have them."""
        obstacles = super().processor()
        if self.odometry is None:
            return obstacles
        motion = LidarMotion(
            self.odometry,
            self.odometry_voxel,
            self.mounting(),
            offset=self.position,
            gyroscope=TurnGyroscope(self.mounting(), 1.0 / self.rate) if self._has_gyroscope else None,
            rays=self.directions if self.map_pose == "odometry" else None,
        )
        if obstacles is None:
            return motion.update
        return lambda view, arrays: obstacles(view, motion.update(view, arrays))

    def returns(self, view: View, arrays: Arrays) -> Returns:
        """Return the points where the beams met something."""
        return Returns(self.sight(view, arrays).points(), self.sectors_of(self.directions))
