"""Where a ray meets a grid: terrain as two triangles a cell, voxels as cubes; cell after cell along the ray.

The walk is that of Amanatides and Woo, "A fast voxel traversal algorithm for ray tracing", Eurographics 1987.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sitl_bridge.kernels.array_at import array_at
from sitl_bridge.kernels.compiled import compiled

Hit = tuple[float, float, float, float]


@compiled
def _clip(o: Any, d: Any, high: Any, limit: float) -> tuple[float, float, int]:
    """Distances at which a ray enters and leaves the box from 0 to ``high``; the axis of entry, or -1."""
    near, far, axis = 0.0, limit, -1
    for i in range(3):
        if d[i] == 0.0:
            if o[i] < 0.0 or o[i] > high[i]:
                return math.inf, 0.0, -1
            continue
        a, b = -o[i] / d[i], (high[i] - o[i]) / d[i]
        if min(a, b) > near:
            near, axis = min(a, b), i
        far = min(far, max(a, b))
    return near, far, axis


@compiled
def _plane_hit(o: Any, d: Any, x0: float, y0: float, h0: float, gx: float, gy: float) -> float:
    """Distance to the plane of height h0 + gx (x - x0) + gy (y - y0), z down; inf where it is parallel."""
    above = -o[2] - h0 - gx * (o[0] - x0) - gy * (o[1] - y0)
    sinking = d[2] + gx * d[0] + gy * d[1]
    return above / sinking if sinking != 0.0 else math.inf


@compiled
def _cell_hit(
    heights: Any, columns: int, spacing: float, i: int, j: int, o: Any, d: Any, begin: float, end: float
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
        distance = _plane_hit(o, d, i * spacing, j * spacing, h00, gx, gy)
        if begin - slack <= distance <= end + slack and distance < best:
            x = o[0] + distance * d[0] - i * spacing
            y = o[1] + distance * d[1] - j * spacing
            if (x - y if half == 0 else y - x) >= -1e-7 * spacing:
                best, gx_best, gy_best = distance, gx, gy
    return best, gx_best, gy_best


@compiled
def ray_height_map(shape: Any, o: Any, d: Any, limit: float) -> Hit:
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
    i = min(max(int((o[0] + near * d[0]) / spacing), 0), rows - 2)
    j = min(max(int((o[1] + near * d[1]) / spacing), 0), columns - 2)
    step_i, step_j = (1 if d[0] > 0.0 else -1), (1 if d[1] > 0.0 else -1)
    next_i = ((i + (step_i > 0)) * spacing - o[0]) / d[0] if d[0] != 0.0 else math.inf
    next_j = ((j + (step_j > 0)) * spacing - o[1]) / d[1] if d[1] != 0.0 else math.inf
    across_i = spacing / abs(d[0]) if d[0] != 0.0 else math.inf
    across_j = spacing / abs(d[1]) if d[1] != 0.0 else math.inf
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
def surface_of_height_map(shape: Any, x: float, y: float) -> Hit:
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
def voxel_is_occupied(cells: Any, columns: int, layers: int, i: int, j: int, k: int) -> bool:
    """Whether a cell of a voxel grid is occupied."""
    bit = (i * columns + j) * layers + k
    return (cells[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1) != np.uint64(0)


@compiled
def ray_voxels(shape: Any, o: Any, d: Any, limit: float) -> Hit:
    """A ray and the occupied cells of a voxel grid: distance and normal; inf where it passes."""
    rows, columns, layers, size = shape.rows, shape.columns, shape.layers, shape.spacing
    none = (math.inf, 0.0, 0.0, 0.0)
    near, far, axis = _clip(o, d, (rows * size, columns * size, layers * size), limit)
    if near > far:
        return none
    cells = array_at(shape.cells, (rows * columns * layers + 63) >> 6, np.uint64)
    at = np.empty(3, np.int64)
    count = (rows, columns, layers)
    step = np.empty(3, np.int64)
    following, across = np.empty(3), np.empty(3)
    for i in range(3):
        at[i] = min(max(math.floor((o[i] + near * d[i]) / size), 0), count[i] - 1)
        step[i] = 1 if d[i] > 0.0 else -1
        following[i] = ((at[i] + (1 if d[i] > 0.0 else 0)) * size - o[i]) / d[i] if d[i] != 0.0 else math.inf
        across[i] = size / abs(d[i]) if d[i] != 0.0 else math.inf
    distance = near
    while distance <= far:
        if voxel_is_occupied(cells, columns, layers, at[0], at[1], at[2]):
            if axis < 0:
                return 0.0, -d[0], -d[1], -d[2]
            side = float(-step[axis])
            return (
                distance,
                side if axis == 0 else 0.0,
                side if axis == 1 else 0.0,
                side if axis == 2 else 0.0,
            )
        axis = 0
        if following[1] < following[axis]:
            axis = 1
        if following[2] < following[axis]:
            axis = 2
        distance = following[axis]
        following[axis] += across[axis]
        at[axis] += step[axis]
        if at[axis] < 0 or at[axis] >= count[axis]:
            break
    return none
