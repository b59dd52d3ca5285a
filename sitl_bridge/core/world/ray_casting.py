"""Intersections of rays with a scene: the ground, every shape, the nearest of them."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints, Records
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.base.kernels.rotations import product
from sitl_bridge.core.world.bounding_tree import DEEPEST
from sitl_bridge.core.world.grid_rays import ray_height_map, ray_voxels
from sitl_bridge.core.world.records import (
    HEIGHT_MAP,
    MESH,
    NODE,
    SHAPE,
    TRIANGLE,
    VOXELS,
    Node,
    SceneRecord,
    Shape,
    Triangle,
)
from sitl_bridge.core.world.solids import ray_solid

GROUND = -1
"""In place of a shape's index: the plane down = 0."""
NOTHING = -2
"""In place of a shape's index: the ray meets nothing."""
SCRATCH = 2 * DEEPEST
"""Length of the stack that a cast takes."""


class Rays(Record):
    """Working memory of a cast, undefined between casts."""

    origin: Annotated[Floats, 3]
    direction: Annotated[Floats, 3]
    local: Annotated[Floats, 4, 3]
    stack: Annotated[Ints, SCRATCH]


RAYS = Rays.dtype

Meeting = tuple[float, float, float, float, int]
"""Distance in m, normal NED, index of the shape."""


@compiled
def ray_triangle(t: Triangle, o: Floats, d: Floats) -> float:
    """Distance along a ray to a triangle, seen from either side; inf: it passes.

    Moeller and Trumbore, "Fast, minimum storage ray/triangle intersection", Journal of Graphics Tools 2(1),
    1997.  The edges belong to the triangle with a share of 1e-9, so that no ray slips between two neighbours.
    """
    e1x, e1y, e1z = t.edge[0, 0], t.edge[0, 1], t.edge[0, 2]
    e2x, e2y, e2z = t.edge[1, 0], t.edge[1, 1], t.edge[1, 2]
    px, py, pz = d[1] * e2z - d[2] * e2y, d[2] * e2x - d[0] * e2z, d[0] * e2y - d[1] * e2x
    determinant = e1x * px + e1y * py + e1z * pz
    if determinant == 0.0:
        return math.inf
    inverse = 1.0 / determinant
    sx, sy, sz = o[0] - t.corner[0], o[1] - t.corner[1], o[2] - t.corner[2]
    u = (sx * px + sy * py + sz * pz) * inverse
    if u < -1e-9 or u > 1.0 + 1e-9:
        return math.inf
    qx, qy, qz = sy * e1z - sz * e1y, sz * e1x - sx * e1z, sx * e1y - sy * e1x
    v = (d[0] * qx + d[1] * qy + d[2] * qz) * inverse
    if v < -1e-9 or u + v > 1.0 + 1e-9:
        return math.inf
    distance = (e2x * qx + e2y * qy + e2z * qz) * inverse
    return distance if distance >= 0.0 else math.inf


@compiled
def enters_node(node: Node, o: Floats, inverse: Floats, limit: float) -> float:
    """Distance at which a ray enters a node's box; inf where it passes, or only beyond ``limit``.

    The comparisons are written so that they compile to minima and maxima without a branch.
    """
    a, b = (node.low[0] - o[0]) * inverse[0], (node.high[0] - o[0]) * inverse[0]
    near, far = (a if a < b else b), (b if a < b else a)
    a, b = (node.low[1] - o[1]) * inverse[1], (node.high[1] - o[1]) * inverse[1]
    least, most = (a if a < b else b), (b if a < b else a)
    near, far = (least if least > near else near), (most if most < far else far)
    a, b = (node.low[2] - o[2]) * inverse[2], (node.high[2] - o[2]) * inverse[2]
    least, most = (a if a < b else b), (b if a < b else a)
    near, far = (least if least > near else near), (most if most < far else far)
    near, far = (near if near > 0.0 else 0.0), (far if far < limit else limit)
    return near if near <= far else math.inf


@compiled
def next_waiting(stack: Ints, waiting: int) -> tuple[int, int]:
    """The node that was put on a stack last, -1 for none, and how many are left there."""
    return (stack[waiting - 1], waiting - 1) if waiting > 0 else (-1, 0)


@compiled
def descend(
    nodes: Records, first: int, o: Floats, inverse: Floats, limit: float, stack: Ints, waiting: int
) -> tuple[int, int]:
    """The next node of a ray's way through a tree, nearest first, and how many wait on the stack.

    Of the children ``first`` and ``first + 1``, that is the one that the ray enters first; the other one is
    put on the stack if the ray enters it.  Where it enters neither, it is the last one on the stack.
    """
    left = enters_node(nodes[first], o, inverse, limit)
    right = enters_node(nodes[first + 1], o, inverse, limit)
    if min(left, right) == math.inf:
        return next_waiting(stack, waiting)
    nearer = first if left <= right else first + 1
    if max(left, right) < math.inf:
        stack[waiting] = 2 * first + 1 - nearer
        waiting += 1
    return nearer, waiting


@compiled
def ray_mesh(
    shape: Shape, o: Floats, d: Floats, inverse: Floats, limit: float, stack: Ints
) -> tuple[float, int]:
    """Distance along a ray to a mesh, and which triangle it is; inf and -1: none within ``limit``.

    Args:
        shape: SHAPE of kind MESH.
        o: (3,) m, where the ray begins, in the mesh's axes.
        d: (3,) its direction, a unit vector.
        inverse: (3,) 1/d.
        limit: m.
        stack: (DEEPEST,) int64 scratch.
    """
    nodes = array_at(shape.nodes, shape.node_count, NODE)
    triangles = array_at(shape.triangles, shape.triangle_count, TRIANGLE)
    best, found = limit, -1
    if enters_node(nodes[0], o, inverse, best) == math.inf:
        return math.inf, -1
    at, waiting = 0, 0
    while at >= 0:
        first, count = nodes[at].first, nodes[at].count
        if count == 0:
            at, waiting = descend(nodes, first, o, inverse, best, stack, waiting)
            continue
        for k in range(first, first + count):
            distance = ray_triangle(triangles[k], o, d)
            if distance < best:
                best, found = distance, k
        at, waiting = next_waiting(stack, waiting)
    return (best, found) if found >= 0 else (math.inf, -1)


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
