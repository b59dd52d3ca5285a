"""Obstacles of the controller from a world's scene and from an occupancy map.

The controller knows spheres, upright cylinders and boxes along north, east and down.  What else stands in a
scene is taken as the box that holds it; an occupancy map becomes boxes of whole cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypeVar

import numpy as np
from pydantic import ValidationError

from sitl_bridge.base.arrays import Floats, Ints, Mask, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.world.records import BOX, CYLINDER, HEIGHT_MAP, MESH, SPHERE
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import SceneSpecification
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.swarm.avoidance.neighbours import to_vector
from sitl_bridge.swarm.avoidance.specification import (
    MOST_OBSTACLES,
    BoxPlan,
    CylinderPlan,
    RouteSpecification,
    SpherePlan,
)

Plan: TypeAlias = SpherePlan | CylinderPlan | BoxPlan
AnyPlan = TypeVar("AnyPlan", SpherePlan | CylinderPlan | BoxPlan, BoxPlan)

NEAR = 5.0
"""m around the routes within which obstacles count."""
_UPRIGHT = 1.0 - 1e-9


def obstacles_of_scene(scene: SceneSpecification, routes: Iterable[RouteSpecification]) -> tuple[Plan, ...]:
    """Return the obstacles of a scene near routes.

    Args:
        scene: with the geometry of its files loaded.
        routes: of the vehicles, with a point or more.

    Raises:
        UserError: for what the controller cannot avoid: moving objects, planes, terrain, octrees, objects
            beyond the limits of obstacles, and more than ``MOST_OBSTACLES`` objects.
    """
    low, high = _surroundings(routes)
    found: list[Plan] = []
    for name, shape in Scene(scene).objects():
        if (shape["high"] < low).any() or (shape["low"] > high).any():
            continue
        if shape["path"]:
            raise UserError(f"{name} moves: the controller avoids vehicles and what stands still")
        if shape["kind"] not in (BOX, SPHERE, CYLINDER, MESH):
            kind = "is terrain" if shape["kind"] == HEIGHT_MAP else "is a plane or an octree"
            raise UserError(
                f"{name} {kind}: the controller avoids spheres, cylinders, boxes and meshes; save a map of it"
                " for `map`, or set `scene: false`"
            )
        try:
            found.append(_plan(name, shape))
        except ValidationError as error:
            reasons = "; ".join(f"{e['loc'][0]}: {e['msg']}" for e in error.errors())
            raise UserError(f"{name} cannot be an obstacle: {reasons}; set `scene: false`") from error
    return _few_enough(found, "the scene")


def obstacles_of_map(seen: OccupancyMap, routes: Iterable[RouteSpecification]) -> tuple[BoxPlan, ...]:
    """Return the occupied cells of a map near routes, as boxes; unknown cells are free.

    Raises:
        UserError: for a map that needs more than ``MOST_OBSTACLES`` boxes.
    """
    near = seen.within(*_surroundings(routes))
    boxes = _boxes(near.occupied)
    found = [
        BoxPlan(
            kind="box",
            name=f"map {i}",
            centre=to_vector(near.corner + 0.5 * (first + last) * near.cell),
            edges=to_vector((last - first) * near.cell),
        )
        for i, (first, last) in enumerate(boxes)
    ]
    return _few_enough(found, f"the map, with cells of {seen.cell:g} m,")


def _plan(name: str, shape: Records) -> Plan:
    if shape["kind"] == SPHERE:
        return SpherePlan(
            kind="sphere", name=name, centre=to_vector(shape["position"]), radius=float(shape["half_size"][0])
        )
    if shape["kind"] == CYLINDER and abs(shape["rotation"][2, 2]) > _UPRIGHT:
        radius, _, half = shape["half_size"].tolist()
        centre = to_vector(shape["position"])
        return CylinderPlan(kind="cylinder", name=name, centre=centre, radius=radius, height=2.0 * half)
    middle, edges = 0.5 * (shape["low"] + shape["high"]), np.maximum(shape["high"] - shape["low"], 1e-3)
    return BoxPlan(kind="box", name=name, centre=to_vector(middle), edges=to_vector(edges))


def _surroundings(routes: Iterable[RouteSpecification]) -> tuple[Floats, Floats]:
    """Return the least and the greatest corner, m NED, of the box around routes in which obstacles count."""
    points = np.array([p for r in routes for p in (*r.points, *(row[1:] for row in r.table))])
    return points.min(axis=0) - NEAR, points.max(axis=0) + NEAR


def _boxes(occupied: Mask) -> list[tuple[Ints, Ints]]:
    """Return boxes of cells (first, past the last) that together are the occupied ones, greedily large."""
    left, found = occupied.copy(), []
    for start in np.argwhere(occupied):
        if not left[tuple(start)]:
            continue
        last = start + 1
        for axis in (2, 1, 0):
            while last[axis] < left.shape[axis]:
                layer = [slice(int(a), int(b)) for a, b in zip(start, last, strict=True)]
                layer[axis] = slice(int(last[axis]), int(last[axis]) + 1)
                if not left[tuple(layer)].all():
                    break
                last[axis] += 1
        left[tuple(slice(int(a), int(b)) for a, b in zip(start, last, strict=True))] = False
        found.append((start, last))
    return found


def _few_enough(found: list[AnyPlan], what: str) -> tuple[AnyPlan, ...]:
    if len(found) > MOST_OBSTACLES:
        raise UserError(
            f"{what} has {len(found)} obstacles within {NEAR:g} m of the routes; the controller takes"
            f" {MOST_OBSTACLES}: join them, use larger cells, or list the ones that matter as obstacles"
        )
    return tuple(found)
