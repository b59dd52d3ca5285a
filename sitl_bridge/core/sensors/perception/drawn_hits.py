"""What rays through the pixels of a pinhole camera meet, by its depth buffer instead of one by one."""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.base.arrays import AnyArray, Floats, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.sensors.perception.depth_buffer import Image
from sitl_bridge.core.sensors.perception.scene_caster import Hits
from sitl_bridge.core.world.grid_rays import surface_of_height_map
from sitl_bridge.core.world.ray_casting import GROUND, NOTHING, triangle_normal
from sitl_bridge.core.world.records import HEIGHT_MAP, MESH, VOXELS, Shape
from sitl_bridge.core.world.solids import distance_to_solid


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


def hits_of(
    image: Image,
    samples: int,
    shapes: Records,
    origin: Floats,
    looks: Floats,
    directions: Floats,
    limit: float,
) -> Hits:
    """What the rays of an image meet.

    Args:
        image: drawn with ``samples`` pixels along each side of a pixel.
        samples: as above.
        shapes: (k,) SHAPE that the image counts.
        origin: (3,) m NED.
        looks: (n, 3) unit vectors of the rays in the camera's axes, pixel by pixel, samples^2 each.
        directions: (n, 3) the same in NED.
        limit: m along a ray; the image was drawn to that depth.
    """
    height, width = image.inverse.shape

    def ordered(array: AnyArray) -> AnyArray:
        parts = array.reshape(height // samples, samples, width // samples, samples)
        return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(-1)

    inverse = ordered(image.inverse).astype(np.float64)
    distance = np.full(len(inverse), np.inf)
    np.divide(1.0, inverse * looks[:, 0], out=distance, where=inverse > 0.0)
    shape = ordered(image.shape).astype(np.int64)
    far = distance > limit
    distance[far], shape[far] = np.inf, NOTHING
    hits = Hits(distance, np.empty((len(inverse), 3)), shape, ordered(image.triangle))
    _write_normals(shapes, origin, directions, hits)
    return hits
