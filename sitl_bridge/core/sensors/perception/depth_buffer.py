"""A depth buffer: which surface each pixel of a pinhole camera shows, and its depth.

What it draws: triangles, planes and quadrics.  scene_drawing.py draws a scene with them.

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

from sitl_bridge.base.arrays import Floats, Singles
from sitl_bridge.base.kernels.compiled import compiled

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
    """What is drawn into."""

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
        image: ``Image``.
        shape: what is written.
        triangle: what is written.
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
        first: column.
        last: column.
        image: ``Image``.
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
