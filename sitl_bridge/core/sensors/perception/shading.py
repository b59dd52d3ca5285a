"""Compiled rendering: the light that comes along rays, and the pixels that an image sensor makes of it.

Surfaces scatter by Lambert's law, under one sun and an even light from all around; there are no shadows.
Surfaces without a texture or picture carry a pattern of squares of random brightness, several sizes on top of
one another, so that an image has corners at every distance.  It is fixed to the world on the ground, to the
object elsewhere.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Bytes, Floats, Ints, Records, Singles
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.world.bounding_tree import DEEPEST
from sitl_bridge.core.world.ray_casting import GROUND, NOTHING, ray_mesh
from sitl_bridge.core.world.records import (
    CHECKER,
    IMAGE,
    MESH,
    NOISE,
    PICTURE,
    STRIPES,
    TRIANGLE,
    TRIANGLE_PAINT,
    MeshPaint,
    Shape,
    TextureRecord,
    Triangle,
)

SQUARES = (8.0, 2.0, 0.5, 0.125, 0.03125)
"""m, sides of the squares."""
OFF_GRID = 0.00217
"""m by which the squares are shifted: faces at round figures do not lie on a border."""
GROUND_CONTRAST, OBJECT_CONTRAST = 0.9, 0.5
"""Range of the brightness relative to its mean."""
HORIZON, ZENITH = (0.78, 0.84, 0.90), (0.36, 0.56, 0.86)
"""Colours of the sky."""


@compiled
def _hash_cell(x: int, y: int, z: int, salt: int) -> float:
    """A number in 0..1 for every cell, by the finaliser of MurmurHash3."""
    h = (x * 73856093) ^ (y * 19349663) ^ (z * 83492791) ^ (salt * 2654435761)
    h &= 0xFFFFFFFF
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & 0xFFFFFFFF
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & 0xFFFFFFFF
    h ^= h >> 16
    return h / 4294967295.0


@compiled
def pattern(x: float, y: float, z: float, footprint: float) -> float:
    """Brightness -0.5 to 0.5 of the pattern at a point (m).

    Squares smaller than a pixel's footprint (m) count by their mean.
    """
    total = 0.0
    for k in range(len(SQUARES)):
        side = SQUARES[k]
        share = min(max(side / max(footprint, 1e-9) - 1.0, 0.0), 1.0)
        if share > 0.0:
            cell = _hash_cell(
                math.floor((x + OFF_GRID) / side),
                math.floor((y + OFF_GRID) / side),
                math.floor((z + OFF_GRID) / side),
                k,
            )
            total += share * (cell - 0.5)
    return total / len(SQUARES)


@compiled
def _image_color(texture: TextureRecord, across: float, down: float, color: Floats) -> None:
    """Colour of a TEXTURE's image at a place on a face (m); where it does not reach, ``color`` stays."""
    rows, columns = texture.rows, texture.columns
    x, y = across / texture.size + 0.5, down / (texture.size * rows / columns) + 0.5
    if texture.face == 1 and not (0.0 <= x < 1.0 and 0.0 <= y < 1.0):
        return
    column = min(int((x - math.floor(x)) * columns), columns - 1)
    row = min(int((y - math.floor(y)) * rows), rows - 1)
    cells = array_at(texture.cells, rows * columns * 3, np.uint8)
    for c in range(3):
        color[c] = cells[(row * columns + column) * 3 + c] / 255.0


@compiled
def paint(texture: TextureRecord, point: Floats, normal: Floats, color: Floats) -> None:
    """Lay a texture on a surface.

    Args:
        point: (3,) m, in the shape's axes.
        normal: (3,) in the shape's axes.
        color: (3,) the surface's own, changed.
    """
    x, y, z = abs(normal[0]), abs(normal[1]), abs(normal[2])
    across, down, face = point[1], point[2], 0
    if z >= x and z >= y:
        down, face = -point[0], 2
        if texture.face == 1 and normal[2] > 0.0:
            return
    elif texture.face == 1:
        return
    elif y > x:
        across, face = point[0], 1
    if texture.kind == IMAGE:
        _image_color(texture, across, down, color)
        return
    column = math.floor((across + OFF_GRID * 1e-3) / texture.size)
    row = math.floor((down + OFF_GRID * 1e-3) / texture.size)
    share = 0.0
    if texture.kind == CHECKER:
        share = float((column + row) % 2)
    elif texture.kind == STRIPES:
        share = float(column % 2)
    elif texture.kind == NOISE:
        share = _hash_cell(column, row, face, len(SQUARES))
    for c in range(3):
        color[c] += share * (texture.color[c] - color[c])


@compiled
def place_in_triangle(t: Triangle, point: Floats) -> tuple[float, float]:
    """Shares (a, b) of a TRIANGLE's two edges that lead from its corner to a point of its plane.

    With the edges e and f and the way p from the corner, a and b solve the normal equations of p = a e + b f.
    """
    ee, ef, ff, pe, pf = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(3):
        e, f = np.float64(t.edge[0, i]), np.float64(t.edge[1, i])
        way = point[i] - np.float64(t.corner[i])
        ee += e * e
        ef += e * f
        ff += f * f
        pe += way * e
        pf += way * f
    determinant = ee * ff - ef * ef
    if determinant <= 0.0:
        return 0.0, 0.0
    return (pe * ff - pf * ef) / determinant, (pf * ee - pe * ef) / determinant


@compiled
def paint_triangle(shape: Shape, painted: MeshPaint, index: int, point: Floats, color: Floats) -> bool:
    """Colour of a mesh at a point of one of its triangles; returns whether it is that of a picture.

    Args:
        shape: SHAPE of kind MESH.
        index: of the triangle.
        point: (3,) m, in the shape's axes.
        color: (3,) written.
    """
    t = array_at(shape.triangles, shape.triangle_count, TRIANGLE)[index]
    for c in range(3):
        color[c] = t.color[c]
    if painted.triangles == 0:
        return False
    paint = array_at(painted.triangles, shape.triangle_count, TRIANGLE_PAINT)[index]
    if paint.picture < 0:
        return False
    a, b = place_in_triangle(t, point)
    uv = paint.uv
    x = uv[0, 0] + a * (uv[1, 0] - uv[0, 0]) + b * (uv[2, 0] - uv[0, 0])
    y = uv[0, 1] + a * (uv[1, 1] - uv[0, 1]) + b * (uv[2, 1] - uv[0, 1])
    picture = array_at(painted.pictures, painted.picture_count, PICTURE)[paint.picture]
    rows, columns = picture.rows, picture.columns
    column = min(int((x - math.floor(x)) * columns), columns - 1)
    row = min(int((1.0 - y + math.floor(y)) * rows), rows - 1)
    cells = array_at(picture.cells, rows * columns * 3, np.uint8)
    for c in range(3):
        color[c] = cells[(row * columns + column) * 3 + c] / 255.0
    return True


@compiled
def _triangle_met(shape: Shape, origin: Floats, direction: Floats, distance: float) -> int:
    """The triangle of a mesh that a ray meets at a known distance; -1 where rounding hides it.

    Args:
        shape: SHAPE of kind MESH.
        origin: (3,) m NED.
        direction: (3,) unit vector NED.
        distance: m.
    """
    r = shape.rotation
    local, stack = np.empty((3, 3)), np.empty(DEEPEST, np.int64)
    for i in range(3):
        local[0, i], local[1, i] = 0.0, 0.0
        for j in range(3):
            local[0, i] += r[j, i] * (origin[j] - shape.position[j])
            local[1, i] += r[j, i] * direction[j]
        d = local[1, i]
        local[2, i] = 1.0 / d if d != 0.0 else math.copysign(1e300, d)
    limit = distance * (1.0 + 1e-6) + 1e-6
    return ray_mesh(shape, local[0], local[1], local[2], limit, stack)[1]


@compiled
def shade(
    origins: Floats,
    directions: Floats,
    hits: tuple[Floats, Floats, Ints, NDArray[np.int32]],
    scene: tuple[Records, Records, Records],
    light: Floats,
    pixel: float,
    radiance: Singles,
) -> None:
    """Red, green and blue that come along rays.

    Args:
        origins: (n, 3) m NED, or (1, 3) for all.
        directions: (n, 3) unit vectors NED.
        hits: tuple of distance (n,), normal (n, 3), shape (n,) and triangle (n,).
        scene: tuple of the shapes (k,) SHAPE, what is painted on them (k,) MESH_PAINT, and (1,) SCENE.
        light: (4,) unit vector NED to the sun, and the share of light from all around.
        pixel: rad that a pixel sees.
        radiance: (n, 3) float32, written; 1 is a white surface that faces the sun.
    """
    distance, normal, shape, triangle = hits
    shapes, paints, ground = scene
    one = origins.shape[0] == 1
    point, facing_out, color = np.empty(3), np.empty(3), np.empty(3)
    for i in range(directions.shape[0]):
        k = shape[i]
        if k == NOTHING:
            up = math.sqrt(min(max(-directions[i, 2], 0.0), 1.0))
            for c in range(3):
                radiance[i, c] = HORIZON[c] + up * (ZENITH[c] - HORIZON[c])
            continue
        o = origins[0 if one else i]
        x = o[0] + distance[i] * directions[i, 0]
        y = o[1] + distance[i] * directions[i, 1]
        z = o[2] + distance[i] * directions[i, 2]
        facing, towards = 0.0, 0.0
        for j in range(3):
            facing -= normal[i, j] * directions[i, j]
            towards += normal[i, j] * light[j]
        footprint = pixel * distance[i] / max(facing, 0.02)
        lit = light[3] + (1.0 - light[3]) * max(towards, 0.0)
        if k == GROUND:
            point[0], point[1], point[2] = x, y, 0.0
            for c in range(3):
                color[c], facing_out[c] = ground[0].ground_color[c], normal[i, c]
            if ground[0].ground_texture.kind == 0:
                lit *= 1.0 + GROUND_CONTRAST * 2.0 * pattern(x, y, 0.0, footprint)
            else:
                paint(ground[0].ground_texture, point, facing_out, color)
        else:
            r, p = shapes[k].rotation, shapes[k].position
            x, y, z = x - p[0], y - p[1], z - p[2]
            for c in range(3):
                color[c] = shapes[k].color[c]
                point[c] = r[0, c] * x + r[1, c] * y + r[2, c] * z
                facing_out[c] = r[0, c] * normal[i, 0] + r[1, c] * normal[i, 1] + r[2, c] * normal[i, 2]
            pictured = False
            if shapes[k].kind == MESH:
                met = int(triangle[i])
                if met < 0:
                    met = _triangle_met(shapes[k], o, directions[i], distance[i])
                pictured = met >= 0 and paint_triangle(shapes[k], paints[k], met, point, color)
            if shapes[k].texture.kind != 0:
                paint(shapes[k].texture, point, facing_out, color)
            elif not pictured:
                lit *= 1.0 + OBJECT_CONTRAST * 2.0 * pattern(point[0], point[1], point[2], footprint)
        for c in range(3):
            radiance[i, c] = lit * color[c]


@compiled
def expose(
    radiance: Singles, weight: Singles, gauss: Singles, figures: tuple[float, float, float], image: Bytes
) -> None:
    """Signal of an image sensor, by the linear model of EMVA 1288 (release 3.1, section 2).

    A pixel collects e electrons on average, with the variance e + d^2 (shot noise and read noise); the full
    well gives the greatest value.  Rounding adds the variance 1/12.

    Args:
        radiance: (pixels * s, 3) float32, s samples a pixel.
        weight: (pixels,) share of the light that reaches a pixel.
        gauss: (pixels * channels,) float32, standard normal.
        figures: tuple of the value for radiance 1 as a share of the full well, the full well and the read
            noise in electrons; a full well of 0 is without noise.
        image: (pixels, channels) uint8, written; one channel is the luminance.
    """
    gain, well, read = figures
    pixels, channels = image.shape
    samples = radiance.shape[0] // pixels
    for i in range(pixels):
        red, green, blue = 0.0, 0.0, 0.0
        for s in range(i * samples, (i + 1) * samples):
            red += radiance[s, 0]
            green += radiance[s, 1]
            blue += radiance[s, 2]
        scale = gain * weight[i] / samples
        for c in range(channels):
            if channels == 1:
                light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
            else:
                light = red if c == 0 else (green if c == 1 else blue)
            value = light * scale
            if well > 0.0:
                electrons = value * well
                value += math.sqrt(electrons + read * read) / well * gauss[i * channels + c]
            image[i, c] = int(min(max(255.0 * value + 0.5, 0.0), 255.0))
