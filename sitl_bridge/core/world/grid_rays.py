"""Rays against a grid: terrain as two triangles a cell, voxels as cubes; cell after cell along the ray.

The walk is that of Amanatides and Woo, "A fast voxel traversal algorithm for ray tracing", Eurographics 1987.
"""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.base.arrays import Floats, Singles, Words
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.world.records import Shape

Hit = tuple[float, float, float, float]


@compiled
def _clip(o: Floats, d: Floats, x: float, y: float, z: float, limit: float) -> tuple[float, float, int]:
    """Distances at which a ray enters and leaves the box from 0 to (x, y, z); the axis of entry, or -1."""
    near, far, axis = 0.0, limit, -1
    for i in range(3):
        high = x if i == 0 else (y if i == 1 else z)
        if d[i] == 0.0:
            if o[i] < 0.0 or o[i] > high:
                return math.inf, 0.0, -1
            continue
        a, b = -o[i] / d[i], (high - o[i]) / d[i]
        if min(a, b) > near:
            near, axis = min(a, b), i
        far = min(far, max(a, b))
    return near, far, axis


@compiled
def _cell_hit(
    heights: Singles,
    columns: int,
    spacing: float,
    i: int,
    j: int,
    o: Floats,
    d: Floats,
    begin: float,
    end: float,
) -> tuple[float, float, float]:
    """Distance to the two triangles of a cell between two distances, and the slopes there; inf: none."""
    h00, h10 = heights[i * columns + j], heights[(i + 1) * columns + j]
    h01, h11 = heights[i * columns + j + 1], heights[(i + 1) * columns + j + 1]
    best, gx_best, gy_best = math.inf, 0.0, 0.0
    if -max(o[2] + begin * d[2], o[2] + end * d[2]) > max(h00, h10, h01, h11):
        return best, gx_best, gy_best
    slack = 1e-9 * (1.0 + end)
    for half in range(2):
        gx = ((h10 - h00) if half == 0 else (h11 - h01)) / spacing
        gy = ((h11 - h10) if half == 0 else (h01 - h00)) / spacing
        # To the plane of height h00 + gx x + gy y, from the cell's corner, z down.
        above = -o[2] - h00 - gx * (o[0] - i * spacing) - gy * (o[1] - j * spacing)
        sinking = d[2] + gx * d[0] + gy * d[1]
        distance = above / sinking if sinking != 0.0 else math.inf
        if begin - slack <= distance <= end + slack and distance < best:
            x = o[0] + distance * d[0] - i * spacing
            y = o[1] + distance * d[1] - j * spacing
            if (x - y if half == 0 else y - x) >= -1e-7 * spacing:
                best, gx_best, gy_best = distance, gx, gy
    return best, gx_best, gy_best


@compiled
def ray_height_map(shape: Shape, o: Floats, d: Floats, limit: float) -> Hit:
    """A ray and terrain: distance and normal; inf where it passes.

    Cell (i, j) is cut by the diagonal from its corner (i, j) to (i + 1, j + 1).  From above only the surface
    counts; a ray that begins under the terrain meets it at once.  Axes: the shape's, z down.
    """
    rows, columns, spacing = shape.rows, shape.columns, shape.spacing
    heights = array_at(shape.cells, rows * columns, np.float32)
    none = (math.inf, 0.0, 0.0, 0.0)
    near, far = 0.0, limit
    for i in range(2):
        edge = ((rows if i == 0 else columns) - 1) * spacing
        if d[i] == 0.0:
            if o[i] < 0.0 or o[i] > edge:
                return none
            continue
        a, b = -o[i] / d[i], (edge - o[i]) / d[i]
        near, far = max(near, min(a, b)), min(far, max(a, b))
    if near > far:
        return none
    i, step_i, next_i, across_i = _first_cell(o[0], d[0], near, spacing, rows - 1)
    j, step_j, next_j, across_j = _first_cell(o[1], d[1], near, spacing, columns - 1)
    if near == 0.0:
        surface, nx, ny, nz = surface_of_height_map(shape, o[0], o[1])
        if o[2] >= -surface:
            return 0.0, nx, ny, nz
    begin = near
    while begin <= far:
        end = min(next_i, next_j, far)
        distance, gx, gy = _cell_hit(heights, columns, spacing, i, j, o, d, begin, end)
        if distance < math.inf:
            scale = 1.0 / math.sqrt(1.0 + gx * gx + gy * gy)
            return max(distance, 0.0), -gx * scale, -gy * scale, -scale
        begin = end
        if next_i <= next_j:
            i, next_i = i + step_i, next_i + across_i
        else:
            j, next_j = j + step_j, next_j + across_j
        if i < 0 or j < 0 or i > rows - 2 or j > columns - 2:
            break
    return none


@compiled
def surface_of_height_map(shape: Shape, x: float, y: float) -> Hit:
    """Height in m above the shape's origin, and the normal, at a place; -inf beyond the map's edge."""
    rows, columns, spacing = shape.rows, shape.columns, shape.spacing
    edge_x, edge_y = (rows - 1) * spacing, (columns - 1) * spacing
    if not (0.0 <= x <= edge_x and 0.0 <= y <= edge_y):
        return -math.inf, 0.0, 0.0, -1.0
    heights = array_at(shape.cells, rows * columns, np.float32)
    i, j = min(int(x / spacing), rows - 2), min(int(y / spacing), columns - 2)
    x, y = x - i * spacing, y - j * spacing
    h00, h11 = heights[i * columns + j], heights[(i + 1) * columns + j + 1]
    if x >= y:
        h10 = heights[(i + 1) * columns + j]
        gx, gy = (h10 - h00) / spacing, (h11 - h10) / spacing
    else:
        h01 = heights[i * columns + j + 1]
        gx, gy = (h11 - h01) / spacing, (h01 - h00) / spacing
    scale = 1.0 / math.sqrt(1.0 + gx * gx + gy * gy)
    return h00 + gx * x + gy * y, -gx * scale, -gy * scale, -scale


@compiled
def voxel_is_occupied(cells: Words, columns: int, layers: int, i: int, j: int, k: int) -> bool:
    """Whether a cell of a voxel grid is occupied."""
    bit = (i * columns + j) * layers + k
    return (cells[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1) != np.uint64(0)


@compiled
def _first_cell(o: float, d: float, near: float, size: float, count: int) -> tuple[int, int, float, float]:
    """Along one axis: cell of entry, step (-1 or 1), distance to the next cell, and from cell to cell."""
    at = min(max(math.floor((o + near * d) / size), 0), count - 1)
    if d > 0.0:
        return at, 1, ((at + 1) * size - o) / d, size / d
    if d < 0.0:
        return at, -1, (at * size - o) / d, -size / d
    return at, 1, math.inf, math.inf


@compiled
def ray_voxels(shape: Shape, o: Floats, d: Floats, limit: float) -> Hit:
    """A ray and the occupied cells of a voxel grid: distance and normal; inf where it passes."""
    rows, columns, layers, size = shape.rows, shape.columns, shape.layers, shape.spacing
    near, far, axis = _clip(o, d, rows * size, columns * size, layers * size, limit)
    if near > far:
        return math.inf, 0.0, 0.0, 0.0
    cells = array_at(shape.cells, (rows * columns * layers + 63) >> 6, np.uint64)
    i, step_i, next_i, across_i = _first_cell(o[0], d[0], near, size, rows)
    j, step_j, next_j, across_j = _first_cell(o[1], d[1], near, size, columns)
    k, step_k, next_k, across_k = _first_cell(o[2], d[2], near, size, layers)
    distance = near
    while distance <= far and 0 <= i < rows and 0 <= j < columns and 0 <= k < layers:
        if voxel_is_occupied(cells, columns, layers, i, j, k):
            if axis == 0:
                return distance, -float(step_i), 0.0, 0.0
            if axis == 1:
                return distance, 0.0, -float(step_j), 0.0
            if axis == 2:
                return distance, 0.0, 0.0, -float(step_k)
            return 0.0, -d[0], -d[1], -d[2]
        if next_i <= next_j and next_i <= next_k:
            axis, distance, next_i, i = 0, next_i, next_i + across_i, i + step_i
        elif next_j <= next_k:
            axis, distance, next_j, j = 1, next_j, next_j + across_j, j + step_j
        else:
            axis, distance, next_k, k = 2, next_k, next_k + across_k, k + step_k
    return math.inf, 0.0, 0.0, 0.0
