"""Outlines of a scene's objects as prisms: what is drawn of them on a map and in 3-D."""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from sitl_bridge.base.arrays import Floats, Mask, Records, Singles
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.world.records import BOX, CYLINDER, PLANE, SPHERE
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import HeightMapObject, MeshObject, OctreeObject

AROUND = np.linspace(0.0, 2.0 * np.pi, 25)[:-1]
MOST_CELLS = 1500
"""Largest number of rectangles that an occupancy map is drawn with."""
GRID = 48
"""Largest number of rows and of columns of terrain."""


def footprints(scene: Scene) -> list[JsonObject]:
    """Plain values of each object: name, colour, and its prisms or its terrain.

    A prism has corners [north, east] and the heights of its bottom and top in m.
    """
    found = []
    for name, shape in scene.objects():
        if int(shape["kind"]) == PLANE:
            continue
        thing = scene.specification.objects[int(shape["object"])]
        entry: JsonObject = {"name": name, "color": [round(float(c), 3) for c in shape["color"]]}
        match thing:
            case HeightMapObject() if thing.geometry is not None:
                entry["terrain"] = _terrain(shape, thing.geometry.heights, thing.geometry.spacing)
            case OctreeObject() if thing.geometry is not None:
                entry["prisms"] = _columns(shape, thing.geometry.occupied, thing.geometry.size)
            case MeshObject() if thing.geometry is not None:
                corners = thing.geometry.vertices @ shape["rotation"].T + shape["position"]
                entry["prisms"] = [_prism(corners)]
            case _:
                entry["prisms"] = [_prism(solid_points(shape))]
        if thing.path is not None:
            points = [*thing.path.points, *thing.path.points[: thing.path.end == "loop"]]
            entry["path"] = np.round(np.array(points, np.float64), 2).tolist()
        found.append(entry)
    return found


def _prism(corners: Floats) -> JsonObject:
    """The prism around points: their hull from above, from the lowest to the highest."""
    return {
        "outline": np.round(outline_of(corners), 2).tolist(),
        "bottom": round(float(-corners[:, 2].max()), 2),
        "top": round(float(-corners[:, 2].min()), 2),
    }


def outline_of(points: Floats) -> Floats:
    """Corners (k, 2) north, east of the hull of points, seen from above."""
    seen = points[:, :2]
    try:
        return np.asarray(seen[ConvexHull(seen).vertices])
    except QhullError:  # too thin for an area
        return np.asarray(np.array([seen.min(axis=0), seen.max(axis=0)]))


def solid_points(shape: Records) -> Floats:
    """Points (k, 3) m NED of a box, cylinder or sphere, whose hull is the solid."""
    half, kind = shape["half_size"], int(shape["kind"])
    if kind == BOX:
        points = np.array(np.meshgrid(*((-h, h) for h in half))).reshape(3, -1).T
    else:
        assert kind in (CYLINDER, SPHERE)
        ring = np.column_stack([half[0] * np.cos(AROUND), half[0] * np.sin(AROUND), np.zeros(len(AROUND))])
        end = np.array([0.0, 0.0, half[0] if kind == SPHERE else half[2]])
        points = np.concatenate([ring - end, ring + end])
    if kind == SPHERE:
        return np.asarray(points + shape["position"], np.float64)
    return np.asarray(points @ shape["rotation"].T + shape["position"], np.float64)


def _columns(shape: Records, occupied: Mask, size: float) -> list[JsonObject]:
    """Rows of occupied columns of an occupancy map, joined; coarser until they are few."""
    step = 1
    while True:
        rows, columns, layers = occupied.shape
        trimmed = occupied[: rows // step * step, : columns // step * step]
        coarse = np.asarray(
            trimmed.reshape(rows // step, step, columns // step, step, layers).any(axis=(1, 3))
        )
        flat = np.asarray(coarse.any(axis=2))
        edges = np.diff(np.pad(flat, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        starts, ends = np.argwhere(edges == 1), np.argwhere(edges == -1)
        if len(starts) <= MOST_CELLS:
            break
        step *= 2
    cell = step * size
    prisms = []
    for (row, first), (_, after) in zip(starts, ends, strict=True):
        levels = np.flatnonzero(coarse[row, first:after].any(axis=0))
        low = np.array([row * cell, first * cell, levels[0] * size])
        high = np.array([(row + 1) * cell, after * cell, (levels[-1] + 1) * size])
        box = np.array(np.meshgrid(*zip(low, high, strict=True))).reshape(3, -1).T
        prisms.append(_prism(box @ shape["rotation"].T + shape["position"]))
    return prisms


def _terrain(shape: Records, heights: Singles, spacing: float) -> JsonObject:
    """Terrain on a coarse grid: corner, axes of rows and columns, heights above the origin."""
    step = max(1, -(-max(heights.shape) // GRID))
    coarse = heights[::step, ::step].astype(np.float64) - float(shape["position"][2])
    turn = shape["rotation"]
    return {
        "corner": np.round(shape["position"][:2], 2).tolist(),
        "row": np.round(turn[:2, 0] * spacing * step, 4).tolist(),
        "column": np.round(turn[:2, 1] * spacing * step, 4).tolist(),
        "heights": np.round(coarse, 1).tolist(),
    }
