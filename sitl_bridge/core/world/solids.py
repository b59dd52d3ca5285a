"""Closed forms of boxes, spheres, cylinders and planes: where a ray meets them, how far a point is away.

Everything is in the shape's own axes.  A ray that begins inside a solid meets it at once, at distance 0.
Normals point out of the solid.
"""

from __future__ import annotations

import math

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.world.records import BOX, CYLINDER, PLANE, SPHERE, Shape

NONE = math.inf
Hit = tuple[float, float, float, float]
"""Distance and normal: m along a ray, or m from a surface, negative inside."""


@compiled
def ray_box(hx: float, hy: float, hz: float, o: Floats, d: Floats) -> Hit:
    """A ray and a box of half lengths ``h`` about the origin, by slabs (Kay and Kajiya, SIGGRAPH 1986)."""
    near, far, axis = 0.0, math.inf, -1
    for i in range(3):
        half = hx if i == 0 else (hy if i == 1 else hz)
        if d[i] == 0.0:
            if abs(o[i]) > half:
                return NONE, 0.0, 0.0, 0.0
            continue
        enter = -(o[i] + math.copysign(half, d[i])) / d[i]
        leave = (math.copysign(half, d[i]) - o[i]) / d[i]
        if enter > near:
            near, axis = enter, i
        far = min(far, leave)
    if near > far:
        return NONE, 0.0, 0.0, 0.0
    if axis < 0:
        return 0.0, -d[0], -d[1], -d[2]
    side = -math.copysign(1.0, d[axis])
    return near, side if axis == 0 else 0.0, side if axis == 1 else 0.0, side if axis == 2 else 0.0


@compiled
def ray_sphere(radius: float, o: Floats, d: Floats) -> Hit:
    """A ray and a sphere about the origin.

    The discriminant comes from the distance of the ray's line from the centre, which loses no digits far away
    (Haines and others, Ray Tracing Gems, 2019, chapter 7).
    """
    along = o[0] * d[0] + o[1] * d[1] + o[2] * d[2]
    square = o[0] * o[0] + o[1] * o[1] + o[2] * o[2] - radius * radius
    if square <= 0.0:
        return 0.0, -d[0], -d[1], -d[2]
    if along >= 0.0:
        return NONE, 0.0, 0.0, 0.0
    lx, ly, lz = o[0] - along * d[0], o[1] - along * d[1], o[2] - along * d[2]
    left = radius * radius - (lx * lx + ly * ly + lz * lz)
    if left < 0.0:
        return NONE, 0.0, 0.0, 0.0
    # The nearer root by the product of both, square: no difference of like numbers.
    distance = square / (math.sqrt(left) - along)
    scale = 1.0 / radius
    return (
        distance,
        (o[0] + distance * d[0]) * scale,
        (o[1] + distance * d[1]) * scale,
        (o[2] + distance * d[2]) * scale,
    )


@compiled
def ray_cylinder(radius: float, half: float, o: Floats, d: Floats) -> Hit:
    """A ray and a cylinder of half length ``half`` along z, closed at both ends."""
    near, far, cap = 0.0, math.inf, True
    outside = False
    if d[2] == 0.0:
        if abs(o[2]) > half:
            return NONE, 0.0, 0.0, 0.0
    else:
        enter = -(o[2] + math.copysign(half, d[2])) / d[2]
        far = (math.copysign(half, d[2]) - o[2]) / d[2]
        if enter > near:
            near, outside = enter, True
    a = d[0] * d[0] + d[1] * d[1]
    c = o[0] * o[0] + o[1] * o[1] - radius * radius
    if a == 0.0:
        if c > 0.0:
            return NONE, 0.0, 0.0, 0.0
    else:
        b = o[0] * d[0] + o[1] * d[1]
        across = (o[0] * d[1] - o[1] * d[0]) ** 2
        left = a * radius * radius - across
        if left < 0.0:
            return NONE, 0.0, 0.0, 0.0
        root = math.sqrt(left)
        enter = c / (root - b) if b < 0.0 else (-b - root) / a
        far = min(far, (root - b) / a)
        if enter > near:
            near, cap, outside = enter, False, True
    if near > far:
        return NONE, 0.0, 0.0, 0.0
    if not outside:
        return 0.0, -d[0], -d[1], -d[2]
    if cap:
        return near, 0.0, 0.0, -math.copysign(1.0, d[2])
    return near, (o[0] + near * d[0]) / radius, (o[1] + near * d[1]) / radius, 0.0


@compiled
def ray_plane(o: Floats, d: Floats) -> Hit:
    """A ray and the half-space z > 0."""
    if o[2] >= 0.0:
        return 0.0, 0.0, 0.0, -1.0
    if d[2] <= 0.0:
        return NONE, 0.0, 0.0, 0.0
    return -o[2] / d[2], 0.0, 0.0, -1.0


@compiled
def distance_to_box(hx: float, hy: float, hz: float, x: float, y: float, z: float) -> Hit:
    """Signed distance of a point from a box about the origin."""
    ex, ey, ez = abs(x) - hx, abs(y) - hy, abs(z) - hz
    sx, sy, sz = math.copysign(1.0, x), math.copysign(1.0, y), math.copysign(1.0, z)
    if ex <= 0.0 and ey <= 0.0 and ez <= 0.0:
        if ex >= ey and ex >= ez:
            return ex, sx, 0.0, 0.0
        if ey >= ez:
            return ey, 0.0, sy, 0.0
        return ez, 0.0, 0.0, sz
    ox, oy, oz = max(ex, 0.0), max(ey, 0.0), max(ez, 0.0)
    distance = math.sqrt(ox * ox + oy * oy + oz * oz)
    return distance, sx * ox / distance, sy * oy / distance, sz * oz / distance


@compiled
def distance_to_sphere(radius: float, x: float, y: float, z: float) -> Hit:
    """Signed distance of a point from a sphere about the origin."""
    r = math.sqrt(x * x + y * y + z * z)
    if r == 0.0:
        return -radius, 0.0, 0.0, -1.0
    return r - radius, x / r, y / r, z / r


@compiled
def distance_to_cylinder(radius: float, half: float, x: float, y: float, z: float) -> Hit:
    """Signed distance of a point from a cylinder along z about the origin."""
    r = math.sqrt(x * x + y * y)
    nx, ny = (x / r, y / r) if r > 0.0 else (1.0, 0.0)
    nz = math.copysign(1.0, z)
    side, end = r - radius, abs(z) - half
    if side <= 0.0 and end <= 0.0:
        if side >= end:
            return side, nx, ny, 0.0
        return end, 0.0, 0.0, nz
    across, along = max(side, 0.0), max(end, 0.0)
    distance = math.sqrt(across * across + along * along)
    return distance, nx * across / distance, ny * across / distance, nz * along / distance


@compiled
def ray_solid(shape: Shape, o: Floats, d: Floats) -> Hit:
    """Distance along a ray to a box, sphere, cylinder or plane, and the normal there."""
    h = shape.half_size
    if shape.kind == BOX:
        return ray_box(h[0], h[1], h[2], o, d)
    if shape.kind == SPHERE:
        return ray_sphere(h[0], o, d)
    if shape.kind == CYLINDER:
        return ray_cylinder(h[0], h[2], o, d)
    if shape.kind == PLANE:
        return ray_plane(o, d)
    return NONE, 0.0, 0.0, 0.0


@compiled
def distance_to_solid(shape: Shape, x: float, y: float, z: float) -> Hit:
    """Signed distance of a point from a box, sphere, cylinder or plane, and the normal of the surface."""
    h = shape.half_size
    if shape.kind == BOX:
        return distance_to_box(h[0], h[1], h[2], x, y, z)
    if shape.kind == SPHERE:
        return distance_to_sphere(h[0], x, y, z)
    if shape.kind == CYLINDER:
        return distance_to_cylinder(h[0], h[2], x, y, z)
    if shape.kind == PLANE:
        return -z, 0.0, 0.0, -1.0
    return NONE, 0.0, 0.0, 0.0
