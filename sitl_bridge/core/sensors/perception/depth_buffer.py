"""A depth buffer: which surface of a scene each pixel of a pinhole camera shows, and its depth.

Triangles, boxes, terrain, spheres and cylinders are drawn; voxels are cast pixel by pixel within the
rectangle that they may cover.  For images this is some ten times as fast as casting a ray for every pixel.
A camera within a solid shape does not see that shape.

Triangles are drawn in homogeneous coordinates (Olano and Greer, "Triangle scan conversion using 2D
homogeneous coordinates", Graphics Hardware 1997): no clipping, and depths that are exact at the centres of
pixels.  In the same way, a quadric's 1/depth is the root of a quadratic equation whose coefficients are
polynomials of the pixel's column.

Camera axes: x along the optical axis, y right, z down.  A pixel (row v, column u) looks along
(1, (u - cx)/f, (v - cy)/f).  The buffer holds 1/depth, 0 for nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Floats, Ints, Singles
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.world.bounding_tree import DEEPEST
from sitl_bridge.core.world.grid_rays import surface_of_height_map
from sitl_bridge.core.world.ray_casting import GROUND, NOTHING, ray_shape
from sitl_bridge.core.world.records import (
    BOX,
    CYLINDER,
    HEIGHT_MAP,
    MESH,
    NODE,
    PLANE,
    SHAPE,
    SPHERE,
    TRIANGLE,
    SceneRecord,
    Shape,
)

NEAREST = 1e-4
"""m before the camera at which a surface begins to be seen."""


class Pinhole(NamedTuple):
    """A pinhole camera."""

    width: int  # pixels
    height: int  # pixels
    focal: float  # pixels, focal length
    cx: float  # pixels, column of the optical axis
    cy: float  # pixels, its row


class Image(NamedTuple):
    """Buffer that is drawn into."""

    inverse: Singles  # (height, width) float32, 1/m along the optical axis; 0 for nothing
    # (height, width) int32, index of the shape, GROUND or NOTHING (core/world/ray_casting.py)
    shape: NDArray[np.int32]
    triangle: NDArray[np.int32]  # (height, width) int32, index of the mesh's triangle; -1 for none


@compiled
def _draw_row(
    image: Image,
    v: int,
    first: int,
    last: int,
    zero: float,
    slope: float,
    least: float,
    shape: int,
    triangle: int,
) -> None:
    """Draw the pixels of a row from ``first`` to ``last`` where 1/depth, zero + slope u, is the greatest."""
    row, shapes, triangles = image.inverse[v], image.shape[v], image.triangle[v]
    for u in range(first, last + 1):
        inverse = zero + slope * u
        if inverse > row[u] and inverse >= least:
            row[u] = inverse
            shapes[u] = shape
            triangles[u] = triangle


@compiled
def _cross(a: Floats, b: Floats) -> tuple[float, float, float]:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@compiled
def draw_triangle(p: Floats, least: float, camera: Pinhole, image: Image, shape: int, triangle: int) -> None:
    """Draw one triangle, if any of it is before the camera.

    With the corners P_i in camera axes, a pixel's direction d is inside where d . (P_i x P_j) has the same
    sign for all three edges; their sum over P_0 . (P_1 x P_2) is 1/depth.

    Args:
        p: (3, 3) m, corners in camera axes.
        least: 1/m, inverse depth below which nothing is seen.
        shape, triangle: what is written.
    """
    if max(p[0, 0], p[1, 0], p[2, 0]) <= NEAREST:
        return
    f, cx, cy = camera.focal, camera.cx, camera.cy
    v_first, v_last, u_first, u_last = 0, camera.height - 1, 0, camera.width - 1
    if min(p[0, 0], p[1, 0], p[2, 0]) > NEAREST:
        u0, u1, u2 = p[0, 1] / p[0, 0], p[1, 1] / p[1, 0], p[2, 1] / p[2, 0]
        v0, v1, v2 = p[0, 2] / p[0, 0], p[1, 2] / p[1, 0], p[2, 2] / p[2, 0]
        low_u, high_u = cx + f * min(u0, u1, u2), cx + f * max(u0, u1, u2)
        low_v, high_v = cy + f * min(v0, v1, v2), cy + f * max(v0, v1, v2)
        if high_u < 0.0 or low_u > u_last or high_v < 0.0 or low_v > v_last:
            return
        u_first, u_last = max(math.ceil(low_u - 1e-9), 0), min(math.floor(high_u + 1e-9), u_last)
        v_first, v_last = max(math.ceil(low_v - 1e-9), 0), min(math.floor(high_v + 1e-9), v_last)
        if u_first > u_last or v_first > v_last:
            return
    ax, ay, az = _cross(p[1], p[2])
    volume = p[0, 0] * ax + p[0, 1] * ay + p[0, 2] * az
    if volume == 0.0:
        return
    bx, by, bz = _cross(p[2], p[0])
    ex, ey, ez = _cross(p[0], p[1])
    scale = 1.0 / volume
    ax, ay, az, bx, by, bz = ax * scale, ay * scale, az * scale, bx * scale, by * scale, bz * scale
    ex, ey, ez, step = ex * scale, ey * scale, ez * scale, 1.0 / f
    a_step, b_step, e_step = ay * step, by * step, ey * step
    for v in range(v_first, v_last + 1):
        z = (v - cy) * step
        a0 = ax - a_step * cx + az * z
        b0 = bx - b_step * cx + bz * z
        e0 = ex - e_step * cx + ez * z
        begin, end = float(u_first), float(u_last)
        for k in range(3):
            zero = a0 if k == 0 else (b0 if k == 1 else e0)
            slope = a_step if k == 0 else (b_step if k == 1 else e_step)
            if slope > 0.0:
                begin = max(begin, -zero / slope)
            elif slope < 0.0:
                end = min(end, -zero / slope)
            elif zero < 0.0:
                end = -1.0
        first, last = math.ceil(begin - 1e-9), math.floor(end + 1e-9)
        inverse0, inverse_step = a0 + b0 + e0, a_step + b_step + e_step
        _draw_row(image, v, first, last, inverse0, inverse_step, least, shape, triangle)


@compiled
def _corner(low: Floats, high: Floats, pose: Floats, number: int) -> tuple[float, float, float]:
    """One of the 8 corners of a box in axes that ``pose`` turns into the camera's, in the latter."""
    x = high[0] if number & 1 else low[0]
    y = high[1] if number & 2 else low[1]
    z = high[2] if number & 4 else low[2]
    return (
        pose[0, 0] * x + pose[0, 1] * y + pose[0, 2] * z + pose[0, 3],
        pose[1, 0] * x + pose[1, 1] * y + pose[1, 2] * z + pose[1, 3],
        pose[2, 0] * x + pose[2, 1] * y + pose[2, 2] * z + pose[2, 3],
    )


@compiled
def box_is_outside(low: Floats, high: Floats, pose: Floats, camera: Pinhole, limit: float) -> bool:
    """Whether a box in axes that ``pose`` turns into the camera's lies outside the camera's pyramid."""
    left, right = camera.cx / camera.focal, (camera.width - 1 - camera.cx) / camera.focal
    above, below = camera.cy / camera.focal, (camera.height - 1 - camera.cy) / camera.focal
    behind, far, to_left, to_right, over, under = 0, 0, 0, 0, 0, 0
    for corner in range(8):
        px, py, pz = _corner(low, high, pose, corner)
        behind += px <= 0.0
        far += px > limit
        to_left += py < -left * px
        to_right += py > right * px
        over += pz < -above * px
        under += pz > below * px
    return max(behind, far, to_left, to_right, over, under) == 8


@compiled
def draw_half_space(
    nx: float, ny: float, nz: float, distance: float, index: int, limit: float, camera: Pinhole, image: Image
) -> None:
    """Draw an endless plane, ``distance`` m from the camera against its normal, given in camera axes."""
    if distance <= 0.0:
        return
    least = 1.0 / limit
    step = -1.0 / camera.focal / distance
    for v in range(camera.height):
        zero = -nx / distance + (v - camera.cy) * nz * step - camera.cx * ny * step
        _draw_row(image, v, 0, camera.width - 1, zero, ny * step, least, index, -1)


@compiled
def covered_rectangle(low: Floats, high: Floats, pose: Floats, camera: Pinhole) -> tuple[int, int, int, int]:
    """First and last column and row that a box may cover; all where it reaches behind the camera."""
    least_u, most_u, least_v, most_v = math.inf, -math.inf, math.inf, -math.inf
    for corner in range(8):
        px, py, pz = _corner(low, high, pose, corner)
        if px <= NEAREST:
            return 0, camera.width - 1, 0, camera.height - 1
        u, v = py / px, pz / px
        least_u, most_u = min(least_u, u), max(most_u, u)
        least_v, most_v = min(least_v, v), max(most_v, v)
    f, cx, cy = camera.focal, camera.cx, camera.cy
    return (
        math.ceil(min(max(cx + f * least_u - 1e-6, 0.0), camera.width)),
        math.floor(max(min(cx + f * most_u + 1e-6, camera.width - 1.0), -1.0)),
        math.ceil(min(max(cy + f * least_v - 1e-6, 0.0), camera.height)),
        math.floor(max(min(cy + f * most_v + 1e-6, camera.height - 1.0), -1.0)),
    )


class Curve(NamedTuple):
    """A quadric's front surface along one row of pixels, as functions of p = (u - cx)/f.

    It is seen where q(p) >= 0, at 1/depth = zero + slope p + root sqrt(q(p)).  ``reach`` cuts it: it is seen
    only where the distance from the middle plane, m along an axis, is at most ``reach``.
    """

    square: float  # coefficient of p^2 in q
    half: float  # half of that of p
    constant: float  # q(0)
    zero: float  # 1/m
    slope: float  # 1/m
    root: float  # 1/m
    along: float  # m, place of the camera along the axis
    along_zero: float  # share of a pixel's direction along the axis at p = 0
    along_slope: float  # its increase with p
    reach: float  # m; inf: not cut


@compiled
def _columns(curve: Curve, first: int, last: int, camera: Pinhole) -> tuple[int, int]:
    """First and last column of those given in which a curve may be seen; q opens downwards as a rule."""
    if curve.square >= 0.0:
        return first, last
    left = curve.half * curve.half - curve.square * curve.constant
    if left < 0.0:
        return 1, 0
    middle, half = -curve.half / curve.square, -math.sqrt(left) / curve.square
    begin = camera.cx + camera.focal * (middle - half) - 1e-3
    end = camera.cx + camera.focal * (middle + half) + 1e-3
    return math.ceil(min(max(begin, first), last + 1.0)), math.floor(max(min(end, last), first - 1.0))


@compiled
def draw_curve(
    curve: Curve, v: int, first: int, last: int, camera: Pinhole, image: Image, least: float, shape: int
) -> None:
    """Draw a row of a quadric.

    Args:
        v: row.
        first, last: column.
        least: 1/m, inverse depth below which nothing is seen.
        shape: what is written.
    """
    row, shapes, triangles = image.inverse[v], image.shape[v], image.triangle[v]
    first, last = _columns(curve, first, last, camera)
    for u in range(first, last + 1):
        p = (u - camera.cx) / camera.focal
        q = curve.constant + p * (2.0 * curve.half + curve.square * p)
        if q < 0.0:
            continue
        inverse = curve.zero + curve.slope * p + curve.root * math.sqrt(q)
        if not (inverse > row[u] and inverse >= least):
            continue
        along = curve.along * inverse + curve.along_zero + curve.along_slope * p
        if abs(along) <= curve.reach * inverse:
            row[u] = inverse
            shapes[u] = shape
            triangles[u] = -1


BLOCK = 16
"""Cells of terrain along each side of a block that is drawn or left out as a whole."""


@compiled
def _draw_mesh(
    shape: Shape, index: int, pose: Floats, limit: float, camera: Pinhole, image: Image, p: Floats
) -> None:
    """Draw a mesh: its triangles in those leaves of its tree that the camera may see."""
    nodes = array_at(shape.nodes, shape.node_count, NODE)
    triangles = array_at(shape.triangles, shape.triangle_count, TRIANGLE)
    stack = np.empty(2 * DEEPEST, np.int64)
    stack[0], waiting = 0, 1
    while waiting > 0:
        waiting -= 1
        node = nodes[stack[waiting]]
        if box_is_outside(node.low, node.high, pose, camera, limit):
            continue
        if node.count == 0:
            stack[waiting], stack[waiting + 1] = node.first, node.first + 1
            waiting += 2
            continue
        for k in range(node.first, node.first + node.count):
            t = triangles[k]
            for i in range(3):
                corner = (
                    pose[i, 0] * t.corner[0]
                    + pose[i, 1] * t.corner[1]
                    + pose[i, 2] * t.corner[2]
                    + pose[i, 3]
                )
                p[0, i] = corner
                for j in range(2):
                    e = t.edge[j]
                    p[j + 1, i] = corner + pose[i, 0] * e[0] + pose[i, 1] * e[1] + pose[i, 2] * e[2]
            draw_triangle(p, 1.0 / limit, camera, image, index, k)


@compiled
def _draw_box(
    shape: Shape, index: int, pose: Floats, limit: float, camera: Pinhole, image: Image, p: Floats
) -> None:
    """Draw a box: two triangles for each of its faces that look at the camera."""
    h = shape.half_size
    for axis in range(3):
        j, k = (axis + 1) % 3, (axis + 2) % 3
        # The camera in the box's axes.
        place = -(pose[0, axis] * pose[0, 3] + pose[1, axis] * pose[1, 3] + pose[2, axis] * pose[2, 3])
        if abs(place) <= h[axis]:
            continue
        side = math.copysign(h[axis], place)
        for half in range(2):
            for corner in range(3):
                # Corners (-, -), (+, -), (+, +) and (-, -), (+, +), (-, +).
                a = -h[j] if corner == 0 or (corner == 2 and half == 1) else h[j]
                b = h[k] if corner == 2 or (corner == 1 and half == 1) else -h[k]
                for i in range(3):
                    p[corner, i] = pose[i, axis] * side + pose[i, j] * a + pose[i, k] * b + pose[i, 3]
            draw_triangle(p, 1.0 / limit, camera, image, index, -1)


@compiled
def _draw_sphere(
    shape: Shape, index: int, pose: Floats, world: Floats, limit: float, camera: Pinhole, image: Image
) -> None:
    """Draw a sphere.

    With the centre C in camera axes and a pixel's direction d, 1/depth is the greater root w of
    (C^2 - r^2) w^2 - 2 (d . C) w + d^2 = 0.  Its discriminant is r^2 d^2 - (C x d)^2, which loses no digits
    far away.
    """
    x, y, z, radius = pose[0, 3], pose[1, 3], pose[2, 3], shape.half_size[0]
    square = x * x + y * y + z * z - radius * radius
    if square <= 0.0:
        return  # the camera is in it
    first_u, last_u, first_v, last_v = covered_rectangle(shape.low, shape.high, world, camera)
    root = 1.0 / square
    for v in range(first_v, last_v + 1):
        q = (v - camera.cy) / camera.focal
        curve = Curve(
            radius * radius - x * x - z * z,
            y * (z * q + x),
            radius * radius * (1.0 + q * q) - (y * q) ** 2 - (z - x * q) ** 2 - y * y,
            (x + z * q) * root, y * root, root,
            0.0, 0.0, 0.0, math.inf,
        )  # fmt: skip
        draw_curve(curve, v, first_u, last_u, camera, image, 1.0 / limit, index)


@compiled
def _draw_cylinder(
    shape: Shape, index: int, pose: Floats, world: Floats, limit: float, camera: Pinhole, image: Image
) -> None:
    """Draw a cylinder: its side, between its ends, and the end that looks at the camera.

    In the cylinder's axes the camera is at o and a pixel's direction is d.  On the side, w = 1/depth is the
    greater root of (o_x^2 + o_y^2 - r^2) w^2 + 2 (o_x d_x + o_y d_y) w + d_x^2 + d_y^2 = 0.
    """
    radius, half = shape.half_size[0], shape.half_size[2]
    x = -(pose[0, 0] * pose[0, 3] + pose[1, 0] * pose[1, 3] + pose[2, 0] * pose[2, 3])
    y = -(pose[0, 1] * pose[0, 3] + pose[1, 1] * pose[1, 3] + pose[2, 1] * pose[2, 3])
    z = -(pose[0, 2] * pose[0, 3] + pose[1, 2] * pose[1, 3] + pose[2, 2] * pose[2, 3])
    outside, beyond = x * x + y * y - radius * radius, abs(z) - half
    if outside <= 0.0 and beyond <= 0.0:
        return  # the camera is in it
    first_u, last_u, first_v, last_v = covered_rectangle(shape.low, shape.high, world, camera)
    gx, gy, gz = pose[1, 0], pose[1, 1], pose[1, 2]
    for v in range(first_v, last_v + 1):
        q = (v - camera.cy) / camera.focal
        ex, ey, ez = pose[0, 0] + q * pose[2, 0], pose[0, 1] + q * pose[2, 1], pose[0, 2] + q * pose[2, 2]
        if outside > 0.0:
            root, across, turn = 1.0 / outside, x * ey - y * ex, x * gy - y * gx
            side = Curve(
                radius * radius * (gx * gx + gy * gy) - turn * turn,
                radius * radius * (ex * gx + ey * gy) - across * turn,
                radius * radius * (ex * ex + ey * ey) - across * across,
                -(x * ex + y * ey) * root, -(x * gx + y * gy) * root, root,
                z, ez, gz, half * (1.0 + 1e-9),
            )  # fmt: skip
            draw_curve(side, v, first_u, last_u, camera, image, 1.0 / limit, index)
        if beyond > 0.0:
            # 1/depth of the end's plane is zero + slope p; a + b p is where it is met, times that.
            zero, slope = ez / (math.copysign(half, z) - z), gz / (math.copysign(half, z) - z)
            ax, ay, bx, by = x * zero + ex, y * zero + ey, x * slope + gx, y * slope + gy
            end = Curve(
                radius * radius * slope * slope - bx * bx - by * by,
                radius * radius * zero * slope - ax * bx - ay * by,
                radius * radius * zero * zero - ax * ax - ay * ay,
                zero, slope, 0.0,
                0.0, 0.0, 0.0, math.inf,
            )  # fmt: skip
            draw_curve(end, v, first_u, last_u, camera, image, 1.0 / limit, index)


@compiled
def _draw_cells(
    shape: Shape,
    index: int,
    block: Ints,
    pose: Floats,
    limit: float,
    camera: Pinhole,
    image: Image,
    p: Floats,
) -> None:
    """Draw the cells (first row, last row, first column, last column) of terrain, two triangles each."""
    columns, spacing = shape.columns, shape.spacing
    heights = array_at(shape.cells, shape.rows * columns, np.float32)
    for i in range(block[0], block[1] + 1):
        for j in range(block[2], block[3] + 1):
            for half in range(2):
                for corner in range(3):
                    # Corners (0, 0), (1, 0), (1, 1) and (0, 0), (1, 1), (0, 1).
                    down = i + (1 if corner == 1 or (corner == 2 and half == 0) else 0)
                    right = j + (1 if corner == 2 or (corner == 1 and half == 1) else 0)
                    x, y, z = down * spacing, right * spacing, -heights[down * columns + right]
                    for k in range(3):
                        p[corner, k] = pose[k, 0] * x + pose[k, 1] * y + pose[k, 2] * z + pose[k, 3]
                draw_triangle(p, 1.0 / limit, camera, image, index, -1)


@compiled
def _draw_height_map(
    shape: Shape, index: int, pose: Floats, limit: float, camera: Pinhole, image: Image, p: Floats
) -> None:
    """Draw terrain: the cells in those blocks that the camera may see."""
    rows, columns, spacing = shape.rows, shape.columns, shape.spacing
    heights = array_at(shape.cells, rows * columns, np.float32)
    x = -(pose[0, 0] * pose[0, 3] + pose[1, 0] * pose[1, 3] + pose[2, 0] * pose[2, 3])
    y = -(pose[0, 1] * pose[0, 3] + pose[1, 1] * pose[1, 3] + pose[2, 1] * pose[2, 3])
    z = -(pose[0, 2] * pose[0, 3] + pose[1, 2] * pose[1, 3] + pose[2, 2] * pose[2, 3])
    surface, _, _, _ = surface_of_height_map(shape, x, y)
    if z >= -surface:
        return  # the camera is in it
    wide = max(camera.cx, camera.width - 1 - camera.cx) / camera.focal
    high = max(camera.cy, camera.height - 1 - camera.cy) / camera.focal
    reach = limit * math.sqrt(1.0 + wide * wide + high * high)
    block, least, most = np.empty(4, np.int64), np.empty(3), np.empty(3)
    for i in range(0, rows - 1, BLOCK):
        for j in range(0, columns - 1, BLOCK):
            block[0], block[1] = i, min(i + BLOCK, rows - 1) - 1
            block[2], block[3] = j, min(j + BLOCK, columns - 1) - 1
            least[0], most[0] = i * spacing, (block[1] + 1) * spacing
            least[1], most[1] = j * spacing, (block[3] + 1) * spacing
            away = max(least[0] - x, x - most[0], 0.0) ** 2 + max(least[1] - y, y - most[1], 0.0) ** 2
            if away > reach * reach:
                continue
            bottom, top = math.inf, -math.inf
            for k in range(i, block[1] + 2):
                for m in range(k * columns + j, k * columns + block[3] + 2):
                    bottom, top = min(bottom, heights[m]), max(top, heights[m])
            least[2], most[2] = -top, -bottom
            if not box_is_outside(least, most, pose, camera, limit):
                _draw_cells(shape, index, block, pose, limit, camera, image, p)


@compiled
def _draw_by_rays(
    shape: Shape,
    index: int,
    world: Floats,
    place: Floats,
    turn: Floats,
    limit: float,
    camera: Pinhole,
    image: Image,
) -> None:
    """Draw a shape by a ray for every pixel that it may cover: voxels."""
    direction, local, stack = np.empty(3), np.empty((4, 3)), np.empty(DEEPEST, np.int64)
    first_u, last_u, first_v, last_v = covered_rectangle(shape.low, shape.high, world, camera)
    for v in range(first_v, last_v + 1):
        z = (v - camera.cy) / camera.focal
        for u in range(first_u, last_u + 1):
            y = (u - camera.cx) / camera.focal
            length = math.sqrt(1.0 + y * y + z * z)
            for i in range(3):
                direction[i] = (turn[i, 0] + turn[i, 1] * y + turn[i, 2] * z) / length
            before = image.inverse[v, u]
            reach = length * min(limit, 1.0 / before if before > 0.0 else limit)
            distance, _, _, _ = ray_shape(shape, place, direction, reach, local, stack)
            if 0.0 < distance <= reach:
                image.inverse[v, u] = length / distance
                image.shape[v, u] = index
                image.triangle[v, u] = -1


@compiled
def draw_scene(
    scene: SceneRecord, place: Floats, turn: Floats, limit: float, camera: Pinhole, image: Image
) -> None:
    """Draw a scene as a pinhole camera sees it.

    Args:
        place: (3,) m NED, of the camera.
        turn: (3, 3) camera axes to NED.
        limit: m of depth beyond which nothing is seen.
        image: ``Image``, written.
    """
    image.inverse[:] = 0.0
    image.shape[:] = NOTHING
    image.triangle[:] = -1
    world, pose, p = np.empty((3, 4)), np.empty((3, 4)), np.empty((3, 3))
    for i in range(3):
        world[i, 3] = 0.0
        for j in range(3):
            world[i, j] = turn[j, i]
            world[i, 3] -= turn[j, i] * place[j]
    if scene.groundless == 0:
        # Its normal, up, in camera axes.
        draw_half_space(-turn[2, 0], -turn[2, 1], -turn[2, 2], -place[2], GROUND, limit, camera, image)
    if scene.shape_count == 0:
        return
    shapes = array_at(scene.shapes, scene.shape_count, SHAPE)
    for index in range(scene.shape_count):
        shape = shapes[index]
        # (3, 4) the shape's axes to the camera's: a rotation, and the shape's origin.
        for i in range(3):
            pose[i, 3] = world[i, 3]
            for j in range(3):
                pose[i, 3] += world[i, j] * shape.position[j]
                pose[i, j] = 0.0
                for k in range(3):
                    pose[i, j] += world[i, k] * shape.rotation[k, j]
        if shape.kind == PLANE:
            height = pose[0, 2] * pose[0, 3] + pose[1, 2] * pose[1, 3] + pose[2, 2] * pose[2, 3]
            draw_half_space(-pose[0, 2], -pose[1, 2], -pose[2, 2], height, index, limit, camera, image)
        elif box_is_outside(shape.low, shape.high, world, camera, limit):
            continue
        elif shape.kind == MESH:
            _draw_mesh(shape, index, pose, limit, camera, image, p)
        elif shape.kind == BOX:
            _draw_box(shape, index, pose, limit, camera, image, p)
        elif shape.kind == SPHERE:
            _draw_sphere(shape, index, pose, world, limit, camera, image)
        elif shape.kind == CYLINDER:
            _draw_cylinder(shape, index, pose, world, limit, camera, image)
        elif shape.kind == HEIGHT_MAP:
            _draw_height_map(shape, index, pose, limit, camera, image, p)
        else:
            _draw_by_rays(shape, index, world, place, turn, limit, camera, image)
