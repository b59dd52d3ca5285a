"""Where a ray meets a triangle mesh, by its bounding tree, nearest child first."""

from __future__ import annotations

import math

from sitl_bridge.base.arrays import Floats, Ints, Records
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.world.records import NODE, TRIANGLE, Node, Shape, Triangle


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
