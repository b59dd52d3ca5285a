"""Where rays meet a scene: the ground, every shape, the nearest of them."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.rotations import product
from sitl_bridge.core.world.bounding_tree import DEEPEST
from sitl_bridge.core.world.grid_rays import ray_height_map, ray_voxels
from sitl_bridge.core.world.mesh_rays import descend, enters_node, next_waiting, ray_mesh
from sitl_bridge.core.world.records import (
    HEIGHT_MAP,
    MESH,
    NODE,
    SHAPE,
    TRIANGLE,
    VOXELS,
    SceneRecord,
    Shape,
)
from sitl_bridge.core.world.solids import ray_solid

GROUND = -1
"""In place of a shape's index: the plane down = 0."""
NOTHING = -2
"""In place of a shape's index: the ray meets nothing."""
SCRATCH = 2 * DEEPEST
"""Length of the scratch that a cast takes."""

Meeting = tuple[float, float, float, float, int]
"""Distance in m, normal NED, index of the shape."""


@compiled
def triangle_normal(shape: Shape, k: int, d: Floats) -> tuple[float, float, float]:
    """Normal of a triangle in its mesh's axes: outward for a solid mesh, else towards the ray's origin."""
    t = array_at(shape.triangles, shape.triangle_count, TRIANGLE)[k]
    a, b = t.edge[0], t.edge[1]
    ax, ay, az = np.float64(a[0]), np.float64(a[1]), np.float64(a[2])
    x, y, z = ay * b[2] - az * b[1], az * b[0] - ax * b[2], ax * b[1] - ay * b[0]
    scale = 1.0 / math.sqrt(x * x + y * y + z * z)
    if shape.solid == 0 and x * d[0] + y * d[1] + z * d[2] > 0.0:
        scale = -scale
    return x * scale, y * scale, z * scale


@on_demand
def ray_shape(
    shape: Shape, origin: Floats, direction: Floats, limit: float, local: Annotated[Floats, 2], stack: Ints
) -> tuple[float, float, float, float]:
    """A ray and one shape: distance and normal NED; inf where it passes or only beyond ``limit``.

    Args:
        origin: (3,) m NED.
        direction: (3,) unit vector NED.
        limit: m.
        local: (3, 3) scratch.
        stack: (DEEPEST,) int64 scratch.
    """
    r = shape.rotation
    o, d, inverse = local[0], local[1], local[2]
    for i in range(3):
        o[i], d[i] = 0.0, 0.0
        for j in range(3):
            o[i] += r[j, i] * (origin[j] - shape.position[j])
            d[i] += r[j, i] * direction[j]
    x, y, z = 0.0, 0.0, 0.0
    if shape.kind == MESH:
        for i in range(3):
            inverse[i] = 1.0 / d[i] if d[i] != 0.0 else math.copysign(1e300, d[i])
        distance, triangle = ray_mesh(shape, o, d, inverse, limit, stack)
        if triangle >= 0:
            x, y, z = triangle_normal(shape, triangle, d)
    elif shape.kind == HEIGHT_MAP:
        distance, x, y, z = ray_height_map(shape, o, d, limit)
    elif shape.kind == VOXELS:
        distance, x, y, z = ray_voxels(shape, o, d, limit)
    else:
        distance, x, y, z = ray_solid(shape, o, d)
    x, y, z = product(r, x, y, z)
    return distance, x, y, z


@compiled
def _distance_to_ground(scene: SceneRecord, height: float, sinking: float, limit: float) -> float:
    """m along a ray to the plane down = 0, where the scene has one; inf for none.

    Args:
        height: m above the plane, where the ray begins.
        sinking: m down a metre along the ray.
        limit: m.
    """
    if scene.groundless != 0:
        return math.inf
    if height <= 0.0:
        return 0.0
    return height / sinking if sinking > 0.0 and height <= limit * sinking else math.inf


@compiled
def _ground_or_nothing(distance: float) -> Meeting:
    if distance < math.inf:
        return distance, 0.0, 0.0, -1.0, GROUND
    return math.inf, 0.0, 0.0, 0.0, NOTHING


@on_demand
def cast_ray(
    scene: SceneRecord,
    origin: Floats,
    direction: Floats,
    limit: float,
    local: Annotated[Floats, 2],
    stack: Ints,
) -> Meeting:
    """The nearest thing along a ray.

    Args:
        origin: (3,) m NED.
        direction: (3,) unit vector NED.
        limit: m; what is further away is not seen.
        local: (4, 3) scratch.
        stack: (SCRATCH,) int64 scratch.

    Returns:
        Distance in m, normal (3 numbers, NED, out of the surface), and the index of the shape, GROUND or
        NOTHING; inf and zeros for nothing.
    """
    best, nn, ne, nd, found = _ground_or_nothing(_distance_to_ground(scene, -origin[2], direction[2], limit))
    if scene.shape_count == 0:
        return best, nn, ne, nd, found
    shapes = array_at(scene.shapes, scene.shape_count, SHAPE)
    reach = min(best, limit)
    for k in range(scene.bounded_count, scene.shape_count):
        distance, x, y, z = ray_shape(shapes[k], origin, direction, reach, local, stack)
        if distance < best and distance <= limit:
            best, nn, ne, nd, found, reach = distance, x, y, z, k, distance
    if scene.node_count == 0:
        return best, nn, ne, nd, found
    nodes = array_at(scene.nodes, scene.node_count, NODE)
    inverse, upper = local[3], stack[DEEPEST:]
    for i in range(3):
        inverse[i] = 1.0 / direction[i] if direction[i] != 0.0 else math.copysign(1e300, direction[i])
    at, waiting = 0, 0
    if enters_node(nodes[0], origin, inverse, reach) == math.inf:
        at = -1
    while at >= 0:
        first, count = nodes[at].first, nodes[at].count
        if count == 0:
            at, waiting = descend(nodes, first, origin, inverse, reach, upper, waiting)
            continue
        for k in range(first, first + count):
            # A mesh, whose triangles are rounded beyond its box, has a tree of its own.
            if shapes[k].kind != MESH and enters_node(shapes[k], origin, inverse, reach) == math.inf:
                continue
            distance, x, y, z = ray_shape(shapes[k], origin, direction, reach, local, stack)
            if distance < best and distance <= limit:
                best, nn, ne, nd, found, reach = distance, x, y, z, k, distance
        at, waiting = next_waiting(upper, waiting)
    return best, nn, ne, nd, found


@compiled
def cast_rays(
    scene: SceneRecord,
    origins: Floats,
    directions: Floats,
    limit: float,
    distance: Floats,
    normal: Floats,
    shape: Ints,
) -> None:
    """The nearest thing along each of n rays.

    Args:
        origins: (n, 3) m NED, or (1, 3) for all.
        directions: (n, 3) unit vectors NED.
        limit: m.
        distance: (n,) m, written; inf for nothing.
        normal: (n, 3) NED, written.
        shape: (n,) int64, written: index of the shape, GROUND or NOTHING.
    """
    local, stack = np.empty((4, 3)), np.empty(SCRATCH, np.int64)
    one = origins.shape[0] == 1
    for k in range(directions.shape[0]):
        i = 0 if one else k
        if scene.shape_count == 0:
            found = _ground_or_nothing(_distance_to_ground(scene, -origins[i, 2], directions[k, 2], limit))
        else:
            found = cast_ray(scene, origins[i], directions[k], limit, local, stack)
        distance[k], normal[k, 0], normal[k, 1], normal[k, 2], shape[k] = found
