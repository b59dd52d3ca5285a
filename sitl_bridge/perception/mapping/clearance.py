"""Clearance: how far places are from the nearest obstacle of a scene or a map.  Frames: m NED."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from scipy.ndimage import distance_transform_edt

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.world.nearest_surface import nearest
from sitl_bridge.core.world.scene import UNBOUNDED, Scene
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap

Box: TypeAlias = tuple[Floats, Floats]
"""Least and greatest corner, m NED."""


class SceneObstacles:
    """The obstacles of a scene, moving ones where the scene has them now; clearances are exact."""

    finest = 0.0

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def clearance(self, points: Floats, limit: float) -> Floats:
        """Return (n,) m from points (n, 3) to the nearest surface, negative inside a solid."""
        distance, _, _ = nearest(self.scene.record[0], points, limit)
        return np.minimum(distance, limit)

    def box(self) -> Box | None:
        """Return the box that holds all shapes with an end; None for level ground alone."""
        shapes = self.scene.shapes
        ended = [s for s in shapes if np.abs([s["low"], s["high"]]).max() < 0.1 * UNBOUNDED]
        if not ended:
            return None
        return np.min([s["low"] for s in ended], axis=0), np.max([s["high"] for s in ended], axis=0)


class MapObstacles:
    """The obstacles of an occupancy map.

    Args:
        occupancy: the map; later scans do not change these obstacles.
        unknown_is_free: whether a path may cross unknown cells.

    Raises:
        UserError: for an empty map.
    """

    def __init__(self, occupancy: OccupancyMap, *, unknown_is_free: bool = False) -> None:
        if not occupancy.log_odds.size:
            raise UserError("the map is empty; insert a scan before a path is planned in it")
        self.finest = occupancy.cell
        self._corner = occupancy.corner
        blocked = occupancy.occupied if unknown_is_free else ~occupancy.free
        self._free_beyond = unknown_is_free
        if blocked.any():
            self._distance = distance_transform_edt(~blocked, sampling=occupancy.cell).astype(np.float32)
        else:
            self._distance = np.full(blocked.shape, np.float32(np.inf))

    def clearance(self, points: Floats, limit: float) -> Floats:
        """Return (n,) m, a lower bound of the distance from points (n, 3) to the nearest blocked cell.

        The distance between centres of cells is exact; a blocked cell reaches up to half a diagonal from its
        centre.  Outside of the map everything is unknown.
        """
        where = (points - self._corner) / self.finest
        cell = np.floor(where).astype(np.int64)
        inside = ((cell >= 0) & (cell < self._distance.shape)).all(axis=1)
        held = np.clip(cell, 0, np.array(self._distance.shape) - 1)
        centers = self._distance[held[:, 0], held[:, 1], held[:, 2]].astype(np.float64)
        away = np.linalg.norm(where - held - 0.5, axis=1) * self.finest
        bound = centers - away - 0.5 * math.sqrt(3.0) * self.finest
        if self._free_beyond:
            # All blocked cells are within the map.
            beyond = np.maximum(np.maximum(-where, where - np.array(self._distance.shape)), 0.0)
            bound = np.where(inside, bound, np.maximum(bound, np.linalg.norm(beyond, axis=1) * self.finest))
        if not self._free_beyond:
            # The edge of the map is the edge of what is known.
            edge = np.minimum(where, np.array(self._distance.shape) - where).min(axis=1) * self.finest
            bound = np.where(inside, np.minimum(bound, edge), -np.maximum(-edge, 0.0))
        return np.asarray(np.minimum(bound, limit))

    def box(self) -> Box | None:
        """Return the map's box."""
        return self._corner, self._corner + np.array(self._distance.shape) * self.finest


Obstacles = SceneObstacles | MapObstacles
"""Obstacles of a path; a clearance is never more than the true distance, and 0 or less within."""
