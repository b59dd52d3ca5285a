"""Obstacles of the controller from a world's scene.

The controller knows spheres, upright cylinders and boxes along north, east and down.  What else stands in a
scene is taken as the box that holds it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.world import records
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import SceneSpecification
from sitl_bridge.swarm.avoidance.neighbours import Obstacle, to_vector
from sitl_bridge.swarm.avoidance.records import BOX, CYLINDER, SPHERE
from sitl_bridge.swarm.avoidance.specification import RouteSpecification

MOST_OBSTACLES = 64
"""Obstacles of a scenario; every vehicle weighs all of them at every point of its plan."""
NEAR = 5.0
"""m around the routes within which obstacles count."""
_UPRIGHT = 1.0 - 1e-9


def obstacles_of_scene(
    scene: SceneSpecification, routes: Iterable[RouteSpecification]
) -> tuple[Obstacle, ...]:
    """Return the obstacles of a scene near routes, in the order of its objects.

    Args:
        scene: with the geometry of its files loaded.
        routes: of the vehicles.

    Raises:
        UserError: for what the controller cannot avoid: moving objects, planes, terrain, octrees, and more
            than ``MOST_OBSTACLES`` objects.
    """
    points = np.array([point for route in routes for point in route.points])
    low, high = points.min(axis=0) - NEAR, points.max(axis=0) + NEAR
    found: list[Obstacle] = []
    for name, shape in sorted(Scene(scene).objects(), key=lambda pair: int(pair[1]["object"])):
        if (shape["high"] < low).any() or (shape["low"] > high).any():
            continue
        if shape["path"]:
            raise UserError(f"{name} moves: the controller avoids vehicles and what stands still")
        if shape["kind"] not in (records.BOX, records.SPHERE, records.CYLINDER, records.MESH):
            kind = "is terrain" if shape["kind"] == records.HEIGHT_MAP else "is a plane or an octree"
            raise UserError(
                f"{name} {kind}: the controller avoids spheres, cylinders, boxes and meshes; set"
                " `scene: false`"
            )
        found.append(_obstacle(name, shape))
    if len(found) > MOST_OBSTACLES:
        raise UserError(
            f"the scene has {len(found)} obstacles within {NEAR:g} m of the routes; the controller takes"
            f" {MOST_OBSTACLES}: join them"
        )
    return tuple(found)


def _obstacle(name: str, shape: Records) -> Obstacle:
    half = shape["half_size"]
    if shape["kind"] == records.SPHERE:
        return Obstacle(SPHERE, to_vector(shape["position"]), (float(half[0]), 0.0, 0.0), name)
    if shape["kind"] == records.CYLINDER and abs(shape["rotation"][2, 2]) > _UPRIGHT:
        return Obstacle(CYLINDER, to_vector(shape["position"]), (float(half[0]), float(half[2]), 0.0), name)
    middle, edges = 0.5 * (shape["low"] + shape["high"]), np.maximum(shape["high"] - shape["low"], 1e-3)
    return Obstacle(BOX, to_vector(middle), to_vector(0.5 * edges), name)
