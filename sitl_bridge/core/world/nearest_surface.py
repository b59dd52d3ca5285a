"""Distances of a point from the surfaces of a scene: signed distances and outward normals.

Distances are negative inside a solid.  Solids have closed forms (solids.py); meshes are searched by their
tree, terrain and voxels cell by cell around the point.  Rays are in ray_casting.py.
"""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.base.kernels.rotations import product, transposed_product
from sitl_bridge.core.world.grid_rays import surface_of_height_map, voxel_is_occupied
from sitl_bridge.core.world.ray_casting import GROUND, NOTHING, SCRATCH
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
from sitl_bridge.core.world.solids import distance_to_solid

_ON_SURFACE = 1e-6
"""m within which the normal is the surface's own: the direction from the nearest point has no digits left."""
_FAR = (math.inf, 0.0, 0.0, 0.0)

Distance = tuple[float, float, float, float]
"""Signed distance in m and outward normal; inf where nothing is within the limit."""


@compiled
def closest_on_triangle(
    x: float, y: float, z: float, bx: float, by: float, bz: float, cx: float, cy: float, cz: float
) -> tuple[float, float, float]:
    """Nearest point of a triangle, everything relative to its first corner.

    Ericson, Real-Time Collision Detection, 2005, section 5.1.5: the Voronoi region that holds the point.
    """
    d1, d2 = bx * x + by * y + bz * z, cx * x + cy * y + cz * z
    if d1 <= 0.0 and d2 <= 0.0:
        return 0.0, 0.0, 0.0
    d3 = d1 - (bx * bx + by * by + bz * bz)
    bc = bx * cx + by * cy + bz * cz
    d4 = d2 - bc
    if d3 >= 0.0 and d4 <= d3:
        return bx, by, bz
    vc = d1 * d4 - d3 * d2
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        v = d1 / (d1 - d3)
        return v * bx, v * by, v * bz
    d5, d6 = d1 - bc, d2 - (cx * cx + cy * cy + cz * cz)
    if d6 >= 0.0 and d5 <= d6:
        return cx, cy, cz
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        w = d2 / (d2 - d6)
        return w * cx, w * cy, w * cz
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        w = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        return bx + w * (cx - bx), by + w * (cy - by), bz + w * (cz - bz)
    scale = 1.0 / (va + vb + vc)
    v, w = vb * scale, vc * scale
    return v * bx + w * cx, v * by + w * cy, v * bz + w * cz


@compiled
def box_distance_square(box: Node | Shape, x: float, y: float, z: float) -> float:
    """Square of the distance of a point from a box with the fields ``low`` and ``high``; 0 inside."""
    dx = max(max(box.low[0] - x, x - box.high[0]), 0.0)
    dy = max(max(box.low[1] - y, y - box.high[1]), 0.0)
    dz = max(max(box.low[2] - z, z - box.high[2]), 0.0)
    return float(dx * dx + dy * dy + dz * dz)


@compiled
def _closest_on_mesh(
    shape: Shape, x: float, y: float, z: float, limit: float, stack: Ints
) -> tuple[float, float, float, float, int]:
    """Square of the distance to a mesh, the nearest point and its triangle; -1: none within ``limit``."""
    nodes = array_at(shape.nodes, shape.node_count, NODE)
    triangles = array_at(shape.triangles, shape.triangle_count, TRIANGLE)
    best, found = limit * limit, -1
    px, py, pz = 0.0, 0.0, 0.0
    stack[0] = 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node = nodes[stack[waiting]]
        if box_distance_square(node, x, y, z) > best:
            continue
        first, count = node.first, node.count
        if count == 0:
            left = box_distance_square(nodes[first], x, y, z)
            right = box_distance_square(nodes[first + 1], x, y, z)
            # The nearer child is taken from the stack first.
            stack[waiting] = first if left > right else first + 1
            stack[waiting + 1] = first + 1 if left > right else first
            waiting += 2
            continue
        for k in range(first, first + count):
            t = triangles[k]
            ax, ay, az = float(t.corner[0]), float(t.corner[1]), float(t.corner[2])
            cx, cy, cz = closest_on_triangle(
                x - ax, y - ay, z - az,
                float(t.edge[0, 0]), float(t.edge[0, 1]), float(t.edge[0, 2]),
                float(t.edge[1, 0]), float(t.edge[1, 1]), float(t.edge[1, 2]),
            )  # fmt: skip
            cx, cy, cz = cx + ax, cy + ay, cz + az
            square = (x - cx) ** 2 + (y - cy) ** 2 + (z - cz) ** 2
            if square < best or (found < 0 and square <= best):
                best, found, px, py, pz = square, k, cx, cy, cz
    return best, px, py, pz, found


@compiled
def _apart_from_edge(x: float, y: float, z: float, ex: float, ey: float, ez: float) -> float:
    """Square of the distance of a point from the line through the origin along e."""
    along = (x * ex + y * ey + z * ez) / (ex * ex + ey * ey + ez * ez)
    return (x - along * ex) ** 2 + (y - along * ey) ** 2 + (z - along * ez) ** 2


@compiled
def _angle(ax: float, ay: float, az: float, bx: float, by: float, bz: float) -> float:
    """Angle in rad between two vectors."""
    cx, cy, cz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    return math.atan2(math.sqrt(cx * cx + cy * cy + cz * cz), ax * bx + ay * by + az * bz)


@compiled
def _weighted_normal(t: Triangle, x: float, y: float, z: float, near: float) -> tuple[float, float, float]:
    """Normal of a triangle, times the angle it takes up at a point of it: at a corner, on an edge, inside."""
    bx, by, bz = float(t.edge[0, 0]), float(t.edge[0, 1]), float(t.edge[0, 2])
    cx, cy, cz = float(t.edge[1, 0]), float(t.edge[1, 1]), float(t.edge[1, 2])
    px, py, pz = x - t.corner[0], y - t.corner[1], z - t.corner[2]
    nx, ny, nz = by * cz - bz * cy, bz * cx - bx * cz, bx * cy - by * cx
    scale = 1.0 / math.sqrt(nx * nx + ny * ny + nz * nz)
    square = near * near
    ex, ey, ez = cx - bx, cy - by, cz - bz
    if px * px + py * py + pz * pz <= square:
        scale *= _angle(bx, by, bz, cx, cy, cz)
    elif (px - bx) ** 2 + (py - by) ** 2 + (pz - bz) ** 2 <= square:
        scale *= _angle(-bx, -by, -bz, ex, ey, ez)
    elif (px - cx) ** 2 + (py - cy) ** 2 + (pz - cz) ** 2 <= square:
        scale *= _angle(cx, cy, cz, ex, ey, ez)
    elif (
        _apart_from_edge(px, py, pz, bx, by, bz) <= square
        or _apart_from_edge(px, py, pz, cx, cy, cz) <= square
        or _apart_from_edge(px - bx, py - by, pz - bz, ex, ey, ez) <= square
    ):
        scale *= math.pi
    else:
        scale *= 2.0 * math.pi
    return nx * scale, ny * scale, nz * scale


@compiled
def _pseudonormal(shape: Shape, x: float, y: float, z: float, stack: Ints) -> tuple[float, float, float]:
    """Angle-weighted normal of a mesh at a point of its surface, a unit vector.

    Its sign tells inside from outside wherever the nearest point lies, also on edges and corners (Baerentzen
    and Aanaes, "Signed distance computation using the angle weighted pseudonormal", IEEE Transactions on
    Visualization and Computer Graphics 11(3), 2005).  The triangles that meet there are those that the point
    touches, so neighbours need not be stored.
    """
    nodes = array_at(shape.nodes, shape.node_count, NODE)
    triangles = array_at(shape.triangles, shape.triangle_count, TRIANGLE)
    # Corners and edges are rounded to single precision.
    near = 1e-6 * (0.1 + abs(x) + abs(y) + abs(z))
    nx, ny, nz = 0.0, 0.0, 0.0
    stack[0] = 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node = nodes[stack[waiting]]
        if box_distance_square(node, x, y, z) > near * near:
            continue
        first, count = node.first, node.count
        if count == 0:
            stack[waiting] = first
            stack[waiting + 1] = first + 1
            waiting += 2
            continue
        for k in range(first, first + count):
            t = triangles[k]
            px, py, pz = x - t.corner[0], y - t.corner[1], z - t.corner[2]
            cx, cy, cz = closest_on_triangle(
                px, py, pz,
                float(t.edge[0, 0]), float(t.edge[0, 1]), float(t.edge[0, 2]),
                float(t.edge[1, 0]), float(t.edge[1, 1]), float(t.edge[1, 2]),
            )  # fmt: skip
            if (px - cx) ** 2 + (py - cy) ** 2 + (pz - cz) ** 2 <= near * near:
                wx, wy, wz = _weighted_normal(t, x, y, z, near)
                nx, ny, nz = nx + wx, ny + wy, nz + wz
    size = math.sqrt(nx * nx + ny * ny + nz * nz)
    if size == 0.0:
        return 0.0, 0.0, -1.0
    return nx / size, ny / size, nz / size


@compiled
def distance_to_mesh(shape: Shape, x: float, y: float, z: float, limit: float, stack: Ints) -> Distance:
    """Signed distance of a point from a closed mesh; from an open one, which has no inside, unsigned.

    The normal of an open mesh points from its surface to the point.
    """
    square, cx, cy, cz, found = _closest_on_mesh(shape, x, y, z, limit, stack)
    if found < 0:
        return _FAR
    distance = math.sqrt(square)
    dx, dy, dz = x - cx, y - cy, z - cz
    if shape.solid == 0 and distance > _ON_SURFACE:
        return distance, dx / distance, dy / distance, dz / distance
    nx, ny, nz = _pseudonormal(shape, cx, cy, cz, stack)
    outside = dx * nx + dy * ny + dz * nz
    if distance <= _ON_SURFACE:
        return (distance if outside >= 0.0 else -distance), nx, ny, nz
    if outside < 0.0:
        distance = -distance
    return distance, dx / distance, dy / distance, dz / distance


@compiled
def distance_to_height_map(shape: Shape, x: float, y: float, z: float, limit: float) -> Distance:
    """Signed distance of a point from terrain: to the nearest triangle, negative under the surface.

    The surface straight above or below bounds the search.  Beyond the map's edge there is nothing below it;
    under the surface, the edge counts as a wall: what comes in from the side is pushed back, not up.
    """
    rows, columns, spacing = shape.rows, shape.columns, shape.spacing
    heights = array_at(shape.cells, rows * columns, np.float32)
    surface, nx, ny, nz = surface_of_height_map(shape, x, y)
    best, sign = limit * limit, 1.0
    px, py, pz = 0.0, 0.0, math.inf
    if surface > -math.inf:
        above = -z - surface
        sign = 1.0 if above >= 0.0 else -1.0
        if above * above <= best or sign < 0.0:
            best = above * above
            px, py, pz = x, y, -surface
    reach = min(math.sqrt(best), limit)
    if x < -reach or y < -reach or x > (rows - 1) * spacing + reach or y > (columns - 1) * spacing + reach:
        return _FAR
    first_i, last_i = max(int((x - reach) / spacing), 0), min(int((x + reach) / spacing), rows - 2)
    first_j, last_j = max(int((y - reach) / spacing), 0), min(int((y + reach) / spacing), columns - 2)
    for i in range(first_i, last_i + 1):
        gap_x = max(max(i * spacing - x, x - (i + 1) * spacing), 0.0)
        for j in range(first_j, last_j + 1):
            gap_y = max(max(j * spacing - y, y - (j + 1) * spacing), 0.0)
            h00, h01 = float(heights[i * columns + j]), float(heights[i * columns + j + 1])
            h10, h11 = float(heights[(i + 1) * columns + j]), float(heights[(i + 1) * columns + j + 1])
            gap_z = max(max(-z - max(h00, h01, h10, h11), min(h00, h01, h10, h11) + z), 0.0)
            if gap_x * gap_x + gap_y * gap_y + gap_z * gap_z >= best:
                continue
            ax, ay, az = i * spacing, j * spacing, -h00
            for half in range(2):
                bx, by, bz = (spacing, 0.0, h00 - h10) if half == 0 else (0.0, spacing, h00 - h01)
                cx, cy, cz = closest_on_triangle(
                    x - ax, y - ay, z - az, bx, by, bz, spacing, spacing, h00 - h11
                )
                cx, cy, cz = cx + ax, cy + ay, cz + az
                square = (x - cx) ** 2 + (y - cy) ** 2 + (z - cz) ** 2
                if square < best:
                    best, px, py, pz = square, cx, cy, cz
    if pz == math.inf:
        return _FAR
    distance = sign * math.sqrt(best)
    if sign < 0.0:
        north, east = (rows - 1) * spacing - x, (columns - 1) * spacing - y
        wall = min(x, north, y, east)
        if wall < -distance:
            nx = -1.0 if wall == x else (1.0 if wall == north else 0.0)
            ny = 0.0 if nx != 0.0 else (-1.0 if wall == y else 1.0)
            return -wall, nx, ny, 0.0
    if abs(distance) <= _ON_SURFACE:
        return distance, nx, ny, nz
    return distance, (x - px) / distance, (y - py) / distance, (z - pz) / distance


@compiled
def distance_to_voxels(shape: Shape, x: float, y: float, z: float, limit: float) -> Distance:
    """Signed distance of a point from the occupied cells: to the nearest occupied cell's cube from an empty
    one, to the nearest empty cell's from an occupied one.  All around the grid is empty."""
    rows, columns, layers, size = shape.rows, shape.columns, shape.layers, shape.spacing
    cells = array_at(shape.cells, (rows * columns * layers + 63) >> 6, np.uint64)
    i0, j0, k0 = math.floor(x / size), math.floor(y / size), math.floor(z / size)
    inside = False
    if 0 <= i0 < rows and 0 <= j0 < columns and 0 <= k0 < layers:
        inside = voxel_is_occupied(cells, columns, layers, i0, j0, k0)
    first = -1 if inside else 0  # of an axis: empty cells are looked for around the grid, too
    beyond = 1 if inside else 0
    best, steps = limit * limit, 4
    found = False
    px, py, pz, ni, nj, nk = 0.0, 0.0, 0.0, 0, 0, 0
    low_j, high_j = max(math.floor((y - limit) / size), first), math.floor((y + limit) / size)
    low_k, high_k = max(math.floor((z - limit) / size), first), math.floor((z + limit) / size)
    high_j, high_k = min(high_j, columns - 1 + beyond), min(high_k, layers - 1 + beyond)
    low_i = max(math.floor((x - limit) / size), first)
    for i in range(low_i, min(math.floor((x + limit) / size), rows - 1 + beyond) + 1):
        cx = min(max(x, i * size), (i + 1) * size)
        if (x - cx) ** 2 > best:
            continue
        for j in range(low_j, high_j + 1):
            cy = min(max(y, j * size), (j + 1) * size)
            part = (x - cx) ** 2 + (y - cy) ** 2
            if part > best:
                continue
            for k in range(low_k, high_k + 1):
                cz = min(max(z, k * size), (k + 1) * size)
                square = part + (z - cz) ** 2
                if square > best:
                    continue
                occupied = False
                if 0 <= i < rows and 0 <= j < columns and 0 <= k < layers:
                    occupied = voxel_is_occupied(cells, columns, layers, i, j, k)
                if occupied == inside:
                    continue
                # Of equally near cells, a face decides before an edge and an edge before a corner.
                apart = (i != i0) + (j != j0) + (k != k0)
                if square < best or not found or apart < steps:
                    found, best, steps, px, py, pz = True, square, apart, cx, cy, cz
                    ni, nj, nk = i - i0, j - j0, k - k0
    sign = -1.0 if inside else 1.0
    if not found:
        return (-limit, 0.0, 0.0, -1.0) if inside else _FAR
    distance = sign * math.sqrt(best)
    if abs(distance) > _ON_SURFACE:
        return distance, (x - px) / distance, (y - py) / distance, (z - pz) / distance
    scale = -sign / math.sqrt(float(ni * ni + nj * nj + nk * nk))
    return distance, ni * scale, nj * scale, nk * scale


@on_demand
def distance_to_shape(shape: Shape, x: float, y: float, z: float, limit: float, stack: Ints) -> Distance:
    """Signed distance of a point from a shape and the outward normal there, NED.

    Args:
        x, y, z: m north, east, down.
        limit: m; of meshes, terrain and voxels nothing further away is looked for.
        stack: (SCRATCH,) int64 scratch.

    Returns:
        inf and zeros where nothing is within the limit.  An open mesh has no inside: the distance is not
        negative, and the normal points to the point.
    """
    r = shape.rotation
    x, y, z = x - shape.position[0], y - shape.position[1], z - shape.position[2]
    u, v, w = transposed_product(r, x, y, z)
    if shape.kind == MESH:
        distance, a, b, c = distance_to_mesh(shape, u, v, w, limit, stack)
    elif shape.kind == HEIGHT_MAP:
        distance, a, b, c = distance_to_height_map(shape, u, v, w, limit)
    elif shape.kind == VOXELS:
        distance, a, b, c = distance_to_voxels(shape, u, v, w, limit)
    else:
        distance, a, b, c = distance_to_solid(shape, u, v, w)
    a, b, c = product(r, a, b, c)
    return distance, a, b, c


@compiled
def shapes_within(
    scene: SceneRecord, x: float, y: float, z: float, limit: float, found: Ints, stack: Ints
) -> int:
    """Find the shapes that stand still and whose boxes are within a distance of a point.

    Args:
        x, y, z: m north, east, down.
        limit: m.
        found: (k,) int64, written: their indices.
        stack: (SCRATCH,) int64 scratch.

    Returns:
        how many there are; where that exceeds k, only k are written.
    """
    count = 0
    shapes = array_at(scene.shapes, scene.shape_count, SHAPE)
    for k in range(scene.bounded_count, scene.moving_first):
        if count < found.shape[0]:
            found[count] = k
        count += 1
    if scene.node_count == 0:
        return count
    nodes = array_at(scene.nodes, scene.node_count, NODE)
    square = limit * limit
    stack[0] = 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node = nodes[stack[waiting]]
        if box_distance_square(node, x, y, z) > square:
            continue
        first, items = node.first, node.count
        if items == 0:
            stack[waiting] = first
            stack[waiting + 1] = first + 1
            waiting += 2
            continue
        for k in range(first, first + items):
            if box_distance_square(shapes[k], x, y, z) <= square:
                if count < found.shape[0]:
                    found[count] = k
                count += 1
    return count


@compiled
def _nearest(scene: SceneRecord, points: Floats, limit: float) -> tuple[Floats, Floats, Ints]:
    count = points.shape[0]
    distance, normal, shape = np.full(count, math.inf), np.zeros((count, 3)), np.full(count, NOTHING)
    stack, found = np.empty(SCRATCH, np.int64), np.empty(scene.shape_count, np.int64)
    shapes = array_at(scene.shapes, scene.shape_count, SHAPE)
    for i in range(points.shape[0]):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        if scene.groundless == 0 and -z <= limit:
            distance[i], shape[i], normal[i, 2] = -z, GROUND, -1.0
        count = shapes_within(scene, x, y, z, limit, found, stack)
        for k in range(scene.moving_first, scene.shape_count):
            found[count] = k
            count += 1
        for k in range(count):
            apart, n, e, d = distance_to_shape(shapes[found[k]], x, y, z, limit, stack)
            if apart < distance[i] and apart <= limit:
                distance[i], shape[i] = apart, found[k]
                normal[i, 0], normal[i, 1], normal[i, 2] = n, e, d
    return distance, normal, shape


def nearest(scene: Packed, points: Floats, limit: float) -> tuple[Floats, Floats, Ints]:
    """Signed distances (n,) in m, outward normals (n, 3) NED and shapes (n,) of the surfaces nearest to n
    points (n, 3) in m NED, those with the least signed distance; inf, zeros and NOTHING where none is within
    ``limit`` m.

    Args:
        scene: () SCENE.
        points: (n, 3) m NED.
        limit: m.

    Returns:
        shapes as indices, or GROUND or NOTHING.
    """
    return _nearest(scene, np.ascontiguousarray(points, float), limit)
