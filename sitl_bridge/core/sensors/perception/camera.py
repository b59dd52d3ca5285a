"""Cameras: grey and colour images of the scene, and what all of them have in common."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from sitl_bridge.base.arrays import AnyArray, Bytes, Floats, Records, Singles
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.normal_numbers import normal_numbers
from sitl_bridge.base.quantities import Degrees, NonNegative, Positive
from sitl_bridge.core.sensors.perception.depth_buffer import Pinhole
from sitl_bridge.core.sensors.perception.lens import PINHOLE, BrownConrady, Distortion, Fisheye
from sitl_bridge.core.sensors.perception.scene_caster import Hits
from sitl_bridge.core.sensors.perception.shading import expose, shade
from sitl_bridge.core.sensors.perception.view import Arrays, PerceptionSpecification, Rate, View
from sitl_bridge.core.world.grid_rays import surface_of_height_map
from sitl_bridge.core.world.ray_casting import GROUND, NOTHING, triangle_normal
from sitl_bridge.core.world.records import HEIGHT_MAP, MESH, VOXELS, Shape
from sitl_bridge.core.world.solids import distance_to_solid

MOST_RAYS = 20_000_000
"""Rays of an image."""
SUBFRAMES = 8
"""Instants of an exposure whose light is averaged: blur over more pixels shows as so many copies."""

Pixels = Annotated[float, Field(ge=-1e5, le=1e5)]
Side = Annotated[int, Field(ge=2, le=4096, description="pixels")]
Colored = Annotated[bool, Field(description="red, green and blue; else grey")]
FieldOfView = Annotated[
    float,
    Field(gt=1.0, lt=350.0, description="deg, horizontal, before distortion; where no focal_length is given"),
]


@compiled
def _voxel_normal(size: float, point: Floats, d: Floats) -> tuple[float, float, float]:
    """Normal of the face of a voxel that a point lies on, against the ray."""
    axis, least = 0, math.inf
    for i in range(3):
        cells = point[i] / size
        off = abs(cells - np.rint(cells))
        if off < least and d[i] != 0.0:
            axis, least = i, off
    side = -math.copysign(1.0, d[axis])
    return side if axis == 0 else 0.0, side if axis == 1 else 0.0, side if axis == 2 else 0.0


@compiled
def _normal(shape: Shape, triangle: int, point: Floats, d: Floats) -> tuple[float, float, float]:
    """Normal of a shape at a point of its surface, all in the shape's axes."""
    if shape.kind == MESH:
        return triangle_normal(shape, triangle, d)
    if shape.kind == HEIGHT_MAP:
        _, x, y, z = surface_of_height_map(shape, point[0], point[1])
        return x, y, z
    if shape.kind == VOXELS:
        return _voxel_normal(shape.spacing, point, d)
    _, x, y, z = distance_to_solid(shape, point[0], point[1], point[2])
    return x, y, z


@compiled
def _write_normals(shapes: Records, origin: Floats, directions: Floats, hits: Hits) -> None:
    """Normals (n, 3) NED of what rays from one place meet, into ``hits.normal``."""
    point, d = np.empty(3), np.empty(3)
    for i in range(directions.shape[0]):
        k = hits.shape[i]
        hits.normal[i, 0], hits.normal[i, 1], hits.normal[i, 2] = 0.0, 0.0, 0.0
        if k == GROUND:
            hits.normal[i, 2] = -1.0
        if k in (GROUND, NOTHING):
            continue
        shape = shapes[k]
        r = shape.rotation
        for c in range(3):
            point[c], d[c] = 0.0, 0.0
            for j in range(3):
                place = origin[j] + hits.distance[i] * directions[i, j] - shape.position[j]
                point[c] += r[j, c] * place
                d[c] += r[j, c] * directions[i, j]
        x, y, z = _normal(shape, hits.triangle[i], point, d)
        for c in range(3):
            hits.normal[i, c] = r[c, 0] * x + r[c, 1] * y + r[c, 2] * z


class ImagingSpecification(PerceptionSpecification):
    """A camera that looks along the sensor's x axis; columns run along y, rows along z.

    The defaults are RotorS's VI-sensor: an Aptina MT9V034 (752 x 480, grey, global shutter) behind a lens of
    80 deg.  At half the greatest value, the shot noise is 0.007 of it, RotorS's figure.
    """

    rate: Rate = Field(20.0, description="Hz, images a second")
    width: Side = 752
    height: Side = 480
    color: Colored = False
    field_of_view: FieldOfView = 80.0
    focal_length: tuple[Positive, Positive] | None = Field(None, description="pixels, fx and fy")
    center: tuple[Pixels, Pixels] | None = Field(
        None, description="pixels, cx and cy; absent: the middle of the image"
    )
    distortion: Distortion | None = Field(None, description="of the lens; absent: a pinhole")
    supersampling: int = Field(
        1, ge=1, le=8, description="rays a pixel along each side; more smooth the edges"
    )
    row_time: float = Field(
        0.0, ge=0.0, le=1e-3, description="s between rows of a rolling shutter; 0: a global shutter"
    )
    exposure_time: NonNegative = Field(
        0.0, description="s during which each row collects light, which blurs motion; 0: an instant"
    )
    maximum: Positive = Field(1000.0, description="m, beyond which nothing is shown")
    gain: Positive = Field(
        0.9, description="value of a white surface that faces the sun, share of the greatest"
    )
    full_well: NonNegative = Field(
        10_000.0, description="electrons at the greatest value, which set the shot noise; 0: no noise"
    )
    read_noise: NonNegative = Field(10.0, description="electrons, standard deviation")
    vignetting: float = Field(
        0.0, ge=0.0, le=1.0, description="share of the natural fall of light off the axis, cos^4"
    )
    sun: tuple[Degrees, Degrees] = Field((150.0, 50.0), description="deg, azimuth from north and elevation")
    ambient: float = Field(0.35, ge=0.0, le=1.0, description="share of the light that comes from all around")

    @model_validator(mode="after")
    def _fits(self) -> ImagingSpecification:
        if self.width * self.height * self.supersampling**2 > MOST_RAYS:
            raise ValueError(f"width x height x supersampling^2 must be {MOST_RAYS} at most")
        if (
            not isinstance(self.distortion, Fisheye)
            and self.focal_length is None
            and self.field_of_view > 179
        ):
            raise ValueError("a field_of_view above 179 deg needs distortion: {model: fisheye}")
        if self.exposure > 1.0 / self.rate:
            raise ValueError("an image takes longer than the period: lower row_time, exposure_time or rate")
        columns, rows = np.meshgrid(
            np.linspace(-0.5, self.width - 0.5, 33), np.linspace(-0.5, self.height - 0.5, 33)
        )
        lost = np.isnan(self.looks(columns.ravel(), rows.ravel())[:, 0])
        if lost.any():
            u, v = columns.ravel()[lost][0], rows.ravel()[lost][0]
            raise ValueError(
                f"the distortion folds the image: no direction is shown at pixel ({u:.1f}, {v:.1f});"
                " check its coefficients and the focal length"
            )
        return self

    @property
    def exposure(self) -> float:
        """s from the first row's first light to the last row's end."""
        return self.row_time * (self.height - 1) + self.exposure_time

    @property
    def lens(self) -> BrownConrady | Fisheye:
        """Its distortion."""
        return self.distortion or PINHOLE

    @property
    def intrinsics(self) -> tuple[float, float, float, float]:
        """fx, fy, cx, cy in pixels."""
        half = 0.5 * math.radians(self.field_of_view)
        f = 0.5 * self.width / (half if isinstance(self.lens, Fisheye) else math.tan(half))
        fx, fy = self.focal_length or (f, f)
        cx, cy = self.center or (0.5 * (self.width - 1), 0.5 * (self.height - 1))
        return fx, fy, cx, cy

    def looks(self, u: Floats, v: Floats) -> Floats:
        """Unit vectors (n, 3) in the sensor's axes of the directions shown at columns u and rows v (n,)."""
        fx, fy, cx, cy = self.intrinsics
        return self.lens.rays((u - cx) / fx, (v - cy) / fy)

    @cached_property
    def directions(self) -> Floats:
        """(height * width * s^2, 3) unit vectors in the sensor's axes, row by row, s^2 a pixel."""
        s = self.supersampling
        inside = (np.arange(s) + 0.5) / s - 0.5
        rows, columns, v, u = np.meshgrid(
            np.arange(float(self.height)), np.arange(float(self.width)), inside, inside, indexing="ij"
        )
        return np.ascontiguousarray(self.looks(np.ravel(columns + u), np.ravel(rows + v)))

    @cached_property
    def _weight(self) -> Singles:
        """(height * width,) share of the light that reaches each pixel: the law of cos^4."""
        cosine = self.directions[:: self.supersampling**2, 0]
        return (1.0 - self.vignetting * (1.0 - np.clip(cosine, 0.0, 1.0) ** 4)).astype(np.float32)

    @property
    def _pinhole(self) -> Pinhole | None:
        """The camera as the depth buffer draws it, a pixel a sample; None where it cannot."""
        fx, fy, cx, cy = self.intrinsics
        if self.distortion is not None or self.row_time > 0.0 or fx != fy:
            return None
        s = self.supersampling
        middle = 0.5 * (s - 1)
        return Pinhole(self.width * s, self.height * s, fx * s, cx * s + middle, cy * s + middle)

    def hits(self, view: View, origins: Floats, turned: Floats) -> Hits:
        """Return the hits of the camera's rays: drawn for a pinhole and a global shutter, else ray by ray."""
        camera = self._pinhole
        if camera is None:
            return view.caster.cast(origins, turned, self.maximum)
        _, turn = self.pose(view)
        drawn, s = view.caster.draw(origins[0], turn, self.maximum, camera), self.supersampling

        def by_pixels(array: AnyArray) -> AnyArray:
            """Samples in the order of ``directions``: pixel by pixel, s^2 each."""
            parts = array.reshape(self.height, s, self.width, s)
            return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(-1)

        inverse = by_pixels(drawn.inverse).astype(np.float64)
        distance = np.full(len(inverse), np.inf)
        np.divide(1.0, inverse * self.directions[:, 0], out=distance, where=inverse > 0.0)
        shape = by_pixels(drawn.shape).astype(np.int64)
        far = distance > self.maximum  # along the ray; the image was drawn to that depth
        distance[far], shape[far] = np.inf, NOTHING
        hits = Hits(distance, np.empty((len(inverse), 3)), shape, by_pixels(drawn.triangle))
        _write_normals(view.caster.shapes, origins[0], turned, hits)
        return hits

    def image(self, view: View, shift: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Bytes:
        """One image, (height, width) or (height, width, 3), from ``shift`` m off the sensor in its axes."""
        if self.exposure_time == 0.0:
            radiance = self._radiance(view, shift)
        else:
            ages = (np.arange(SUBFRAMES) + 0.5) * (1e6 * self.exposure_time / SUBFRAMES)
            light = [self._radiance(replace(view, time=view.time - round(age)), shift) for age in ages]
            radiance = np.asarray(np.mean(light, axis=0))
        channels = 3 if self.color else 1
        pixels = np.empty((self.height * self.width, channels), np.uint8)
        gauss = normal_numbers(view.random, pixels.size)
        expose(radiance, self._weight, gauss, (self.gain, self.full_well, self.read_noise), pixels)
        return pixels.reshape((self.height, self.width, 3) if self.color else (self.height, self.width))

    def measure(self, view: View) -> Arrays:
        """``image`` (height, width) or (height, width, 3), uint8."""
        return {"image": self.image(view)}

    def _radiance(self, view: View, shift: tuple[float, float, float]) -> Singles:
        """(height * width * s^2, 3) red, green and blue of each ray, at one instant of the exposure."""
        ages = None
        if self.row_time > 0.0:
            ages = np.asarray(self.row_time * np.arange(self.height - 1.0, -1.0, -1.0))
        origins, turned = self.rays(view, self.directions, ages, shift)
        hits, caster = self.hits(view, origins, turned)[:], view.caster
        radiance = np.empty(turned.shape, np.float32)
        azimuth, elevation = np.radians(self.sun)
        level = math.cos(elevation)
        light = np.array(
            [level * math.cos(azimuth), level * math.sin(azimuth), -math.sin(elevation), self.ambient]
        )
        pixel = 1.0 / self.intrinsics[0] / self.supersampling
        scene = caster.shapes, caster.paints, caster.record
        shade(origins, turned, hits, scene, light, pixel, radiance)
        return radiance


class CameraSpecification(ImagingSpecification):
    """A camera."""

    kind: Literal["camera"]
