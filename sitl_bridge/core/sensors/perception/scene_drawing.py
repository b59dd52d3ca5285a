"""Images of a scene by the depth buffer: every shape drawn as a pinhole camera sees it.

Triangles, boxes, terrain, spheres and cylinders are drawn; voxels are cast pixel by pixel within the
rectangle that they may cover.  For images this is some ten times as fast as casting a ray for every pixel.
A camera within a solid shape does not see that shape.
"""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.sensors.perception.depth_buffer import (
    Curve,
    Image,
    Pinhole,
    box_is_outside,
    covered_rectangle,
    draw_curve,
    draw_half_space,
    draw_triangle,
)
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
def _pose_of(shape: Shape, world: Floats, pose: Floats) -> None:
    """Turn a shape's axes into the camera's: (3, 4), a rotation and the shape's origin."""
    for i in range(3):
        pose[i, 3] = world[i, 3]
        for j in range(3):
            pose[i, 3] += world[i, j] * shape.position[j]
            pose[i, j] = 0.0
            for k in range(3):
                pose[i, j] += world[i, k] * shape.rotation[k, j]


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
        _pose_of(shape, world, pose)
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
